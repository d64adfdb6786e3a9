// The rows of a sweep: columns by name, what rows of a choice have in common, fronts, and grids of two axes.

// A column has `values`, or the `places` of its `texts`; `unit`, `words`, `better`, whether it is an axis and whole.
function valueOf(column, row) {
  if (!column.texts) return column.values[row];
  const place = column.places[row];
  return place < 0 ? null : column.texts[place];
}

// A value in words; axes are written as they were set, up to six digits, or up to `digits` where those are more.
function told(column, row, digits = 3) {
  const value = valueOf(column, row);
  if (column.isAxis && typeof value === "number" && !(column.unit in MULTIPLES)) {
    return Number.isInteger(value) ? fixed(value, 0) : String(Number(value.toPrecision(Math.max(digits, 6))));
  }
  return inWords(value, column.unit, digits);
}

// Values of rows in words, all with as many digits as tell different ones apart.
const MOST_DIGITS = 12;
function toldApart(column, rows) {
  const different = differentOf(column, rows).length;
  for (let digits = 3; ; digits++) {
    const words = rows.map((row) => told(column, row, digits));
    if (digits === MOST_DIGITS || new Set(words.filter((_, at) => valueOf(column, rows[at]) !== null)).size >= different) return words;
  }
}

// Values as numbers that a chart can place: texts by their places.
function numbersOf(column) {
  return column.texts ? column.places : column.values;
}

// Whether a row was replayed from a simulated step instead of simulated.
const isReplayed = (data, row) => valueOf(data.columns.fidelity, row) === data.replay;

// The different values of a column among rows, in ascending order.
function differentOf(column, rows) {
  const found = new Set();
  for (const row of rows) {
    const value = numbersOf(column)[row];
    if (value !== null && !(column.texts && value < 0)) found.add(value);
  }
  return [...found].sort((a, b) => a - b);
}

// The unit of a column on an axis of a chart, as a suffix of its words.
function scaleOf(column, rows) {
  const most = rows.reduce((so_far, row) => Math.max(so_far, Math.abs(numbersOf(column)[row] ?? 0)), 0);
  const { by, name } = multipleOf(column.unit, most);
  return { by, title: name ? `${column.words} (${name})` : column.words };
}

// Rows on the Pareto front, the least `x` first: as `front_of` of pareto.py.
function frontOf(rows, x, y) {
  const cost = (column, row) => (column.better === "more" ? -1 : 1) * column.values[row];
  const known = rows.filter((row) => x.values[row] !== null && y.values[row] !== null);
  const order = known.sort((a, b) => cost(x, a) - cost(x, b) || cost(y, a) - cost(y, b) || a - b);
  const front = [];
  let least = Infinity, last = null;
  for (const row of order) {
    const here = [cost(x, row), cost(y, row)];
    const isCopy = last && here[0] === last[0] && here[1] === last[1];
    if (here[1] < least || isCopy) {
      front.push(row);
      [least, last] = [here[1], here];
    }
  }
  return front;
}

// At most so many of the rows: those that are wanted, and of the others some at even distances.
function thinned(rows, most, isWanted) {
  if (rows.length <= most) return rows;
  const others = rows.filter((row) => !isWanted(row)), room = Math.max(0, most - (rows.length - others.length));
  const taken = new Set(Array.from({ length: room }, (_, at) => others[Math.floor((at * others.length) / room)]));
  return rows.filter((row) => isWanted(row) || taken.has(row));
}

function medianOf(values) {
  const sorted = values.slice().sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// At most so many steps of an axis: its values themselves, or ranges where it has more, of equal length or, where the
// axis is logarithmic, of equal ratios.
const MOST_STEPS = 24, NUM_RANGES = 12;
function stepsOf(column, rows) {
  const values = differentOf(column, rows);
  if (column.texts) return { of: (value) => values.indexOf(value), words: values.map((place) => column.texts[place]), isRanges: false };
  if (values.length <= MOST_STEPS) {
    const place = new Map(values.map((value, at) => [value, at]));
    return { of: (value) => place.get(value), words: toldApart({ ...column, values }, [...values.keys()]), isRanges: false };
  }
  const isLog = column.isLog && values[0] > 0, low = values[0], high = values.at(-1);
  const shareOf = isLog ? (value) => Math.log(value / low) / Math.log(high / low) : (value) => (value - low) / (high - low);
  const valueAt = isLog ? (share) => low * (high / low) ** share : (share) => low + share * (high - low);
  const edges = Array.from({ length: NUM_RANGES + 1 }, (_, at) => Number(valueAt(at / NUM_RANGES).toPrecision(4)));
  const words = toldApart({ ...column, values: edges }, [...edges.keys()]);
  return {
    of: (value) => Math.min(Math.floor(NUM_RANGES * shareOf(value)), NUM_RANGES - 1),
    words: words.slice(1).map((end, at) => `${words[at]} to ${end}`),
    isRanges: true,
    isLog,
  };
}

// For each step of `y` and of `x`: how many rows are there, and the median or the best of their values.
function gridOf(rows, x, y, value, how) {
  const [across, up] = [stepsOf(x, rows), stepsOf(y, rows)];
  const cells = up.words.map(() => across.words.map(() => []));
  for (const row of rows) {
    const [a, b, v] = [numbersOf(x)[row], numbersOf(y)[row], numbersOf(value)[row]];
    if (a !== null && b !== null && v !== null && !(value.texts && v < 0)) cells[up.of(b)]?.[across.of(a)]?.push(v);
  }
  const best = (values) => values.reduce((a, b) => (value.better === "more" ? Math.max(a, b) : Math.min(a, b)));
  const made = cells.map((line) => line.map((values) => (values.length ? (how === "best" ? best(values) : medianOf(values)) : null)));
  return { across, up, values: made, counts: cells.map((line) => line.map((values) => values.length)) };
}
