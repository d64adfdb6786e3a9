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
  let pinned = null; // an earlier answer, that later ones are compared with
  let view = [0, 1]; // of the step, that the timeline shows
  let chosen = null; // a stretch of the step
  let asked = false, waiting = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const seconds = (value) =>
    value >= 1 ? `${value.toPrecision(3)} s` : value >= 1e-3 ? `${(value * 1e3).toPrecision(3)} ms` : `${(value * 1e6).toPrecision(3)} µs`;
  const gigabytes = (value) => (value >= 1e9 ? `${(value / 1e9).toPrecision(3)} GB` : `${(value / 1e6).toPrecision(3)} MB`);
  const rate = (value) => (value >= 100 ? Math.round(value) : Number(value.toPrecision(3))).toLocaleString("en");
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
    document.body.classList.remove("first");
    $("verdict").textContent = answer.verdict;
    $("work").textContent = answer.work;
    $("moved").textContent = answer.moved.length ? `Moved: ${answer.moved.join("; ")}.` : "";
    form.querySelector('[data-key="ep"]')?.toggleAttribute("hidden", !answer.has_experts);
    showPlaces();
    showAnswer();
    showPlans();
    showKey($("parts"), answer.parts);
    const step = answer.step;
    $("step").hidden = !step;
    if (!step) return;
    $("shown").textContent = step.plan;
    $("whole").textContent = seconds(step.step_us * 1e-6);
    $("links").innerHTML = step.drawing;
    showKey($("colours"), step.colours.filter((_, kind) => step.spans.kind.includes(kind)));
    showKey($("kinds"), step.kinds);
    draw();
  }

  // ── the answer, and the pinned one beside it ──

  const shownOf = (answer) => answer.plans.find((one) => one.plan === answer.shown);
  const figures = [
    // element, the cell that is compared, and its words
    ["rate", "rate", (one) => rate(one.rate), (one) => `${rate(one.low)} to ${rate(one.high)}`],
    ["mfu", "mfu", (one) => `${(100 * one.mfu).toFixed(1)} %`, (one) => `${one.tflops_per_device.toPrecision(3)} TFLOPS`],
    ["time", "step_time_s", (one) => seconds(one.step_time_s), () => ""],
    ["held-most", "peak_memory_bytes", (one) => gigabytes(one.peak_memory_bytes), (one) => `of ${gigabytes(one.memory_capacity_bytes)}`],
  ];

  function showAnswer() {
    const now = shownOf(found), then = pinned && shownOf(pinned);
    $("which").textContent = now.plan;
    $("grid").textContent = now.fits ? now.grid : `${now.grid ?? ""} does not fit`;
    for (const [id, key, words, more] of figures) {
      const known = now[key] !== undefined, before = then && then[key] !== undefined;
      const small = document.createElement("small");
      small.textContent = known ? ` ${more(now)}` : "";
      $(id).replaceChildren(known ? words(now) : "–", small);
      const ratio = document.createElement("b");
      ratio.textContent = known && before ? `×${(now[key] / then[key]).toPrecision(3)} ` : "";
      $(`${id}-then`).replaceChildren(ratio, before ? `was ${words(then)}` : "");
    }
    $("pin").setAttribute("aria-pressed", String(Boolean(pinned)));
    $("pin").textContent = pinned ? "Unpin" : "Pin to compare";
    $("then-which").hidden = !pinned;
    if (pinned) {
      const moved = pinned.moved.length ? pinned.moved.join("; ") : "as in the scenario";
      $("then-which").textContent = `Pinned: ${then.plan}${then.grid ? ` (${then.grid})` : ""}, ${moved}.`;
    }
    document.body.style.setProperty("--answer", `${$("answer").offsetHeight}px`);
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

  function showPlans() {
    const focused = document.activeElement?.closest?.(".plan")?.dataset.plan;
    const fitting = found.plans.filter((one) => one.fits), before = (one) => pinned?.plans.find((each) => each.plan === one.plan && each.fits);
    const rates = ticksTo(Math.max(...fitting.flatMap((one) => [one.high, before(one)?.rate ?? 0]), 1e-9));
    const times = ticksTo(Math.max(...fitting.map((one) => one.step_time_s), 1e-9));
    $("rates").replaceChildren(...found.plans.map((one) => rateRow(one, rates, before(one))), axisRow(found.unit, rates, rate));
    $("times").replaceChildren(...fitting.map((one) => timeRow(one, times)), axisRow("time of a step", times, (at) => (at ? seconds(at) : "0")));
    if (focused) $("rates").querySelector(`[data-plan="${CSS.escape(focused)}"]`)?.focus();
  }

  const across = (from, to, ticks) => `left:${(100 * from) / ticks.at(-1)}%;width:${(100 * (to - from)) / ticks.at(-1)}%`;

  function rowOf(tag, kind, one, ticks) {
    const row = document.createElement(tag), name = document.createElement("b"), track = document.createElement("span");
    const number = document.createElement("span");
    row.className = kind;
    name.textContent = one.plan;
    track.className = "track";
    track.append(...ticks.map((at) => mark("tick", across(at, at, ticks))));
    number.className = "number";
    row.append(name, track, number);
    return { row, name, track, number };
  }

  function small(text) {
    const made = document.createElement("small");
    made.textContent = text;
    return made;
  }

  // The rate of a plan with its 90 % interval; a dashed mark where a pinned answer had it.
  function rateRow(one, ticks, before) {
    const { row, name, track, number } = rowOf("button", "plan", one, ticks);
    row.type = "button";
    row.dataset.plan = one.plan;
    row.setAttribute("aria-pressed", String(found.shown === one.plan));
    row.disabled = !one.fits;
    if (one.grid) name.append(small(one.grid));
    if (!one.fits) {
      number.textContent = one.note.startsWith("left out") ? one.note : `does not fit: ${one.note}`;
      row.classList.add("misfit");
      track.remove();
      return row;
    }
    track.append(mark("bar", `${across(0, one.rate, ticks)};background:${one.colour}`), mark("interval", across(one.low, one.high, ticks)));
    if (before) track.append(mark("pinned", across(before.rate, before.rate, ticks)));
    const ratio = before ? `, ×${(one.rate / before.rate).toPrecision(3)}` : "";
    const held = `${gigabytes(one.peak_memory_bytes)} of ${gigabytes(one.memory_capacity_bytes)}`;
    number.append(`${rate(one.rate)}${ratio}`, small(`MFU ${(100 * one.mfu).toFixed(1)} %, ${held}`));
    return row;
  }

  function timeRow(one, ticks) {
    const { row, track, number } = rowOf("div", "row", one, ticks);
    let at = 0;
    for (const [index, share] of one.parts.entries()) {
      const until = at + share * one.step_time_s;
      track.append(mark("part", `${across(at, until, ticks)};background:${found.parts[index].colour}`));
      at = until;
    }
    number.textContent = seconds(one.step_time_s);
    return row;
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
    track.className = "track";
    for (const at of ticks) {
      const tick = document.createElement("span");
      tick.textContent = words(at);
      tick.style.left = `${(100 * at) / ticks.at(-1)}%`;
      track.append(tick);
    }
    const title = document.createElement("span");
    title.className = "name";
    title.textContent = name;
    track.append(title);
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
    const base = 10 ** Math.floor(Math.log10(span / 4)), most = Math.min(8, (width - LABELS) / 62);
    const gap = [1, 2, 5, 10, 20].map((by) => by * base).find((by) => span / by <= most) ?? span;
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
    context.textBaseline = "middle";
    context.fillText(`holds ${gigabytes(step.capacity_bytes)}`, 6, Math.max(y(step.capacity_bytes), 8), LABELS - 8);
    for (const at of ticksTo(most / 1.04).filter((at) => at < 0.88 * step.capacity_bytes)) {
      context.fillText(at ? gigabytes(at) : "0", 6, Math.min(y(at), low - 6), LABELS - 8);
    }
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
    document.body.style.setProperty("--answer", `${$("answer").offsetHeight}px`);
  }

  form.addEventListener("input", ask);
  $("pin").addEventListener("click", () => {
    if (!found) return;
    pinned = pinned ? null : found;
    showAnswer();
    showPlans();
  });
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
  addEventListener("resize", () => {
    document.body.style.setProperty("--answer", `${$("answer").offsetHeight}px`);
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  begin();
})();
