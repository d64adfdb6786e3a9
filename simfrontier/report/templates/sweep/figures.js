// Charts of a sweep for plotly.

// Cividis, for all kinds of colour vision; and what has no value, lighter than the greys in it.
const SCALE = ["#00204c", "#002b66", "#14396d", "#33486c", "#4b566d", "#606370", "#747175", "#8a8179", "#a09177", "#b7a371", "#cfb666", "#e6ca57", "#ffe945"].map((colour, at, { length }) => [at / (length - 1), colour]);
const NO_VALUE = "#c3c7cb";
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

function chart(data, layout) {
  return {
    data,
    layout: {
      margin: { l: 10, r: 14, t: 10, b: 10 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: FONT, size: 13 },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.03, yanchor: "bottom", traceorder: "normal" },
      hoverlabel: { align: "left", font: { family: FONT, size: 13 } },
      ...layout,
    },
  };
}

const axisOf = (text, more = {}) => ({ title: { text, standoff: 8 }, automargin: true, zeroline: false, ...more });
const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

// A long name on several short lines.
function broken(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= width) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.map(escaped).join("<br>");
}

const isMissing = (column, row) => valueOf(column, row) === null;

// Where rows stand on a vertical axis of a column; those without a value stand below all others.
function verticalOf(column, rows) {
  const numbers = numbersOf(column), different = differentOf(column, rows), { by, title } = scaleOf(column, rows);
  const [low, high] = [different[0] / by, different.at(-1) / by];
  const room = column.texts ? 0.5 : low === high ? Math.abs(low) / 2 || 1 : 0;
  const none = low - room - 0.12 * (high - low + 2 * room);
  const isSome = rows.some((row) => isMissing(column, row));
  const ticks = different.length <= 8 ? different.map((value) => value / by) : ticksOf(low, high);
  const words = ticks.map((tick) => escaped(column.texts ? column.texts[tick] : tickWords(tick)));
  const at = (row) => (isMissing(column, row) ? none : numbers[row] / by);
  const drawn = {
    name: column.name,
    label: broken(title, Math.max(13, title.length / 2 + 3)),
    range: [isSome ? none : low - room, high + room],
    tickvals: isSome ? [none, ...ticks] : ticks,
    ticktext: isSome ? ["none", ...words] : words,
  };
  return { at, drawn, hasValues: different.length > 0 };
}

// The colours of rows by a column, brighter where that is better; of those without a value a colour of its own below all
// others, which the bar names.
const NONE_SHARE = 0.06; // of the bar
function coloursOf(column, rows, all) {
  const numbers = numbersOf(column), { by, title } = scaleOf(column, all), different = differentOf(column, all);
  const isSome = all.some((row) => isMissing(column, row)), share = isSome ? NONE_SHARE : 0;
  const [low, high] = different.length ? [different[0] / by, different.at(-1) / by] : [0, 0];
  const most = high > low ? high : low + 1, least = (low - share * most) / (1 - share), none = (least + low) / 2;
  const ticks = column.texts ? different : high > low ? ticksOf(low, high) : [low];
  const words = ticks.map((tick) => escaped(column.texts ? column.texts[tick] : tickWords(tick)));
  const scale = column.better === "less" ? SCALE.map(([at, colour]) => [1 - at, colour]).reverse() : SCALE;
  return {
    color: rows.map((row) => (isMissing(column, row) ? least : numbers[row] / by)),
    cmin: least,
    cmax: most,
    colorscale: isSome ? [[0, NO_VALUE], [share / 1.0001, NO_VALUE], ...scale.map(([at, colour]) => [share + at * (1 - share), colour])] : scale,
    showscale: true,
    colorbar: {
      title: { text: broken(title, 18), side: "top" }, thickness: 14, outlinewidth: 0, len: 1,
      ...(isSome || column.texts ? { tickvals: isSome ? [none, ...ticks] : ticks, ticktext: isSome ? ["none", ...words] : words } : {}),
    },
  };
}

// A vertical axis for each column, a line for each row, coloured by one of them. `all`: rows that axes reach over.
function parallelFigure(columns, rows, all, coloured) {
  const axes = columns.map((column) => verticalOf(column, all)).filter((axis) => axis.hasValues);
  const dimensions = axes.map(({ at, drawn }) => ({ ...drawn, values: rows.map(at) }));
  const line = coloursOf(coloured, rows, all);
  const figure = chart([{ type: "parcoords", dimensions, line, labelside: "top" }], { height: 460, margin: { l: 60, r: 30, t: 70, b: 20 } });
  return { figure, placesOf: Object.fromEntries(axes.map(({ at, drawn }) => [drawn.name, at])) };
}

// A number at an axis: 1.15M, 4,096, 0.035.
function tickWords(value) {
  const short = (number) => fixed(number, 3).replace(/\.?0+$/, "");
  if (Math.abs(value) >= 1e6) return `${short(Number((value / 1e6).toPrecision(3)))}M`;
  return Math.abs(value) >= 100 ? short(Number(value.toPrecision(4))) : String(Number(value.toPrecision(3)));
}

