"""The page of a sweep and its charts, rendered from the data set in the sweep's folder without any simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import combinations
from math import log10
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from simfrontier.answers.experiments import OFF_BY, REPLAY
from simfrontier.answers.study import versions
from simfrontier.answers.sweep import GOAL, ROWS, GoalAnswer, Indices, measure_next
from simfrontier.base.wholefile import write_whole
from simfrontier.interfaces.report import sweep, theme
from simfrontier.interfaces.report.phrases import in_unit, percent, percent_between
from simfrontier.interfaces.report.render import page_of
from simfrontier.interfaces.report.theme import axis, marks, rows

if TYPE_CHECKING:
    import pandas as pd

SCALE: Final = "Cividis"  # for all kinds of colour vision
LOG_FROM: Final = 20.0  # a coordinate is logarithmic where the largest value is so many times the smallest
FEW: Final = 8  # different values that all are ticks
MOST_CELLS: Final = 40  # of a row or a column of a heat map
Marks = Mapping[str, theme.PlanMark]
TOTAL: Final = "#E0A458"
WIDE_FROM: Final = 4.0  # an axis is logarithmic where the largest value is so many times the smallest
PAGE: Final = "index.html"
FEW_NUMBERS, FEW_TEXTS = 6, 12  # values of an axis that are all listed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coordinate:
    """A vertical axis of parallel coordinates: its title, the coordinates of the rows on it, and its labelled ticks, if
    they differ from plotly's."""

    title: str
    places: Sequence[float]
    ticks: Mapping[float, str]

    def dimension(self) -> dict[str, Any]:
        """Return the axis in plotly's format, with its title below the number at its end."""
        low, high = min(self.places), max(self.places)
        room = 0.5 if low == high else 0.0
        label = f"\u00a0<br>{_lines(self.title, 16)}"
        return {"label": label, "values": list(self.places), "range": [low - room, high + room]} | _ticks(self.ticks)

    def colours(self, scale: str | list[list[Any]], **ends: float) -> dict[str, Any]:
        """Return the attributes that colour the lines by this coordinate, with a colour bar."""
        bar = _bar(self.title) | _ticks(self.ticks)
        return {"color": list(self.places), "colorscale": scale, "showscale": True, "colorbar": bar, **ends}


def parallel_coordinates(found: sweep.SweepFindings, rows: pd.DataFrame, marks: Marks) -> dict[str, theme.Figure]:
    """Plot parallel coordinates of the varying axes and the results, a line for each row: one chart coloured by rate,
    and one by plan if there are several plans. Columns in which a row has no value are left out."""
    if rows.empty:
        return {}
    several = [name for name in ("scenario", "plan", "devices") if len(found.values_of(name)) > 1]
    columns = [*(each.column for each in found.varied), *several, *sweep.RESULTS_SHOWN]
    coordinates = {name: _coordinate(found, rows[name]) for name in columns if rows[name].notna().all()}
    lines = {"by rate": coordinates[sweep.RATE].colours(SCALE)}
    if "plan" in coordinates:
        count = len(marks)
        steps = [[(at + end) / count, each.colour] for at, each in enumerate(marks.values()) for end in (0, 1)]
        lines["by plan"] = coordinates["plan"].colours(steps, cmin=-0.5, cmax=count - 0.5)
    dimensions = [each.dimension() for each in coordinates.values()]
    trace = {"type": "parcoords", "dimensions": dimensions, "labelside": "bottom"}
    margin = {"l": 70, "r": 30, "t": 40, "b": 90}
    return {
        name: theme.figure([{**trace, "line": line}], axis(""), axis(""), 470, margin=margin)
        for name, line in lines.items()
    }


def _coordinate(found: sweep.SweepFindings, column: pd.Series) -> _Coordinate:
    name = str(column.name)
    of = next((each for each in found.varied if each.column == name), None)
    quantity = of.quantity if of else sweep.QUANTITIES[name]
    if quantity.unit in ("text", "truth"):
        texts = list(of.values) if of else found.values_of(name)
        words = {float(at): escape(of.in_words(text) if of else text) for at, text in enumerate(texts)}
        return _Coordinate(title=quantity.title, places=[texts.index(each) for each in column], ticks=words)
    told = of.in_words if of else partial(in_unit, unit=quantity.unit)
    values = column.tolist()
    low, high, different = min(values), max(values), sorted(set(values))
    if low > 0.0 and high > LOG_FROM * low:
        room = (high / low) ** 0.06  # ticks nearer to the ends are in the way of theirs
        between = [tick for tick in theme.decades(low, high) if low * room < tick < high / room]
        ticks = {log10(value): told(value) for value in (low, *between, high)}
        return _Coordinate(title=quantity.title, places=[log10(value) for value in values], ticks=ticks)
    some = different if len(different) <= FEW else [low + part * (high - low) / 4 for part in range(5)]
    return _Coordinate(title=quantity.title, places=values, ticks={value: told(value) for value in some})


