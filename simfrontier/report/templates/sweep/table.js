// The table of rows: sorted by a click on a column, filtered by the choices above it, so many rows at a time.

const AT_A_TIME = 100;

// An element with attributes and what stands in it; texts are never read as HTML.
function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...inside.filter((each) => each !== null));
  return made;
}

// A table with a name and a head; the first cell of a row names it.
function tableOf(label, head, lines, kind = "") {
  const cells = (line) => line.map((cell, at) => (at ? element("td", {}, cell) : element("th", { scope: "row" }, cell)));
  const body = lines.map((line) => element("tr", {}, ...cells(line)));
  const first = element("tr", {}, ...head.map((cell) => element("th", { scope: "col" }, cell)));
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, element("table", { class: kind || null }, element("thead", {}, first), element("tbody", {}, ...body)));
}

// `isReplayed`: with the mark of a point that was replayed.
function linkTo(data, point, isReplayed = false) {
  const link = element("a", { href: `#point=${data.digests[point] || data.numbers[point]}` }, fixed(data.numbers[point], 0));
  return isReplayed ? element("span", {}, link, BLANK, element("abbr", { title: "replayed, not simulated" }, "≈")) : link;
}

class RowsTable {
  constructor(data, place) {
    Object.assign(this, { data, place, rows: [], shown: AT_A_TIME, by: data.table.sorted, isUp: data.columns[data.table.sorted].better !== "more" });
    this.columns = data.table.columns.map((name) => ({ name, ...data.columns[name] }));
    place.addEventListener("click", (event) => this.clicked(event.target));
  }

  clicked(target) {
    const name = target.closest("button")?.dataset.sort;
    if (name) {
      [this.isUp, this.by] = [this.by === name ? !this.isUp : true, name];
      this.show(this.rows);
      this.place.querySelector(`[data-sort="${CSS.escape(name)}"]`).focus();
    } else if (target.closest("[data-more]")) {
      this.shown += 10 * AT_A_TIME;
      this.draw();
    }
  }

  // Rows without a value are last, whichever way the others are sorted.
  show(rows) {
    const numbers = this.by === "point" ? this.data.pointOf : numbersOf(this.data.columns[this.by]);
    const known = (row) => numbers[row] !== null && !(this.data.columns[this.by]?.texts && numbers[row] < 0);
    const way = this.isUp ? 1 : -1;
    this.rows = rows.slice().sort((a, b) => known(b) - known(a) || (known(a) ? way * (numbers[a] - numbers[b]) : 0) || a - b);
    this.shown = AT_A_TIME;
    this.draw();
  }

  draw() {
    const some = this.rows.slice(0, this.shown);
    const lines = some.map((row) => [linkTo(this.data, this.data.pointOf[row], isReplayed(this.data, row)), ...this.columns.map((column) => told(column, row))]);
    const heads = [{ name: "point", words: "point" }, ...this.columns];
    const made = tableOf("rows of the sweep", heads.map((column) => this.head(column)), lines);
    made.querySelectorAll("thead th").forEach((cell, at) => {
      if (heads[at].name === this.by) cell.setAttribute("aria-sort", this.isUp ? "ascending" : "descending");
    });
    const left = this.rows.length - some.length;
    const more = left ? element("button", { type: "button", "data-more": "" }, `${counted(Math.min(left, 10 * AT_A_TIME), "row")} more`) : null;
    const said = element("p", { class: "note", role: "status" }, `${counted(this.rows.length, "row")}${left ? `, the first ${fixed(some.length, 0)} shown` : ""}.`);
    this.place.replaceChildren(said, made, ...(more ? [element("p", { class: "choices" }, more)] : []));
  }

  head(column) {
    const mark = column.name === this.by ? (this.isUp ? " ▲" : " ▼") : "";
    return element("button", { type: "button", "data-sort": column.name, title: column.name }, `${column.words}${mark}`);
  }
}
