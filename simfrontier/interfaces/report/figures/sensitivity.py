"""A row for every variation of an unknown setting, with a dot for each plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from textwrap import wrap
from typing import Any

from simfrontier.interfaces.report.theme import Figure, PlanMark, PlotTrace, axis, figure, scatter

_WRAP = 26  # characters of a line beside the chart
_LINE = 16  # pixels that it takes
_DEFAULT = "documented defaults"
_PUBLISHED = "published"


def dots(found: Mapping[str, Any], at_size: Mapping[str, Any], marks: Mapping[str, PlanMark], unit: str) -> Figure:
    """A row per variation, a dot per plan, a dotted line at the plan's default, a star at its published value."""
    published, first, is_one = at_size["published"], found["plans"][0], len(found["plans"]) == 1
    default = at_size["default"]["compared"]
    varied = sorted(at_size["varied"], key=lambda one: -_moved(found["compared"], default, one["compared"]))
    rows = {_DEFAULT: default, **{_wrapped(one): one["compared"] for one in varied}}
    names = [*([_PUBLISHED] if published else []), *rows]
    traces: list[PlotTrace] = []
    shapes = []
    for plan in found["compared"]:
        mark, base = marks[plan], default[plan]
        title = plan if is_one else f"{plan} : {first}"
        known = {name: compared[plan] for name, compared in rows.items() if compared[plan] is not None}
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
    ends = [len(names) - 0.5, -0.5]
    y = axis("", type="category", categoryorder="array", categoryarray=names, range=ends, showgrid=True)
    y["tickfont"] = {"size": 12}
    height = 16 + _LINE * max(name.count("<br>") + 1 for name in names)  # of every row, as the longest name needs it
    what = unit if is_one else f"{unit} relative to {first}"
    return figure(traces, axis(what), y, 150 + height * len(names), shapes=shapes)


def _moved(plans: tuple[str, ...], default: Mapping[str, float | None], one: Mapping[str, float | None]) -> float:
    pairs = [(one[plan], default[plan]) for plan in plans]
    return max((abs(math.log(now / base)) for now, base in pairs if now and base), default=math.inf)


def _wrapped(one: Mapping[str, Any]) -> str:
    """A setting and its value broken into lines, for the side of a chart."""
    return "<br>".join(map(escape, wrap(f"{one['setting']} = {one['value']}", _WRAP)))
