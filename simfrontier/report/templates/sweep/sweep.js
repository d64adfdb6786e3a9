// The page of a sweep: its charts by what is chosen, the table of its rows, and the report of a point by the address.
(function () {
  "use strict";
  const form = (name) => document.getElementById(name);
  const parallel = form("of-parallel"), heat = form("of-heat"), front = form("of-front"), points = form("of-points");
  const reportPlace = document.getElementById("report"), title = document.title;
  const pointOf = () => /^#point=([\w-]{1,64})$/.exec(location.hash)?.[1];
  document.body.classList.toggle("reported", pointOf() !== undefined); // before any chart is drawn
  if (typeof DecompressionStream !== "function") return; // page.js says so
  const starting = unpacked("rows").json().then(started);
  starting.catch(console.error);
  const later = (name) => async () => (await starting)[name]();
  window.makers = Object.fromEntries(["fig-parallel", "fig-heat", "fig-front", "fig-parts"].map((name) => [name, later(name)]));

  function started(data) {
    const { columns } = data;
    for (const [name, column] of Object.entries(columns)) column.name = name;
    const all = data.pointOf.map((_, row) => row);
    const planned = all.filter((row) => columns.plan.places[row] >= 0);
    const report = new PointReport(data, reportPlace), table = new RowsTable(data, document.getElementById("rows-table"));
    let lines = null; // of the parallel coordinates: all rows, those drawn, and where rows stand on the axes
    let brushed = null; // rows within the brushes, where there are any

    // Rows of what the drop-downs of a form have chosen; an empty choice is all.
    function chosen(choices, rows) {
      const wanted = [...choices.querySelectorAll("select[data-column]")].filter((each) => each.value !== "");
      return wanted.reduce((left, { dataset, value }) => left.filter((row) => String(numbersOf(columns[dataset.column])[row]) === value), rows);
    }
    const hasTime = (row) => columns.step_time_s.values[row] !== null;

    const makers = {}; // of figures by their name; each says beside the chart what it shows
    makers["fig-parallel"] = () => {
      const rows = chosen(parallel, planned);
      const drawn = thinned(rows, data.mostLines, (row) => data.within.place[row] === 1);
      const made = parallelFigure(data.parallel.map((name) => columns[name]), drawn, rows, columns[parallel.elements.coloured.value]);
      lines = { rows, drawn, placesOf: made.placesOf };
      return { all: made.figure };
    };

    makers["fig-heat"] = () => {
      const { x, y, value, how } = heat.elements;
      const rows = chosen(heat, planned.filter(hasTime));
      const { figure, isRanges, isLog } = heatFigure(rows, columns[x.value], columns[y.value], columns[value.value], how.value);
      const others = data.varied.filter((name) => ![x.value, y.value].includes(name) && differentOf(columns[name], rows).length > 1);
      const over = others.length ? ` over ${listed(others.map((name) => columns[name].words))}` : "";
      document.getElementById("said-heat").textContent =
        `Each cell: the ${how.value} of its rows${over}; the brighter the better.${isRanges ? ` An axis of more than ${MOST_STEPS} values is cut into ${NUM_RANGES} ranges${isLog ? ", a logarithmic one at equal ratios" : ""}.` : ""}`;
      return { all: figure };
    };

    makers["fig-front"] = () => {
      const { x, y } = front.elements, rows = chosen(front, planned.filter(hasTime));
      const [across, up] = [columns[x.value], columns[y.value]];
      const best = frontOf(rows.slice(), across, up);
      const wordsOf = (row) => `<b>point ${fixed(data.numbers[data.pointOf[row]], 0)}</b>${isReplayed(data, row) ? ", replayed" : ""}, ${escaped(told(columns.plan, row))} on ${told(columns.devices, row)}<br>${[across, up].map((column) => `${escaped(column.words)}: ${told(column, row)}`).join("<br>")}`;
      const lines = best.map((row) => [linkTo(data, data.pointOf[row], isReplayed(data, row)), told(columns.plan, row), told(columns.devices, row), told(across, row), told(up, row), ...data.varied.filter((name) => name.startsWith("axis:")).map((name) => told(columns[name], row))]);
      const heads = ["point", "plan", "devices", across.words, up.words, ...data.varied.filter((name) => name.startsWith("axis:")).map((name) => columns[name].words)];
      document.getElementById("front-table").replaceChildren(tableOf("rows on the Pareto front", heads, lines));
      return { all: frontFigure(rows, best, across, up, columns.plan, data.marks, wordsOf) };
    };

    function fill() {
      const rows = chosen(points, all), isFits = points.elements.fitting.checked;
      const within = brushed && points.elements.brushed.checked ? new Set(brushed) : null;
      table.show(rows.filter((row) => (!isFits || columns.fits.places[row] === 1) && (!within || within.has(row))));
    }

    // The rows within all brushes, drawn or not, from what plotly keeps of the brushes.
    function brush() {
      const held = boxOf("fig-parallel").data[0].dimensions.filter((each) => each.constraintrange);
      const limits = held.map(({ name, constraintrange: range }) => [lines.placesOf[name], Array.isArray(range[0]) ? range : [range]]);
      const isWithin = (row) => limits.every(([at, ranges]) => ranges.some(([low, high]) => at(row) >= low && at(row) <= high));
      const before = brushed;
      brushed = held.length ? lines.rows.filter(isWithin) : null;
      const isThinned = lines.drawn.length < lines.rows.length;
      document.getElementById("said-parallel").textContent = [
        isThinned ? `Drawn: ${fixed(lines.drawn.length, 0)} of ${counted(lines.rows.length, "row")}, the best of each plan and size and of the others some at even distances.` : "",
        brushed ? `${counted(brushed.length, "row")} of ${fixed(lines.rows.length, 0)} within the brushes; the table of all points shows these.` : "",
      ].join(" ");
      points.elements.brushed.disabled = !brushed;
      if (before || brushed) fill();
    }

    const boxOf = (name) => document.querySelector(`[data-figures="${name}"]`);
    const redraw = (name) => boxOf(name)?.dispatchEvent(new Event("changed", { bubbles: true }));
    for (const [choices, name] of [[parallel, "fig-parallel"], [heat, "fig-heat"], [front, "fig-front"]]) {
      choices?.addEventListener("input", () => redraw(name));
    }
    for (const choices of [parallel, heat, front, points]) choices?.addEventListener("submit", (event) => event.preventDefault());
    points.addEventListener("input", fill);
    boxOf("fig-parallel")?.addEventListener("drawn", ({ target }) => {
      brush();
      if (!target.dataset.watched) target.on("plotly_restyle", brush);
      target.dataset.watched = "";
    });
    boxOf("fig-front")?.addEventListener("drawn", ({ target }) => {
      if (!target.dataset.watched) {
        target.on("plotly_click", ({ points: [{ customdata }] }) => (location.hash = `point=${data.digests[data.pointOf[customdata]] || data.numbers[data.pointOf[customdata]]}`));
      }
      target.dataset.watched = "";
    });
    // A chart that stands in the page may be drawn before its rows are unpacked.
    const goal = boxOf("fig-goal");
    const watchGoal = () => {
      if (!goal.dataset.watched) goal.on("plotly_click", ({ points: [{ customdata }] }) => customdata && (location.hash = `point=${customdata}`));
      goal.dataset.watched = "";
    };
    goal?.addEventListener("drawn", watchGoal);
    if (goal && "drawn" in goal.dataset) watchGoal();
    fill();

    // The address says whether a point is looked at; the pages before and after it are those of the browser.
    function route() {
      const name = pointOf();
      const wasOpen = !reportPlace.hidden;
      document.body.classList.toggle("reported", name !== undefined);
      reportPlace.hidden = name === undefined;
      if (name === undefined) {
        document.title = title;
        if (wasOpen && location.hash) document.querySelector(location.hash.replace(/[^#\w-]/g, ""))?.scrollIntoView();
        if (wasOpen) dispatchEvent(new Event("resize"));
        return;
      }
      const point = report.show(name);
      document.title = `${point < 0 ? "No such point" : `Point ${data.numbers[point]}`}: ${title}`;
      scrollTo(0, 0);
      const box = boxOf("fig-parts");
      if (box) {
        makers["fig-parts"] = report.partsFigure;
        box.dataset.shown = "all";
        box.dataset.drawn = "";
        redraw("fig-parts");
      }
    }
    addEventListener("hashchange", route);
    route();
    document.body.dataset.ready = "";
    return makers;
  }

  const listed = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join(""));
})();
