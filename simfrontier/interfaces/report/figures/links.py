"""Utilisation of a job's links over a step: a row per class, and the numbers that recolour the drawing of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from simfrontier.answers.step import LinkUse, by_class, shares_of_node
from simfrontier.core.machine import Machine
from simfrontier.interfaces.report.drawing import STOPS
from simfrontier.interfaces.report.phrases import percent
from simfrontier.interfaces.report.theme import SECONDS, Figure, axis, figure, packed, scatter

WHOLE: Final = 10_000  # what a share of 1 is in `drawn_use`
_ENDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_COLOUR = "#B4532A"
_ROW, _TITLE = 38, 24  # pixels of a row, and of its title above it


def drawn_use(use: LinkUse, machine: Machine, num_nodes: int) -> dict[str, list[int]]:
    """The share of its capacity that each link of an average node uses in each part of a step, 1 as WHOLE."""
    shares = shares_of_node(use, machine, num_nodes)
    return {name: np.rint(WHOLE * share).astype(int).tolist() for name, share in shares.items()}


def use_over_time(use: LinkUse, machine: Machine, node: Mapping[str, list[int]], full: float) -> Figure:
    """The share of its capacity that each class of links uses, a row with its own scale each. `node`: by link
    (`drawn_use`), for the drawing, whose scale of colours ends at `full` where it shows a part of the step."""
    step_s = len(use.times_s) * use.part_s
    classes = by_class(use, machine)
    height = max(1, len(classes.num_bytes)) * (_ROW + _TITLE)
    times = packed(np.append(use.times_s, step_s))
    traces, rows, titles = [], {}, []
    for number, name in enumerate(classes.num_bytes):
        share = classes.share(name)
        place = "" if number == 0 else str(number + 1)
        look = {"line": {"shape": "hv", "width": 1, "color": _COLOUR}, "fill": "tozeroy", "fillcolor": _COLOUR}
        hover = f"{name}: %{{y:.1%}}<extra></extra>"
        area = scatter(name, (), (), "lines", yaxis=f"y{place}", showlegend=False, hovertemplate=hover, **look)
        traces.append(area | {"x": times, "y": packed(np.append(share, 0.0))})
        top = 1.0 - (number * (_ROW + _TITLE) + _TITLE) / height
        end = scale_end(float(share.max()))
        ends = {"range": [0, end], "tickvals": [0, end / 2, end], "ticktext": ["0", "", f"{100 * end:g} %"]}
        rows[f"yaxis{place}"] = axis("", domain=[max(top - _ROW / height, 0.0), top], fixedrange=True, **ends)
        mean, most = percent(float(share.mean())), percent(float(share.max()))
        at = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
        words = f"<b>{name}</b>: {mean} on average, {most} at most"
        titles.append({"text": words, "showarrow": False, "align": "left", **at})
    x = axis("time since the start of the step", range=[0, step_s], hoverformat=".4~s", anchor="free", **SECONDS)
    meta = {"links": node, "whole": WHOLE, "step": step_s, "full": full, "stops": STOPS}
    more = {"annotations": titles, "meta": meta, "hovermode": "x unified", "hoversubplots": "axis", "dragmode": "zoom"}
    return figure(traces, x | {"position": 0.0}, rows.pop("yaxis"), height + 70, **rows, **more)


def scale_end(highest: float) -> float:
    """Return the end of a scale of shares that holds this one."""
    return next((end for end in _ENDS if highest <= end), max(highest, 1.0))
