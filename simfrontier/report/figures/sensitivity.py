"""A row for every variation of an unknown setting, with a dot for each plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap

from simfrontier.report.findings.sensitivity import Variations, Varied, VariedAtSize
from simfrontier.report.theme import Figure, PlanMark, PlotTrace, axis, figure, scatter

_WRAP = 26  # characters of a line beside the chart
_LINE = 16  # pixels that it takes
_DEFAULT = "documented defaults"
_PUBLISHED = "published"


def dots(found: Variations, at_size: VariedAtSize, marks: Mapping[str, PlanMark], unit: str) -> Figure:
    """A row per variation, a dot per plan, a dotted line at the plan's default, a star at its published value."""
    published, is_one = at_size.published, len(found.plans) == 1
    varied = sorted(at_size.varied, key=lambda one: -_moved(found, at_size.default, one))
    rows = {_DEFAULT: at_size.default, **{_wrapped(one): one for one in varied}}
    names = [*([_PUBLISHED] if published else []), *rows]
    traces: list[PlotTrace] = []
    shapes = []
    for plan in found.compared:
        mark, base = marks[plan], at_size.default.compared[plan]
        title = plan if is_one else f"{plan} : {found.plans[0]}"
        known = {name: one.compared[plan] for name, one in rows.items() if one.compared[plan] is not None}
        look = {"color": mark.colour, "symbol": mark.symbol, "size": 11}
        hover = f"%{{y}}<br>{escape(title)} = %{{x:.4~g}}<extra></extra>"
        own = {"legendgroup": plan, "hovertemplate": hover}
        traces.append(scatter(title, list(known.values()), list(known), marker=look, **own))
        if base is not None:
            line = {"color": mark.colour, "width": 1.5, "dash": "dot"}
            shapes.append(
                {"type": "line", "xref": "x", "yref": "paper", "x0": base, "x1": base, "y0": 0, "y1": 1, "line": line}
            )
        if plan in published:
            look = {"color": mark.colour, "symbol": "star", "size": 15}
            own["hovertemplate"] = f"published {escape(title)} = %{{x:.4~g}}<extra></extra>"
            traces.append(scatter(f"{title}, published", [published[plan]], [_PUBLISHED], marker=look, **own))
    y = axis(
        "", type="category", categoryorder="array", categoryarray=names, range=[len(names) - 0.5, -0.5], showgrid=True
    )
    y["tickfont"] = {"size": 12}
    what = unit if is_one else f"{unit} relative to {found.plans[0]}"
    return figure(traces, axis(what), y, 150 + _row_height(names) * len(names), shapes=shapes)


def _row_height(names: Sequence[str]) -> int:
    """Pixels that the longest of the names needs: all rows are as high."""
    return 16 + _LINE * max(name.count("<br>") + 1 for name in names)


def _moved(found: Variations, default: Varied, one: Varied) -> float:
    pairs = [(one.compared[plan], default.compared[plan]) for plan in found.compared]
    return max((abs(math.log(now / base)) for now, base in pairs if now and base), default=math.inf)


def _wrapped(one: Varied) -> str:
    """A setting and its value broken into lines, for the side of a chart."""
    return "<br>".join(map(escape, wrap(f"{one.setting} = {one.value}", _WRAP)))