def heat_maps(found: sweep.SweepFindings) -> dict[str, theme.Figure]:
    """Plot heat maps of the best rate over two axes, by scenario and size: the first two axes for which every pair of
    values was simulated; no chart if there are no such axes."""
    pairs = (pair for pair in combinations(found.varied, 2) if _is_full(found.rows, *pair))
    pair = next(pairs, None)
    if pair is None:
        return {}
    return {found.size_name(size): _heat_map(own, *pair) for size, own in found.ran.groupby(["scenario", "devices"])}


def _is_full(rows: pd.DataFrame, across: sweep.SweptAxis, up: sweep.SweptAxis) -> bool:
    count = len(across.values) * len(up.values)
    is_small = max(len(across.values), len(up.values)) <= MOST_CELLS
    return is_small and len(rows[[across.column, up.column]].drop_duplicates()) == count


def _heat_map(rows: pd.DataFrame, across: sweep.SweptAxis, up: sweep.SweptAxis) -> theme.Figure:
    best = rows.loc[rows.groupby([across.column, up.column])[sweep.RATE].idxmax()].to_dict("records")
    cells = {(row[across.column], row[up.column]): row for row in best}
    grid = [[cells.get((x, y)) for x in across.values] for y in up.values]
    is_small = len(across.values) <= 10
    trace: theme.PlotTrace = {
        "type": "heatmap",
        "z": [[row and row[sweep.RATE] for row in line] for line in grid],
        "text": [[in_unit(row[sweep.RATE], "number") if row and is_small else "" for row in line] for line in grid],
        "texttemplate": "%{text}",
        "hovertext": [[_words_of_cell(row, across, up) for row in line] for line in grid],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "xgap": 2,
        "ygap": 2,
        "colorscale": SCALE,
        "colorbar": _bar(sweep.QUANTITIES[sweep.RATE].title),
    }
    height = 190 + 34 * min(max(len(up.values), 4), 16)
    return theme.figure([trace], _steps(across), _steps(up), height)


def _steps(of: sweep.SweptAxis) -> dict[str, Any]:
    """Return an axis of a heat map with the values at equal distances."""
    ticks = {float(at): escape(of.in_words(value)) for at, value in enumerate(of.values)}
    return axis(escape(of.quantity.title), showgrid=False, **_ticks(ticks))


def _words_of_cell(row: sweep.Row | None, across: sweep.SweptAxis, up: sweep.SweptAxis) -> str:
    if row is None:
        return "no plan ran"
    settings = (f"{each.quantity.title} {each.in_words(row[each.column])}" for each in (across, up))
    best = f"<b>{in_unit(row[sweep.RATE], 'number')}</b> by {escape(row['plan'])}, point {row['point']:,}"
    return "<br>".join([best, *map(escape, settings)])


def front_charts(found: sweep.SweepFindings, rows: pd.DataFrame, marks: Marks) -> dict[str, theme.Figure]:
    """Plot rate against memory with the Pareto front, by scenario and size."""
    known = rows.dropna(subset=[sweep.MEMORY])
    return {
        found.size_name(size): _front_chart(found, own, found.fronts[size], marks)
        for size, own in known.groupby(["scenario", "devices"])
    }


def _front_chart(found: sweep.SweepFindings, rows: pd.DataFrame, front: pd.DataFrame, marks: Marks) -> theme.Figure:
    def marked(
        name: str, own: pd.DataFrame, colour: str, symbol: str, look: Mapping[str, Any], **more: Any
    ) -> theme.PlotTrace:
        x, y = own[sweep.MEMORY].tolist(), own[sweep.RATE].tolist()
        hover = [_words_of_row(found, row) for row in own.to_dict("records")]
        return theme.points(escape(name), x, y, colour, symbol, hover, look, **more)

    traces = [
        marked(plan, rows[rows["plan"] == plan], mark.colour, mark.symbol, {"size": 7, "opacity": 0.6})
        for plan, mark in marks.items()
        if (rows["plan"] == plan).any()
    ]
    stairs = {"mode": "lines+markers", "line": {"color": theme.LINE, "width": 1.5, "shape": "hv"}}
    ring = {"size": 13, "line": {"width": 2, "color": theme.INK}}
    traces.append(marked("Pareto front", front, theme.INK, "circle-open", ring, **stairs))
    x = axis(f"{sweep.QUANTITIES[sweep.MEMORY].title}: less is better", **theme.BYTES)
    return theme.figure(
        traces, x, axis(f"{sweep.QUANTITIES[sweep.RATE].title}: more is better"), 520, hovermode="closest"
    )