// Round numbers between two ends, and the ends.
function ticksOf(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const inner = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) inner.push(at * step);
  const apart = (tick) => tick - low > 0.6 * step && high - tick > 0.6 * step;
  return [low, ...inner.filter(apart), high];
}

// A grid of two columns, the brighter the better.
function heatFigure(rows, x, y, value, how) {
  const grid = gridOf(rows, x, y, value, how);
  const all = rows.length ? scaleOf(value, rows) : { by: 1, title: value.words };
  const text = grid.values.map((line) => line.map((cell) => (cell === null ? "" : inWords(cell, value.unit))));
  const hover = grid.values.map((line, up) =>
    line.map((cell, across) =>
      cell === null
        ? "no row"
        : `${escaped(x.words)}: ${escaped(grid.across.words[across])}<br>${escaped(y.words)}: ${escaped(grid.up.words[up])}<br>` +
          `<b>${how} of ${counted(grid.counts[up][across], "row")}: ${text[up][across]}</b>`
    )
  );
  const isSmall = grid.across.words.length <= 10 && grid.up.words.length <= 16;
  const trace = {
    type: "heatmap",
    x: grid.across.words.map((_, at) => at),
    y: grid.up.words.map((_, at) => at),
    z: grid.values.map((line) => line.map((cell) => (cell === null ? null : cell / all.by))),
    text,
    texttemplate: isSmall ? "%{text}" : undefined,
    hovertext: hover,
    hovertemplate: "%{hovertext}<extra></extra>",
    xgap: 2,
    ygap: 2,
    colorscale: SCALE,
    reversescale: value.better === "less",
    colorbar: { title: { text: broken(all.title, 18), side: "top" }, thickness: 14, outlinewidth: 0 },
  };
  const named = (steps) => ({ tickmode: "array", tickvals: steps.words.map((_, at) => at), ticktext: steps.words.map((words) => escaped(words)), showgrid: false });
  const figure = chart([trace], {
    height: 190 + 34 * Math.min(Math.max(grid.up.words.length, 4), 16),
    xaxis: axisOf(escaped(x.words), named(grid.across)),
    yaxis: axisOf(escaped(y.words), named(grid.up)),
  });
  const cut = [grid.across, grid.up].filter((steps) => steps.isRanges);
  return { figure, isRanges: cut.length > 0, isLog: cut.some((steps) => steps.isLog) };
}

// Rows in two columns, those on the front with a ring and joined by a line.
function frontFigure(all, front, x, y, plan, marks, wordsOf) {
  const rows = all.filter((row) => x.values[row] !== null && y.values[row] !== null);
  const [across, up] = [scaleOf(x, rows), scaleOf(y, rows)];
  const place = (column, by, row) => Number((column.values[row] / by).toPrecision(6));
  const points = (some) => ({
    x: some.map((row) => place(x, across.by, row)),
    y: some.map((row) => place(y, up.by, row)),
    customdata: some,
    hovertext: some.map(wordsOf),
    hovertemplate: "%{hovertext}<extra></extra>",
  });
  const kind = rows.length > 2000 ? "scattergl" : "scatter";
  const traces = plan.texts.flatMap((name, at) => {
    const own = rows.filter((row) => plan.places[row] === at);
    const { colour, symbol } = marks[name];
    return own.length ? [{ type: kind, mode: "markers", name: escaped(name), ...points(own), marker: { color: colour, symbol, size: 7, opacity: 0.6 } }] : [];
  });
  const grey = { color: "#8A8A8A", width: 1.5, shape: "hv" }; // what can be had until the next is paid for
  traces.push({
    type: "scatter",
    mode: "lines+markers",
    name: "Pareto front",
    ...points(front),
    line: grey,
    marker: { symbol: "circle-open", size: 13, color: "#111111", line: { width: 2, color: "#111111" } },
  });
  const better = (column) => (column.better === "more" ? "more is better" : "less is better");
  return chart(traces, {
    height: 520,
    hovermode: "closest",
    xaxis: axisOf(`${escaped(across.title)}: ${better(x)}`),
    yaxis: axisOf(`${escaped(up.title)}: ${better(y)}`),
  });
}

// Bars of what the steps of rows consist of. `parts`: column, words and colour of each.
function partsFigure(rows, labels, parts, columns) {
  const most = Math.max(...rows.map((row) => columns.step_time_s.values[row]));
  const { by, name } = multipleOf("s", most);
  const traces = parts.map((part) => ({
    type: "bar",
    orientation: "h",
    name: part.words,
    y: labels.map(escaped),
    x: rows.map((row) => (columns[part.column].values[row] ?? 0) / by),
    marker: { color: part.colour },
    hovertext: rows.map((row, at) => `<b>${escaped(labels[at])}</b><br>${part.words}: ${told(columns[part.column], row)}`),
    hovertemplate: "%{hovertext}<extra></extra>",
  }));
  return chart(traces, {
    height: 150 + 40 * rows.length,
    barmode: "stack",
    bargap: 0.35,
    xaxis: axisOf(`time of one step (${name})`),
    yaxis: axisOf("", { autorange: "reversed", type: "category", categoryorder: "array", categoryarray: labels.map(escaped) }),
  });
}
