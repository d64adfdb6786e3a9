"""Charts of a sweep: parallel coordinates, the best rate over two axes, memory against rate with the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import combinations
from math import log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from simfrontier.interfaces.report.findings.sweep import MEMORY, RATE, RESULTS_SHOWN, Row, SweepFindings, SweptAxis
from simfrontier.interfaces.report.findings.sweep_columns import QUANTITIES
from simfrontier.interfaces.report.phrases import in_unit
from simfrontier.interfaces.report.theme import (
    BYTES,
    INK,
    LINE,
    Figure,
    PlanMark,
    PlotTrace,
    axis,
    decades,
    figure,
    points,
)

if TYPE_CHECKING:
    import pandas as pd

SCALE: Final = "Cividis"  # for all kinds of colour vision
LOG_FROM: Final = 20.0  # a coordinate is logarithmic where the largest value is so many times the smallest
FEW: Final = 8  # different values that all are ticks
MOST_CELLS: Final = 40  # of a row or a column of a heat map
Marks = Mapping[str, PlanMark]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coordinate:
    """A vertical axis of parallel coordinates: its title, the places of rows on it, and its labelled ticks, if it has
    other than plotly's."""

    title: str
    places: Sequence[float]
    ticks: Mapping[float, str]

    def dimension(self) -> dict[str, Any]:
        """The coordinate as plotly draws it, its title below the number at its end."""
        low, high = min(self.places), max(self.places)
        room = 0.5 if low == high else 0.0
        label = f"\u00a0<br>{_lines(self.title, 16)}"
        return {"label": label, "values": list(self.places), "range": [low - room, high + room]} | _ticks(self.ticks)

    def colours(self, scale: str | list[list[Any]], **ends: float) -> dict[str, Any]:
        """Colours of the lines by this coordinate, and the bar that names them."""
        bar = _bar(self.title) | _ticks(self.ticks)
        return {"color": list(self.places), "colorscale": scale, "showscale": True, "colorbar": bar, **ends}


def parallel_coordinates(found: SweepFindings, rows: pd.DataFrame, marks: Marks) -> dict[str, Figure]:
    """Parallel coordinates of the axes that vary and the results, a line for each row: coloured by rate, and by plan
    where there are several. Columns in which a row has no value are left out."""
    if rows.empty:
        return {}
    several = [name for name in ("scenario", "plan", "devices") if len(found.values_of(name)) > 1]
    columns = [*(each.column for each in found.varied), *several, *RESULTS_SHOWN]
    coordinates = {name: _coordinate(found, rows[name]) for name in columns if rows[name].notna().all()}
    lines = {"by rate": coordinates[RATE].colours(SCALE)}
    if "plan" in coordinates:
        count = len(marks)
        steps = [[(at + end) / count, each.colour] for at, each in enumerate(marks.values()) for end in (0, 1)]
        lines["by plan"] = coordinates["plan"].colours(steps, cmin=-0.5, cmax=count - 0.5)
    dimensions = [each.dimension() for each in coordinates.values()]
    trace = {"type": "parcoords", "dimensions": dimensions, "labelside": "bottom"}
    margin = {"l": 70, "r": 30, "t": 40, "b": 90}
    return {
        name: figure([{**trace, "line": line}], axis(""), axis(""), 470, margin=margin) for name, line in lines.items()
    }


def _coordinate(found: SweepFindings, column: pd.Series) -> _Coordinate:
    name = str(column.name)
    of = next((each for each in found.varied if each.column == name), None)
    quantity = of.quantity if of else QUANTITIES[name]
    if quantity.unit in ("text", "truth"):
        texts = list(of.values) if of else found.values_of(name)
        words = {float(at): escape(of.in_words(text) if of else text) for at, text in enumerate(texts)}
        return _Coordinate(title=quantity.title, places=[texts.index(each) for each in column], ticks=words)
    told = of.in_words if of else partial(in_unit, unit=quantity.unit)
    values = column.tolist()
    low, high, different = min(values), max(values), sorted(set(values))
    if low > 0.0 and high > LOG_FROM * low:
        room = (high / low) ** 0.06  # ticks nearer to the ends are in the way of theirs
        between = [tick for tick in decades(low, high) if low * room < tick < high / room]
        ticks = {log10(value): told(value) for value in (low, *between, high)}
        return _Coordinate(title=quantity.title, places=[log10(value) for value in values], ticks=ticks)
    some = different if len(different) <= FEW else [low + part * (high - low) / 4 for part in range(5)]
    return _Coordinate(title=quantity.title, places=values, ticks={value: told(value) for value in some})


def heat_maps(found: SweepFindings) -> dict[str, Figure]:
    """Heat maps of the best rate over two axes by scenario and size: the first two of which every pair of values was
    run; none where there are no such axes."""
    pairs = (pair for pair in combinations(found.varied, 2) if _is_full(found.rows, *pair))
    pair = next(pairs, None)
    if pair is None:
        return {}
    return {found.size_name(size): _heat_map(own, *pair) for size, own in found.ran.groupby(["scenario", "devices"])}


