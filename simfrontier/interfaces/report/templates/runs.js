// Filters of the page of training runs: figures, tables and chart follow them. The rows of the table of runs hold the
// facts; the numbers of each run, in the order of these rows, stand in the element `points`.
(function () {
  "use strict";
  const points = JSON.parse(document.getElementById("points").textContent);
  const rows = [...document.querySelectorAll("#runs tbody tr")];
  points.forEach((point, at) => Object.assign(point, { at, row: rows[at], text: rows[at].textContent.toLowerCase() }));
  const form = document.getElementById("filters");
  const chart = document.getElementById("chart");
  const shown = document.getElementById("shown");
  const more = document.getElementById("more");
  const FIRST = 20; // rows of the table that are shown until it is asked for more
  const [LEAST, MOST] = [0.6, 2.5]; // predicted over measured speed, at which its axis ends
  let chosen = points; // by the filters
  let all = false; // rows of the table, or the first ones
  let view = "machine";
  let marked = null; // the point that is shown below the chart
  let pinned = false; // by a click
  let interval; // coordinates of the ends of a run's 90 % interval in the chart that is drawn

  // ── figures, by the same formulas and in the same words as those that the page was written with ──

  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;

  function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const half = sorted.length / 2;
    return (sorted[Math.floor(half)] + sorted[Math.ceil(half) - 1]) / 2;
  }

  function percent(share) {
    const value = 100 * share;
    return `${value.toLocaleString("en", Math.abs(value) < 99.95 ? TENTHS : WHOLE)}\u00a0%`;
  }
  const TENTHS = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  const WHOLE = { maximumFractionDigits: 0 };

  function signed(share) {
    const size = percent(Math.abs(share));
    return size === percent(0) ? size : `${share > 0 ? "+" : "−"}${size}`;
  }

  function figuresOf(some) {
    const apart = some.map((each) => Math.abs(each.error));
    return [
      some.length.toLocaleString("en"),
      percent(mean(apart)),
      percent(median(apart)),
      signed(mean(some.map((each) => each.error))),
      percent(mean(some.map((each) => Number(each.covered)))),
      `±\u00a0${percent(median(some.map((each) => each.width)))}`,
    ];
  }

  // ── filters ──

  function filter() {
    const asked = [...new FormData(form)].filter(([, value]) => value.trim());
    remember(asked);
    chosen = points.filter((point) => asked.every(([name, value]) => fits(point, name, value)));
    document.querySelectorAll(".cards b").forEach((card, at) => {
      card.textContent = chosen.length ? figuresOf(chosen)[at] : at ? "–" : "0";
    });
    document.querySelectorAll("[data-facet] tr[data-key]").forEach(fillGroup);
    document.querySelectorAll("[data-facet]").forEach((table) => {
      table.hidden = !table.querySelector("tr[data-key]:not([hidden])");
    });
    const [count, ...errors] = chosen.length ? figuresOf(chosen) : ["0"];
    const words = `${count} of ${points.length.toLocaleString("en")} runs`;
    document.getElementById("chosen").textContent = errors.length
      ? `${words}: mean error ${errors[0]}, median ${errors[1]}, bias ${errors[2]}, ${errors[3]} inside their 90 % interval.`
      : `${words}: none is like this.`;
    mark(null);
    list();
    draw();
  }

  // The address of the page holds what is chosen, so that it can be sent.
  function remember(asked) {
    const query = new URLSearchParams(asked).toString();
    try {
      history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
    } catch {
      // a browser that keeps the address of a file as it is
    }
  }

  function recall() {
    for (const [name, value] of new URLSearchParams(location.search)) {
      const field = form.elements.namedItem(name);
      if (field) field.value = value;
    }
  }

  function fits(point, name, value) {
    if (name !== "words") return point[name] === value;
    return value.toLowerCase().split(/\s+/).every((word) => point.text.includes(word));
  }

  function fillGroup(row) {
    const facet = row.closest("[data-facet]").dataset.facet;
    const some = chosen.filter((point) => point[facet] === row.dataset.key);
    row.hidden = !some.length;
    if (some.length) figuresOf(some).forEach((text, at) => (row.cells[at + 1].textContent = text));
  }

  function list() {
    const visible = new Set(all ? chosen : chosen.slice(0, FIRST));
    points.forEach((point) => (point.row.hidden = !visible.has(point)));
    more.hidden = visible.size === chosen.length;
    more.textContent = `Show all ${chosen.length.toLocaleString("en")} runs`;
  }

  // ── chart ──

  const ratio = (point) => point.measured_s / point.predicted_s; // of speeds: above 1 the prediction is too fast
  const clipped = (value) => Math.min(Math.max(value, LEAST), MOST);
  const log = (low, high, from, to) => (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
  const SVG = "http://www.w3.org/2000/svg";

  function add(parent, name, attributes, text = "") {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    parent.append(made);
    return made;
  }

  function draw() {
    const width = chart.clientWidth;
    const svg = document.createElementNS(SVG, "svg");
    if (chosen.length) ({ machine: drawMachines, both: drawBoth })[view](svg, width);
    chart.replaceChildren(svg);
    if (marked) showMark();
  }

  function frame(svg, width, height) {
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-hidden", "true"); // the group around it is named
  }

  // Draws the marks of the chosen runs at the coordinates that two functions give.
  function place(svg, x, y) {
    interval = (point) => {
      const ends = [1 / point.factor, point.factor].map((by) => ({ ...point, predicted_s: point.predicted_s * by }));
      return ends.flatMap((end) => [x(end), y(end)]);
    };
    for (const point of chosen) {
      Object.assign(point, { x: x(point), y: y(point) });
      const shape = point.model === "dense" ? "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0" : "M0 -5.2L5.2 0L0 5.2L-5.2 0Z";
      const kind = `${point.model} ${point.covered ? "inside" : "outside"}`;
      add(svg, "path", { d: shape, class: kind, transform: `translate(${point.x} ${point.y})` });
    }
  }

  // Lines at ratios of speeds, which are named above and below them.
  function levels(svg, along, top, bottom) {
    for (const value of [0.6, 0.8, 1, 1.25, 1.5, 2, 2.5]) {
      const at = along(value);
      add(svg, "line", { x1: at, x2: at, y1: top, y2: bottom, class: value === 1 ? "equal" : "grid" });
      for (const y of [top - 10, bottom + 18]) add(svg, "text", { x: at, y, "text-anchor": "middle" }, value);
    }
  }

  function drawMachines(svg, width) {
    const counts = new Map();
    for (const { machine } of chosen) counts.set(machine, (counts.get(machine) ?? 0) + 1);
    const names = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
    const [left, right, top, step] = [width < 560 ? 112 : 150, width - 14, 24, 26];
    const bottom = top + names.length * step;
    frame(svg, width, bottom + 44);
    const along = log(LEAST, MOST, left, right);
    levels(svg, along, top, bottom);
    names.forEach((name, at) => add(svg, "text", { x: left - 10, y: top + (at + 0.5) * step + 4, "text-anchor": "end" }, name));
    add(svg, "text", { x: (left + right) / 2, y: bottom + 40, "text-anchor": "middle", class: "title" }, "predicted / measured speed");
    const scatter = (point) => ((point.at * 0.618034) % 1) - 0.5; // even, and the same each time
    place(svg, (point) => along(clipped(ratio(point))), (point) => top + (names.indexOf(point.machine) + 0.5 + 0.6 * scatter(point)) * step);
  }

  function drawBoth(svg, width) {
    const [left, right, top, bottom] = [74, width - 14, 10, Math.min(width, 620) - 54];
    frame(svg, width, bottom + 44);
    const times = chosen.flatMap((point) => [point.measured_s, point.predicted_s]);
    const range = [Math.min(...times) / 1.5, Math.max(...times) * 1.5];
    const [across, up] = [log(...range, left, right), log(...range, bottom, top)];
    const powers = [1e-4, 1e-3, 0.01, 0.1, 1, 10, 100, 1e3, 1e4].filter((each) => each > range[0] && each < range[1]);
    for (const value of powers) {
      const [x, y, name] = [across(value), up(value), value < 1 ? `${+(1e3 * value).toPrecision(1)} ms` : `${value.toLocaleString("en")} s`];
      add(svg, "line", { x1: x, x2: x, y1: top, y2: bottom, class: "grid" });
      add(svg, "line", { x1: left, x2: right, y1: y, y2: y, class: "grid" });
      add(svg, "text", { x, y: bottom + 18, "text-anchor": "middle" }, name);
      add(svg, "text", { x: left - 8, y: y + 4, "text-anchor": "end" }, name);
    }
    add(svg, "line", { x1: left, y1: bottom, x2: right, y2: top, class: "equal" });
    add(svg, "text", { x: (left + right) / 2, y: bottom + 40, "text-anchor": "middle", class: "title" }, "predicted time of a step");
    const [x, y] = [14, (top + bottom) / 2];
    add(svg, "text", { x, y, "text-anchor": "middle", transform: `rotate(-90 ${x} ${y})`, class: "title" }, "measured");
    place(svg, (point) => across(point.predicted_s), (point) => up(point.measured_s));
  }

  // ── one run ──

  function mark(point) {
    marked = point;
    if (!point) pinned = false;
    shown.classList.toggle("empty", !point);
    if (!point) shown.textContent = shown.dataset.hint;
    else shown.replaceChildren(...[...point.row.cells].map(copied));
    showMark();
  }

  function copied(cell) {
    const made = document.createElement(cell.tagName === "TH" ? "p" : "span");
    if (cell.dataset.label) made.append(`${cell.dataset.label} `);
    made.append(...[...cell.childNodes].map((node) => node.cloneNode(true)));
    return made;
  }

  function showMark() {
    const svg = chart.firstElementChild;
    svg?.querySelectorAll(".mark").forEach((each) => each.remove());
    if (!svg || !marked) return;
    const [x1, y1, x2, y2] = interval(marked);
    add(svg, "line", { x1, y1, x2, y2, class: "mark" });
    add(svg, "circle", { cx: marked.x, cy: marked.y, r: 9, class: "mark" });
  }

  function nearest(event, within) {
    const box = chart.getBoundingClientRect();
    const far = (point) => Math.hypot(point.x - (event.clientX - box.left), point.y - (event.clientY - box.top));
    const best = chosen.reduce((a, b) => (a && far(a) <= far(b) ? a : b), null);
    return best && far(best) <= within ? best : null;
  }

  chart.addEventListener("pointermove", (event) => {
    const point = pinned || event.pointerType === "touch" ? null : nearest(event, 12);
    if (point && point !== marked) mark(point);
  });
  chart.addEventListener("click", (event) => {
    const point = nearest(event, 24);
    mark(point);
    pinned = Boolean(point);
  });
  chart.addEventListener("keydown", (event) => {
    const order = [...chosen].sort((a, b) => (view === "machine" ? chosen.indexOf(a) - chosen.indexOf(b) : a.x - b.x));
    const at = order.indexOf(marked);
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: Math.max(at - 1, 0), ArrowUp: Math.max(at - 1, 0), Home: 0, End: order.length - 1 };
    if (event.key === "Escape") mark(null);
    if (!(event.key in next) || !order.length) return;
    event.preventDefault();
    mark(order[Math.min(next[event.key], order.length - 1)]);
    pinned = true;
  });

  document.querySelectorAll("[data-view]").forEach((button, _, buttons) =>
    button.addEventListener("click", () => {
      view = button.dataset.view;
      buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
      draw();
    }),
  );
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter)); // the fields are emptied behind this event
  more.addEventListener("click", () => {
    all = true;
    list();
  });
  new ResizeObserver(draw).observe(chart);
  recall();
  filter();
})();
