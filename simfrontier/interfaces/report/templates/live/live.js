// The live page: what the controls say is asked for, and what comes back is drawn. One question is under way at a time;
// what was moved meanwhile is asked next.
(function () {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const form = $("controls");
  const moves = JSON.parse($("moves").textContent); // texts of each control's values, in a link
  const stops = JSON.parse($("stops").textContent); // of the colours of links: share, colour
  const controls = [...form.querySelectorAll("input, select")];
  let plan = ""; // whose step is shown; empty: the fastest
  let found; // the last answer
  let view = [0, 1]; // of the step, that the timeline shows
  let chosen = null; // a stretch of the step
  let asked = false, waiting = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const seconds = (value) =>
    value >= 1 ? `${value.toPrecision(3)} s` : value >= 1e-3 ? `${(value * 1e3).toPrecision(3)} ms` : `${(value * 1e6).toPrecision(3)} µs`;
  const gigabytes = (value) => (value >= 1e9 ? `${(value / 1e9).toPrecision(3)} GB` : `${(value / 1e6).toPrecision(3)} MB`);
  const rate = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
  const percent = (share) => `${(100 * share).toPrecision(3)} %`;

  // ── controls and the link ──

  const placeOf = (control) => (control.type === "checkbox" ? Number(control.checked) : Number(control.value));

  function setPlace(control, place) {
    if (control.type === "checkbox") control.checked = Boolean(place);
    else control.value = String(place);
  }

  function query() {
    const said = new URLSearchParams();
    for (const control of controls) {
      const place = placeOf(control);
      if (place !== Number(control.dataset.own)) said.set(control.name, moves[control.name][place]);
    }
    if (plan) said.set("plan", plan);
    return said;
  }

  function readLink() {
    const said = new URLSearchParams(location.search);
    for (const control of controls) {
      const place = moves[control.name].indexOf(said.get(control.name));
      setPlace(control, place < 0 ? Number(control.dataset.own) : place);
    }
    plan = said.get("plan") ?? "";
  }

  function showPlaces() {
    for (const control of controls) {
      const place = placeOf(control);
      control.closest(".control").classList.toggle("moved", place !== Number(control.dataset.own));
      if (control.type === "range") {
        const own = place === Number(control.dataset.own) ? found?.own[control.name] : undefined;
        const words = own ?? JSON.parse(control.dataset.words)[place];
        control.setAttribute("aria-valuetext", words);
        control.closest(".control").querySelector("output").textContent = words;
      }
    }
    const text = query().toString();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
    $("file").href = `scenario.toml${text ? `?${text}` : ""}`;
  }

  // ── questions and answers ──

  async function ask() {
    showPlaces();
    if (asked) {
      waiting = true;
      return;
    }
    asked = true;
    document.body.classList.add("busy");
    const said = query();
    const answer = await answered(said);
    say(answer.error);
    if (!answer.error) show(answer);
    asked = false;
    document.body.classList.remove("busy");
    document.body.dataset.answers = String(Number(document.body.dataset.answers ?? 0) + 1);
    if (waiting) {
      waiting = false;
      ask();
    }
  }

  async function answered(said) {
    let response;
    try {
      response = await fetch(`answer?${said}`);
    } catch {
      return { error: "simfrontier serve does not answer; was it stopped?" };
    }
    try {
      return await response.json();
    } catch {
      return { error: `simfrontier serve failed (${response.status}); its terminal says why.` };
    }
  }

  // What is wrong, if anything: then the figures are those of an earlier state.
  function say(error) {
    $("error").hidden = !error;
    $("error").textContent = error ?? "";
    $("verdict").hidden = Boolean(error) && !found; // nothing is being simulated
    document.body.classList.toggle("stale", Boolean(error));
  }

  function show(answer) {
    found = answer;
    $("verdict").textContent = answer.verdict;
    $("moved").textContent = answer.moved.length ? `Moved: ${answer.moved.join("; ")}.` : "";
    $("samples").textContent = answer.num_samples;
    $("sampled").hidden = !answer.num_samples;
    $("plans").hidden = false;
    $("reading").hidden = !answer.plans.some((one) => one.fits);
    showPlaces();
    showRates(found.plans);
    showKey($("parts"), answer.parts);
    const step = answer.step;
    $("shown").textContent = step ? step.plan : "…";
    $("whole").textContent = step ? seconds(step.step_us * 1e-6) : "";
    $("step").hidden = !step;
    if (!step) return;
    $("links").innerHTML = step.drawing;
    showKey($("colours"), step.colours.filter((_, kind) => step.spans.kind.includes(kind)));
    showKey($("kinds"), step.kinds);
    draw();
  }

  function showKey(box, parts) {
    box.replaceChildren(
      ...parts.map((part) => {
        const item = document.createElement("span"), swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.background = part.colour;
        item.append(swatch, part.name);
        return item;
      })
    );
  }

  function showRates(plans) {
    const focused = document.activeElement?.closest?.(".plan")?.dataset.plan;
    const rates = ticksTo(Math.max(...plans.map((one) => (one.fits ? Math.max(one.high, one.nominal, one.rate) : 0)), 1e-9));
    const times = ticksTo(Math.max(...plans.map((one) => (one.fits ? one.step_s : 0)), 1e-9));
    const most = rates.at(-1), longest = times.at(-1);
    const x = (value) => `${(100 * value) / most}%`;
    const grid = () => [
      ...times.map((at) => mark("tick", `left:${(100 * at) / longest}%`)),
      ...rates.map((at) => mark("tick below", `left:${x(at)}`)),
    ];
    const rows = plans.map((one) => {
      const row = document.createElement("button");
      row.type = "button";
      row.className = "plan";
      row.dataset.plan = one.plan;
      row.setAttribute("aria-pressed", String(found.step?.plan === one.plan));
      row.disabled = !one.fits;
      const name = document.createElement("b");
      name.textContent = one.plan;
      const track = document.createElement("span"), number = document.createElement("span");
      track.className = "track";
      track.append(...grid());
      number.className = "number";
      if (one.fits) {
        let at = 0;
        for (const [index, share] of one.parts.entries()) {
          const width = (share * one.step_s) / longest;
          track.append(mark("part", `left:${100 * at}%;width:${100 * width}%;background:${found.parts[index].colour}`));
          at += width;
        }
        track.append(mark("band", `left:${x(one.low)};width:calc(${x(one.high)} - ${x(one.low)});background:${one.colour}`));
        track.append(mark("nominal", `left:${x(one.nominal)}`), mark("median", `left:${x(one.rate)}`));
        const more = document.createElement("small");
        more.textContent = `${seconds(one.step_s)}, ${gigabytes(one.peak_bytes)}`;
        const between = one.high > one.low ? ` (${rate(one.low)} to ${rate(one.high)})` : "";
        number.append(`${rate(one.rate)} ${found.unit}${between}`, more);
        row.append(name, track, number);
      } else {
        number.textContent = `does not fit: ${one.note}`;
        row.classList.add("misfit");
        row.append(name, number);
      }
      return row;
    });
    const fits = plans.some((one) => one.fits);
    const above = fits ? [axisRow("time of a step", times, (at) => (at ? seconds(at) : "0"))] : [];
    const below = fits ? [axisRow($("rates").dataset.unit, rates, (at) => rate(at))] : [];
    $("rates").replaceChildren(...above, ...rows, ...below);
    if (focused) $("rates").querySelector(`[data-plan="${CSS.escape(focused)}"]`)?.focus();
  }

  // Round ticks of an axis from 0 to the first that is no lower.
  function ticksTo(highest) {
    const base = 10 ** Math.floor(Math.log10(highest)), gap = [0.1, 0.2, 0.5, 1, 2].map((by) => by * base).find((by) => highest / by <= 5);
    return Array.from({ length: Math.ceil(highest / gap) + 1 }, (_, number) => number * gap);
  }

  // An axis of the rows of plans: its name, and its ticks over their tracks.
  function axisRow(name, ticks, words) {
    const row = document.createElement("div"), label = document.createElement("span"), track = document.createElement("span");
    row.className = "axis";
    row.setAttribute("aria-hidden", "true"); // rows say their numbers in words
    label.textContent = name;
    track.className = "track";
    for (const at of ticks) {
      const tick = document.createElement("span");
      tick.textContent = words(at);
      tick.style.left = `${(100 * at) / ticks.at(-1)}%`;
      track.append(tick);
    }
    row.append(label, track);
    return row;
  }

  function mark(kind, style) {
    const made = document.createElement("i");
    made.className = kind;
    made.style.cssText = style;
    return made;
  }

  // ── the step over time ──

  const LABELS = 74; // pixels for the names of lanes

  function surface(canvas) {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    return { context, width, height };
  }

  const placeX = (share, width) => LABELS + ((share - view[0]) / (view[1] - view[0])) * (width - LABELS);
  const shareAt = (x, width) => view[0] + ((x - LABELS) / (width - LABELS)) * (view[1] - view[0]);

  function drawTimeline() {
    const { context, width, height } = surface($("timeline"));
    const step = found.step, rowHeight = (height - 22) / step.lanes.length;
    drawTicks(context, width, height);
    const { start, end, lane, kind } = step.spans, scale = 1 / step.step_us;
    for (let pass = 0; pass < step.colours.length; pass++) {
      context.fillStyle = step.colours[pass].colour;
      let last = -1, lastRow = -1; // spans of one colour narrower than a pixel are drawn once
      for (let index = 0; index < start.length; index++) {
        if (kind[index] !== pass) continue;
        const from = start[index] * scale, to = end[index] * scale;
        if (to < view[0] || from > view[1]) continue;
        const x = Math.max(placeX(from, width), LABELS), until = placeX(to, width);
        if (until - last < 0.7 && lane[index] === lastRow) continue;
        context.fillRect(x, 4 + lane[index] * rowHeight, Math.max(until - x, 0.7), rowHeight - 5);
        last = until;
        lastRow = lane[index];
      }
    }
    context.fillStyle = colour("--panel");
    context.fillRect(0, 0, LABELS - 2, height);
    context.fillStyle = colour("--ink");
    context.textBaseline = "middle";
    step.lanes.forEach((name, row) => context.fillText(name, 6, 4 + (row + 0.45) * rowHeight, LABELS - 10));
    drawChosen(context, width, height);
  }

  function drawTicks(context, width, height) {
    const whole = found.step.step_us * 1e-6, span = (view[1] - view[0]) * whole;
    const base = 10 ** Math.floor(Math.log10(span / 4)), gap = [1, 2, 5, 10].map((by) => by * base).find((by) => span / by <= 8);
    context.fillStyle = colour("--soft");
    context.strokeStyle = colour("--line");
    context.textBaseline = "bottom";
    for (let at = Math.ceil((view[0] * whole) / gap) * gap; at <= view[1] * whole + 1e-12; at += gap) {
      const x = placeX(at / whole, width);
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - 16);
      context.stroke();
      context.fillText(at < gap / 2 ? "0" : seconds(at), Math.min(x + 3, width - 52), height - 2);
    }
  }

  function drawChosen(context, width, height) {
    if (!chosen) return;
    const [from, to] = chosen.map((share) => Math.max(placeX(share, width), LABELS));
    context.fillStyle = colour("--accent");
    context.globalAlpha = 0.16;
    context.fillRect(from, 0, to - from, height - 16);
    context.globalAlpha = 1;
    context.fillRect(from - 1, 0, 2, height - 16);
    context.fillRect(to - 1, 0, 2, height - 16);
  }

  function drawMemory() {
    const { context, width, height } = surface($("memory"));
    const step = found.step, { times } = step.memory, low = height - 18;
    const most = Math.max(step.memory.peak_bytes, step.capacity_bytes) * 1.04;
    const y = (bytes) => low - (bytes / most) * (low - 4);
    drawTicks(context, width, height);
    // The highest layer is drawn first, each from the ground up, so that those below it cover the rest.
    const top = times.map((_, index) => step.memory.held.reduce((sum, held) => sum + held[index], 0));
    const edges = [...times, step.step_us].map((time) => Math.min(Math.max(placeX(time / step.step_us, width), LABELS), width));
    for (let row = step.kinds.length - 1; row >= 0; row--) {
      context.fillStyle = step.kinds[row].colour;
      context.beginPath();
      context.moveTo(edges[0], low);
      for (let index = 0; index < times.length; index++) {
        if (edges[index + 1] > edges[index]) {
          context.lineTo(edges[index], y(top[index]));
          context.lineTo(edges[index + 1], y(top[index]));
        }
        top[index] -= step.memory.held[row][index];
      }
      context.lineTo(edges[times.length], low);
      context.fill();
    }
    context.strokeStyle = "#B22222";
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(LABELS, y(step.capacity_bytes));
    context.lineTo(width, y(step.capacity_bytes));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colour("--soft");
    context.textBaseline = "top";
    context.fillText(gigabytes(step.capacity_bytes), 6, Math.max(y(step.capacity_bytes) - 6, 2));
    drawChosen(context, width, height);
  }

  // The most that is held at once in the chosen stretch, or in all of the step.
  function showHeld() {
    const { times, held } = found.step.memory;
    const [from, to] = (chosen ?? [0, 1]).map((share) => share * found.step.step_us);
    let most = 0;
    for (let index = 0; index < times.length; index++) {
      const until = index + 1 < times.length ? times[index + 1] : found.step.step_us;
      if (until >= from && times[index] <= to) most = Math.max(most, held.reduce((sum, kind) => sum + kind[index], 0));
    }
    $("held").textContent = `at most ${gigabytes(most)} of ${gigabytes(found.step.capacity_bytes)} ${stretch()}`;
  }

  function stretch() {
    const whole = found.step.step_us * 1e-6;
    return chosen
      ? `from ${seconds(chosen[0] * whole)} to ${seconds(chosen[1] * whole)}`
      : `over the whole step of ${seconds(whole)}`;
  }

  // Of an average node, over the chosen stretch or over all of the step.
  function showLinks() {
    const { links, num_parts: parts, whole_link: one } = found.step;
    const [from, to] = (chosen ?? [0, 1]).map((share) => share * parts);
    const shares = meanShares(links, one, from, to), full = Math.max(...Object.values(shares), 0.001);
    paintLinks($("links"), shares, full, stops);
    $("stretch").textContent = stretch();
    $("classes").textContent = `The darkest link is at ${percent(full)}. Numbers: the busier direction's share of what it could carry, in per cent.`;
  }

  let drawing = 0;
  function draw() {
    cancelAnimationFrame(drawing);
    drawing = requestAnimationFrame(() => {
      if (!found?.step) return;
      drawTimeline();
      drawMemory();
      showHeld();
      showLinks();
    });
  }

  // ── moving in the timeline ──

  function zoom(by, around) {
    const length = Math.min(1, Math.max(1e-6, (view[1] - view[0]) * by));
    const before = (around - view[0]) / (view[1] - view[0]);
    const from = Math.min(Math.max(0, around - before * length), 1 - length);
    view = [from, from + length];
    draw();
  }

  function pan(by) {
    const length = view[1] - view[0], from = Math.min(Math.max(0, view[0] + by * length), 1 - length);
    view = [from, from + length];
    draw();
  }

  const timeline = $("timeline");
  const inside = (event) => event.clientX - timeline.getBoundingClientRect().left;
  timeline.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 800);
      else zoom(1.0015 ** event.deltaY, shareAt(inside(event), timeline.clientWidth));
    },
    { passive: false }
  );
  timeline.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = (view[0] + view[1]) / 2;
    const acts = {
      w: () => zoom(0.7, middle),
      s: () => zoom(1 / 0.7, middle),
      a: () => pan(-0.2),
      d: () => pan(0.2),
      arrowleft: () => pan(-0.2),
      arrowright: () => pan(0.2),
      b: () => ((chosen = [...view]), draw()),
      escape: () => ((chosen = null), (view = [0, 1]), draw()),
    };
    const act = acts[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  });
  let grabbed = null;
  timeline.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    grabbed = shareAt(Math.max(inside(event), LABELS), timeline.clientWidth);
    timeline.setPointerCapture(event.pointerId);
  });
  timeline.addEventListener("pointermove", (event) => {
    const here = Math.min(1, Math.max(0, shareAt(Math.max(inside(event), LABELS), timeline.clientWidth)));
    if (grabbed !== null && Math.abs(here - grabbed) * timeline.clientWidth > (view[1] - view[0]) * 3) {
      chosen = [Math.min(here, grabbed), Math.max(here, grabbed)];
      draw();
    }
    point(event);
  });
  for (const end of ["pointerup", "pointercancel"]) timeline.addEventListener(end, () => (grabbed = null));
  timeline.addEventListener("pointerleave", () => ($("pointed").textContent = "\u00a0"));

  function point(event) {
    const step = found?.step;
    if (!step) return;
    const box = timeline.getBoundingClientRect(), at = shareAt(event.clientX - box.left, box.width) * step.step_us;
    const row = Math.floor(((event.clientY - box.top - 4) / (box.height - 22)) * step.lanes.length);
    const { start, end, lane, name, kind } = step.spans;
    const index = start.findIndex((from, each) => lane[each] === row && from <= at && at <= end[each]);
    $("pointed").textContent =
      index < 0
        ? "\u00a0"
        : `${step.names[name[index]]}: ${seconds((end[index] - start[index]) * 1e-6)} from ${seconds(start[index] * 1e-6)}, ${step.colours[kind[index]].name}`;
  }

  // ── beginning ──

  function resetPlaces() {
    for (const control of controls) setPlace(control, Number(control.dataset.own));
    plan = "";
  }

  // The link as it is; where it is wrong, that is said above the scenario's own figures.
  async function begin() {
    readLink();
    const wrong = location.search.length > 1 ? (await answered(location.search.slice(1))).error : undefined;
    if (wrong) resetPlaces();
    await ask();
    if (wrong) {
      say(wrong);
      document.body.classList.remove("stale");
    }
  }

  form.addEventListener("input", ask);
  form.addEventListener("submit", (event) => event.preventDefault());
  $("reset").addEventListener("click", () => {
    resetPlaces();
    ask();
  });
  $("link").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      $("copied").textContent = "The link is copied.";
    } catch {
      $("copied").textContent = location.href;
    }
  });
  $("rates").addEventListener("click", (event) => {
    const row = event.target.closest(".plan");
    if (!row) return;
    plan = plan === row.dataset.plan ? "" : row.dataset.plan; // once more: the fastest again
    ask();
  });
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  begin();
})();
