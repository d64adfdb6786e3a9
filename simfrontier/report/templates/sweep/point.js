// The report of one point of a sweep, from its rows in the page.

class PointReport {
  constructor(data, place) {
    Object.assign(this, { data, place });
    this.rowsOf = data.numbers.map(() => []);
    data.pointOf.forEach((point, row) => this.rowsOf[point].push(row));
    this.axes = Object.entries(data.columns).filter(([, column]) => column.isAxis);
  }

  // The place of the point that a link names, by its number or the begin of its digest; -1: it is not in the page.
  find(name) {
    if (/^\d{1,10}$/.test(name)) return this.data.numbers.indexOf(Number(name));
    const found = this.data.digests.flatMap((digest, at) => (name.length >= 8 && (digest.startsWith(name) || (digest && name.startsWith(digest))) ? [at] : []));
    return found.length === 1 ? found[0] : -1;
  }

  show(name) {
    const point = this.find(name);
    const back = element("p", {}, element("a", { href: "#points" }, "← All points"));
    const made = point < 0 ? this.absent(name) : this.report(point);
    this.place.replaceChildren(back, ...made);
    this.place.querySelector("h2").focus();
    return point;
  }

  absent(name) {
    const { thinned, rowsFile } = this.data;
    return [
      element("h2", { tabindex: "-1" }, "No such point here"),
      element("p", {}, `This page has no point “${name}”. ${thinned ? `It holds only some of the points; ${rowsFile} has all of them.` : ""}`),
    ];
  }

  report(point) {
    const { data } = this, rows = this.rowsOf[point], run = rows.filter((row) => data.columns.step_time_s.values[row] !== null);
    return [
      element("h2", { tabindex: "-1" }, `Point ${fixed(data.numbers[point], 0)} `, element("small", { title: "begin of the digest of its scenario" }, data.digests[point])),
      element("p", { class: "lead" }, this.lead(rows, run)),
      ...this.replayed(rows),
      ...this.settings(point, run),
      ...this.rowsTable(rows),
      ...this.parts(run),
      ...this.numbers(rows),
      ...this.command(point, rows),
    ];
  }

  // What is said of rows that were replayed.
  replayed(rows) {
    const mine = rows.filter((row) => isReplayed(this.data, row));
    if (!mine.length) return [];
    const which = mine.length === rows.length ? "This point was" : `${mine.map((row) => this.named(row)).join(", ")}:`;
    return [
      element("p", { class: "callout" }, `${which} replayed, not simulated: replays are ${this.data.offBy}. A replay gives the time of one step and what follows from it: it draws no samples, whose ends and median are empty therefore, and has no bytes and no memory. The command below simulates it exactly.`),
    ];
  }

  named(row) {
    const { plan, devices } = this.data.columns;
    return `${told(plan, row)} on ${told(devices, row)}`;
  }

  lead(rows, run) {
    const { columns, within } = this.data;
    const error = rows.map((row) => valueOf(columns.error, row)).find(Boolean);
    if (!run.length) return error ? `Refused: ${error}` : "No plan of this point fits in memory.";
    const best = run.reduce((a, b) => (columns[this.data.pace].values[a] >= columns[this.data.pace].values[b] ? a : b));
    const rank = within.among[best] > 1 ? `; in place ${placeOf(within.place[best], within.among[best])} among points of this plan and size` : "";
    return `${this.named(best)} devices is fastest: ${told(columns.step_time_s, best)} a step, ${told(columns[this.data.pace], best)} tokens per second${rank}.`;
  }

  // What the point sets, where that lies on its axis, and the next points on either side with all else equal.
  settings(point, run) {
    const { data } = this, row = this.rowsOf[point][0];
    const lines = this.axes.map(([name, column]) => {
      const key = name.slice(5), beside = data.beside[key];
      const others = ["less", "more"].map((way) => beside?.[way][point] ?? -1), there = others.filter((other) => other >= 0);
      const words = toldApart(column, [row, ...there.map((other) => this.rowsOf[other][0])]);
      const cells = others.map((other) => (other < 0 ? NOTHING : this.beside(other, words[1 + there.indexOf(other)], run)));
      return [element("span", { title: key }, column.words), element("b", {}, words[0]), ...cells, element("code", {}, key)];
    });
    const text = valueOf(data.columns.scenario, row) ?? "";
    const isAny = data.settings.length ? ", beside what is set at every point" : "";
    const made = [
      element("h3", {}, "Settings"),
      element("p", {}, `What the axes set in scenario ${text}${isAny}. Beside it: the next points on an axis with all else equal, and how many more tokens per second they have with ${run.length ? this.named(run[0]) : "the same plan and size"}.`),
      tableOf("settings of the point", ["setting", "here", "next lower", "next higher", "key"], lines, "words headed"),
    ];
    if (data.nearest) {
      const near = data.nearest[point].filter((other) => other >= 0).flatMap((other, at) => [at ? ", " : "", linkTo(data, other), this.change(other, run)]);
      made.push(element("p", {}, "The settings were drawn, so that points differ in all of them. The nearest points: ", ...near, "."));
    }
    return made;
  }