def _words_of_row(found: sweep.SweepFindings, row: sweep.Row) -> str:
    results = (
        f"{sweep.QUANTITIES[name].title}: {in_unit(row[name], sweep.QUANTITIES[name].unit)}"
        for name in (sweep.MEMORY, sweep.RATE)
    )
    lines = [f"<b>point {row['point']:,}</b>", *map(escape, found.settings_of(row, row["plan"])), *results]
    return "<br>".join(lines)


def _bar(title: str) -> dict[str, Any]:
    """Return a colour bar next to a chart."""
    return {"title": {"text": _lines(title, 14), "side": "top"}, "thickness": 14, "outlinewidth": 0}


def _ticks(ticks: Mapping[float, str]) -> dict[str, Any]:
    return {"tickvals": list(ticks), "ticktext": list(ticks.values())} if ticks else {}


def _lines(text: str, width: int) -> str:
    """Return a title broken into several short lines."""
    return "<br>".join(map(escape, wrap(text, width)))


def shares_figure(found: Indices, names: Mapping[str, str]) -> theme.Figure:
    """Plot two bars for each unknown (its sensitivity indices), in per cent of the variance, with their 90 %
    intervals."""
    labels = [names[each.key] for each in found.unknowns]
    firsts = [(*each.first_interval, each.first) for each in found.unknowns]
    totals = [(*each.total_interval, each.total) for each in found.unknowns]
    traces: list[theme.PlotTrace] = []
    for words, shares, colour in (("by itself", firsts, theme.COMPUTE), ("with all others known", totals, TOTAL)):
        hover = [
            f"<b>{escape(name)}</b><br>{escape(each.key)}<br>{words}: {percent(share)} ({percent_between(low, high)})"
            for name, each, (low, high, share) in zip(labels, found.unknowns, shares, strict=True)
        ]
        ends = theme.error_bars(
            [(100.0 * low, 100.0 * share, 100.0 * high) for low, high, share in shares],
            color=theme.LINE, thickness=1.6, width=4,
        )  # fmt: skip
        values = [100.0 * share for *_, share in shares]
        traces.append(theme.told_bars(words, labels, values, colour, hover, error_x=ends))
    x = axis("share of the variance (%), with 90 % intervals", zeroline=True, zerolinecolor=theme.LINE)
    return theme.figure(traces, x, axis("", **rows(labels)), 120 + 44 * len(labels), barmode="group", bargap=0.3)


