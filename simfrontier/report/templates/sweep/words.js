// Numbers as the pages write them (phrases.py and units.py): three digits, thousands separated, units in their multiples.

const NOTHING = "–";
const BLANK = "\u00a0"; // a number and its unit stay on one line
const MULTIPLES = { s: "s", bytes: "B", "bytes/s": "B/s", flop: "flop", "flop/s": "flop/s" };
const PREFIXES = { "-4": "p", "-3": "n", "-2": "µ", "-1": "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E" };

// So many decimals, a half to the even digit, thousands separated.
function fixed(value, decimals) {
  let text = Math.abs(value).toFixed(decimals);
  const times = Math.abs(value) * 10 ** decimals, below = Math.floor(times);
  const isHalf = times - below === 0.5 && Number.isInteger(value * 2 ** (decimals + 1));
  if (isHalf && below % 2 === 0) text = (below / 10 ** decimals).toFixed(decimals);
  const [whole, rest] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return (value < 0 && /[1-9]/.test(text) ? "-" : "") + (rest === undefined ? grouped : `${grouped}.${rest}`);
}

function plainNumber(value, digits = 3) {
  if (!Number.isFinite(value)) return NOTHING;
  if (value === 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)) + 1e-12));
  return fixed(value, Math.min(decimals, 8));
}

// What to divide values of a unit by, and the multiple of the unit, where the largest is `most`.
function multipleOf(unit, most) {
  if (unit === "share") return { by: 0.01, name: "%" };
  if (!(unit in MULTIPLES)) return { by: 1, name: unit === "1/s" ? unit : "" };
  if (!(most > 0) || !Number.isFinite(most)) return { by: 1, name: MULTIPLES[unit] };
  const lowest = unit === "s" ? -4 : 0, highest = unit === "s" ? 0 : unit.startsWith("b") || unit.startsWith("f") ? 6 : 0;
  const power = Math.min(Math.max(Math.floor(Math.log10(most * (1 + 1e-9)) / 3), lowest), highest);
  return { by: 1000 ** power, name: PREFIXES[power] + MULTIPLES[unit] };
}

// Three digits, of the four that are kept; whole where these are.
function threeDigits(value) {
  const four = Number(value.toPrecision(4));
  return Number.isInteger(four) ? fixed(four, 0) : plainNumber(four);
}

// A value of a quantity in words: 4.74 s, 25.4 GB, 13.2 %, 4,096. `digits`: more than three, where it is told apart.
function inWords(value, unit, digits = 3) {
  if (value === null || value === undefined || value === "") return NOTHING;
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return NOTHING;
  if (unit === "share") {
    const percent = 100 * value;
    if (digits > 3) return `${plainNumber(percent, digits)}${BLANK}%`;
    return `${fixed(percent, Math.abs(percent) < 99.95 ? 1 : 0)}${BLANK}%`;
  }
  if (!(unit in MULTIPLES)) return (unit === "count" && Number.isInteger(value) ? fixed(value, 0) : threeDigits(value)) + (unit === "1/s" ? `${BLANK}1/s` : "");
  const { by, name } = multipleOf(unit, Math.abs(value));
  if (digits > 3) return `${plainNumber(value / by, digits)}${BLANK}${name}`;
  const four = Number((value / by).toPrecision(4));
  return `${Number.isInteger(four) && Math.abs(four) < 1e4 ? four : threeDigits(value / by)}${BLANK}${name}`;
}

// A change as per cent with its sign.
function signed(share) {
  if (!Number.isFinite(share)) return NOTHING;
  const size = inWords(Math.abs(share), "share");
  return size === inWords(0, "share") ? size : `${share > 0 ? "+" : "−"}${size}`;
}

function counted(count, one, several = `${one}s`) {
  return `${fixed(count, 0)} ${count === 1 ? one : several}`;
}

// A word of a command line as a shell takes it.
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