  beside(other, words, run) {
    const link = linkTo(this.data, other);
    link.textContent = words;
    link.title = `point ${fixed(this.data.numbers[other], 0)}`;
    return element("span", {}, link, this.change(other, run));
  }

  change(other, run) {
    const { plan, devices, scenario, [this.data.pace]: pace } = this.data.columns, row = run[0];
    const same = (each) => plan.places[each] === plan.places[row] && devices.values[each] === devices.values[row] && scenario.places[each] === scenario.places[row];
    const match = row === undefined ? undefined : this.rowsOf[other].find((each) => same(each) && pace.values[each] !== null);
    return match === undefined ? "" : ` (${signed(pace.values[match] / pace.values[row] - 1)})`;
  }

  rowsTable(rows) {
    const { columns, within, overall } = this.data;
    const names = ["step_time_s", "tokens_per_s", "tflops_per_device", "exposed_share", "peak_memory_bytes", "fits"];
    const lines = rows.map((row) => [
      this.named(row),
      ...names.map((name) => told(columns[name], row)),
      within.place[row] ? placeOf(within.place[row], within.among[row]) : NOTHING,
      overall.place[row] ? placeOf(overall.place[row], overall.among[row]) : NOTHING,
    ]);
    const heads = ["plan and devices", ...names.map((name) => columns[name].words), "place among points of this plan and size", "place among all rows of this size"];
    return [
      element("h3", {}, "Plans and sizes"),
      element("p", {}, "Places by tokens per second, among all rows of the sweep with the same scenario."),
      tableOf("rows of the point", heads, lines, "broken"),
    ];
  }

  parts(run) {
    const timed = run.filter((row) => this.data.columns.compute_time_s.values[row] !== null);
    if (run.length && !timed.length) return [element("p", { class: "note" }, "Where the step goes is left out: a replay gives the time of a step, not its parts.")];
    if (!timed.length) return [];
    const figure = element("div", { class: "plot", "data-figures": "fig-parts", role: "group", "aria-label": "Parts of the step by plan and size" });
    const labels = timed.map((row) => this.named(row));
    this.partsFigure = () => ({ all: partsFigure(timed, labels, this.data.parts, this.data.columns) });
    return [element("h3", {}, "Where the step goes"), figure];
  }

  numbers(rows) {
    const { columns } = this.data;
    const results = Object.entries(columns).filter(([name, column]) => !column.isAxis && !["scenario", "plan", "devices"].includes(name) && rows.some((row) => valueOf(column, row) !== null));
    const lines = results.map(([name, column]) => [element("span", { title: name }, column.words), ...rows.map((row) => told(column, row))]);
    const details = element("details", {}, element("summary", {}, `All ${results.length} results`), tableOf("all results of the point", ["result", ...rows.map((row) => this.named(row))], lines, "broken"));
    return [element("h3", {}, "All numbers"), details];
  }

  command(point, rows) {
    const { columns, paths, settings, fidelity, studyFile } = this.data;
    const several = (column) => [...new Set(rows.map((row) => valueOf(column, row)).filter((value) => value !== null))];
    const scenario = valueOf(columns.scenario, rows[0]) ?? "";
    const words = ["simfrontier", "run", paths[scenario] ?? `${scenario}.toml`];
    for (const setting of settings) words.push("--set", setting);
    for (const [name, column] of this.axes) {
      const value = valueOf(column, rows[0]);
      if (value !== null && name !== "axis:run.devices") words.push("--set", `${name.slice(5)}=${settingOf(column, value)}`);
    }
    const [plans, sizes] = [several(columns.plan), several(columns.devices)];
    if (plans.length) words.push("--plans", plans.join(","));
    if (sizes.length) words.push("--devices", sizes.join(","));
    if (fidelity) words.push("--fidelity", fidelity);
    words.push("--out", `reports/point-${this.data.numbers[point]}`);
    const text = words.map(quoted).join(" ");
    const copy = element("button", { type: "button" }, "Copy");
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    });
    return [
      element("h3", {}, "The complete report"),
      element("p", {}, "Timeline, memory over the step and use of links are not in the rows of a sweep. This makes them for this point, in the folder of the study", ...(studyFile ? [" ", element("code", {}, studyFile)] : []), ":"),
      element("pre", { class: "command" }, element("code", {}, ...words.flatMap((word, at) => [at ? " " : "", element("span", {}, quoted(word))]))),
      element("p", { class: "choices" }, copy),
    ];
  }
}

const placeOf = (place, among) => `${fixed(place, 0)} of ${fixed(among, 0)}`;

// A value as the command line takes it: as in TOML, a plain word without quotes; of values of several types a column has
// the JSON. A key that holds a list takes one value as a list of one.
function settingOf(column, value) {
  const one = typeof value === "number" ? written(column, value) : column.isTruth ? String(value === "yes") : bare(value);
  return column.isList && !one.startsWith("[") ? `[${one}]` : one;
}
const written = (column, value) => (column.isWhole || !Number.isInteger(value) ? String(value) : value.toFixed(1));
const bare = (text) => (/^(\[.*\]|true|false|-?[\d.]+(e[+-]?\d+)?)$/i.test(text) || (/^[A-Za-z][\w-]*$/.test(text) && !["inf", "nan"].includes(text)) ? text : JSON.stringify(text));