def _is_full(rows: pd.DataFrame, across: SweptAxis, up: SweptAxis) -> bool:
    count = len(across.values) * len(up.values)
    is_small = max(len(across.values), len(up.values)) <= MOST_CELLS
    return is_small and len(rows[[across.column, up.column]].drop_duplicates()) == count


def _heat_map(rows: pd.DataFrame, across: SweptAxis, up: SweptAxis) -> Figure:
    best = rows.loc[rows.groupby([across.column, up.column])[RATE].idxmax()].to_dict("records")
    cells = {(row[across.column], row[up.column]): row for row in best}
    grid = [[cells.get((x, y)) for x in across.values] for y in up.values]
    is_small = len(across.values) <= 10
    trace: PlotTrace = {
        "type": "heatmap",
        "z": [[row and row[RATE] for row in line] for line in grid],
        "text": [[in_unit(row[RATE], "number") if row and is_small else "" for row in line] for line in grid],
        "texttemplate": "%{text}",
        "hovertext": [[_words_of_cell(row, across, up) for row in line] for line in grid],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "xgap": 2,
        "ygap": 2,
        "colorscale": SCALE,
        "colorbar": _bar(QUANTITIES[RATE].title),
    }
    height = 190 + 34 * min(max(len(up.values), 4), 16)
    return figure([trace], _steps(across), _steps(up), height)


def _steps(of: SweptAxis) -> dict[str, Any]:
    """A side of a heat map: the values of an axis at even distances."""
    ticks = {float(at): escape(of.in_words(value)) for at, value in enumerate(of.values)}
    return axis(escape(of.quantity.title), showgrid=False, **_ticks(ticks))


def _words_of_cell(row: Row | None, across: SweptAxis, up: SweptAxis) -> str:
    if row is None:
        return "no plan ran"
    settings = (f"{each.quantity.title} {each.in_words(row[each.column])}" for each in (across, up))
    best = f"<b>{in_unit(row[RATE], 'number')}</b> by {escape(row['plan'])}, point {row['point']:,}"
    return "<br>".join([best, *map(escape, settings)])


def front_charts(found: SweepFindings, rows: pd.DataFrame, marks: Marks) -> dict[str, Figure]:
    """Scatter plots of memory and rate by scenario and size, with the Pareto front."""
    known = rows.dropna(subset=[MEMORY])
    return {
        found.size_name(size): _front_chart(found, own, found.fronts[size], marks)
        for size, own in known.groupby(["scenario", "devices"])
    }


def _front_chart(found: SweepFindings, rows: pd.DataFrame, front: pd.DataFrame, marks: Marks) -> Figure:
    def marked(
        name: str, own: pd.DataFrame, colour: str, symbol: str, look: Mapping[str, Any], **more: Any
    ) -> PlotTrace:
        x, y = own[MEMORY].tolist(), own[RATE].tolist()
        hover = [_words_of_row(found, row) for row in own.to_dict("records")]
        return points(escape(name), x, y, colour, symbol, hover, look, **more)

    traces = [
        marked(plan, rows[rows["plan"] == plan], mark.colour, mark.symbol, {"size": 7, "opacity": 0.6})
        for plan, mark in marks.items()
        if (rows["plan"] == plan).any()
    ]
    stairs = {"mode": "lines+markers", "line": {"color": LINE, "width": 1.5, "shape": "hv"}}
    ring = {"size": 13, "line": {"width": 2, "color": INK}}
    traces.append(marked("Pareto front", front, INK, "circle-open", ring, **stairs))
    x = axis(f"{QUANTITIES[MEMORY].title}: less is better", **BYTES)
    return figure(traces, x, axis(f"{QUANTITIES[RATE].title}: more is better"), 520, hovermode="closest")


def _words_of_row(found: SweepFindings, row: Row) -> str:
    results = (f"{QUANTITIES[name].title}: {in_unit(row[name], QUANTITIES[name].unit)}" for name in (MEMORY, RATE))
    lines = [f"<b>point {row['point']:,}</b>", *map(escape, found.settings_of(row, row["plan"])), *results]
    return "<br>".join(lines)


def _bar(title: str) -> dict[str, Any]:
    """A bar beside a chart that names its colours."""
    return {"title": {"text": _lines(title, 14), "side": "top"}, "thickness": 14, "outlinewidth": 0}


def _ticks(ticks: Mapping[float, str]) -> dict[str, Any]:
    return {"tickvals": list(ticks), "ticktext": list(ticks.values())} if ticks else {}


def _lines(text: str, width: int) -> str:
    """A title on several short lines."""
    return "<br>".join(map(escape, wrap(text, width)))