def search_figure(goal: sweep.SweptGoal, answer: GoalAnswer) -> theme.Figure:
    """Plot the values of the points in the order in which a search tried them, and the best value so far as a step
    line."""
    known = [(point, value) for point, value in enumerate(answer.values) if value is not None]
    every = -(-len(known) // sweep.SWEEP_DRAWN) if known else 1
    shown = [(point, value) for point, value in known if point % every == 0 or point == answer.best_point]
    hover = [f"<b>point {point:,}</b><br>{escape(goal.in_words(value))}" for point, value in shown]
    marks = theme.points(
        "a point", [point for point, _ in shown], [value for _, value in shown], theme.LINE, "circle", hover,
        {"size": 7, "opacity": 0.75},
    )  # fmt: skip
    steps = [(point, value) for point, value in enumerate(answer.so_far) if value is not None]
    traces = [marks, _best_so_far(steps)]
    if answer.best is not None and answer.best_point is not None:
        traces.append(
            theme.points(
                "the best",
                [answer.best_point],
                [answer.best],
                "#D55E00",
                "star",
                [f"<b>point {answer.best_point:,}</b>, the best<br>{escape(goal.in_words(answer.best))}"],
                {"size": 15},
            )
        )
    values = [value for _, value in known]
    is_wide = 0.0 < WIDE_FROM * min(values, default=0.0) < max(values, default=0.0)
    y = axis(goal.title, **({"type": "log"} if is_wide else {}), **theme.unit_ticks(goal.unit))
    return theme.figure(traces, axis("point, in the order of the search"), y, 400, hovermode="closest")


def _best_so_far(steps: Sequence[tuple[int, float]]) -> theme.PlotTrace:
    """Return the line of the best value so far: a point for each improvement, and the last point."""
    turns = [each for at, each in enumerate(steps) if at in (0, len(steps) - 1) or each[1] != steps[at - 1][1]]
    look = {"color": theme.COMPUTE, "width": 2.5, "shape": "hv"}
    x, y = [point for point, _ in turns], [value for _, value in turns]
    return theme.scatter("the best so far", x, y, "lines", line=look, hoverinfo="skip")


def samples_figure(goal: sweep.SweptGoal, answer: GoalAnswer) -> theme.Figure:
    """Plot a histogram of the samples, with their mean and standard deviation."""
    drawn: theme.PlotTrace = {
        "type": "histogram",
        "name": "samples",
        "x": [value for value in answer.values if value is not None],
        "marker": {"color": theme.COMPUTE},
        "hovertemplate": "%{x}: %{y:,}<extra></extra>",
    }
    assert answer.mean is not None and answer.sd is not None, "of samples with values"
    mean, sd = answer.mean, answer.sd
    whole = {"yref": "paper", "y0": 0, "y1": 1}
    middle = {"type": "line", "x0": mean, "x1": mean, "line": {"color": "#D55E00", "width": 2.5, "dash": "dash"}}
    band = {
        "type": "rect",
        "x0": mean - sd,
        "x1": mean + sd,
        "fillcolor": theme.faint(theme.LINE, 0.18),
        "line": {"width": 0},
    }
    x = axis(f"{goal.title}; dashed: mean; shaded: ± standard deviation", **theme.unit_ticks(goal.unit))
    shapes = [middle | whole, band | whole | {"layer": "below"}]
    return theme.figure([drawn], x, axis("samples"), 380, bargap=0.04, shapes=shapes)


def write_sweep_page(folder: Path) -> str:
    """Write index.html into the folder of a sweep, from the rows in this folder. Return a line on what the page leaves
    out; empty if nothing. Raises InputError if the folder holds no readable data set, or the page cannot be written."""
    found = sweep.sweep_findings(folder)
    write_whole(folder / PAGE, sweep_page(found))
    left_out = found.goal.left_out if found.goal else ""
    return left_out and f"{folder / GOAL}: {left_out}: left out of the page; running the sweep again rewrites it"


def sweep_page(found: sweep.SweepFindings) -> str:
    """Return the page as text; the same findings give the same text."""
    best, drawn, mark = found.best.to_dict("records"), found.rows_to_draw(), marks(found.values_of("plan"))
    return page_of(
        "sweep",
        found=found,
        axis_values=axis_values,
        best=best,
        lead=max(best, key=lambda row: row[sweep.RATE], default=None),
        fronts={found.size_name(size): front.to_dict("records") for size, front in found.fronts.items()},
        parallel=parallel_coordinates(found, drawn, mark),
        num_drawn=len(drawn),
        heat=heat_maps(found),
        front_charts=front_charts(found, drawn, mark),
        goal_figure=goal_figure(found.goal),
        measure_next=measure_next,
        marks=mark,
        replay=REPLAY,
        off_by=OFF_BY,
        rows_file=ROWS,
        versions=versions(),
    )


def axis_values(axis: sweep.SweptAxis) -> str:
    """Return the values of an axis as text: all values if they are few, the first ones of many texts, the range of many
    numbers."""
    count = len(axis.values)
    if axis.quantity.is_number and count > FEW_NUMBERS:
        return f"{axis.in_words(axis.values[0])} to {axis.in_words(axis.values[-1])}: {count:,} values"
    listed = ", ".join(map(axis.in_words, axis.values[:FEW_TEXTS]))
    return f"{listed} and {count - FEW_TEXTS:,} more" if count > FEW_TEXTS else listed


def goal_figure(goal: sweep.SweptGoal | None) -> theme.Figure | None:
    """Return the chart of the goal; None if the sweep has no goal, or there is nothing to plot."""
    if goal is None or goal.answer is None or goal.answer.best is None:
        return None
    answer = goal.answer
    if answer.indices is not None:
        return shares_figure(answer.indices, goal.names) if answer.indices.sd else None
    if answer.kind == "search":
        return search_figure(goal, answer)
    return samples_figure(goal, answer) if answer.kind == "samples" else None
