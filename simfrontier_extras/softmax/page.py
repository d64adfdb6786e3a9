"""The page of measured softmax kernels: the row lengths for which two passes over memory are faster than three on this
CPU, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape as text
from math import log10
from pathlib import Path
from typing import Any, Final

from simfrontier.answers.study import versions
from simfrontier.interfaces.report.phrases import binary, number
from simfrontier.interfaces.report.render import page_of
from simfrontier.interfaces.report.theme import LINE, Figure, PlanMark, axis, decades, figure, marks, points
from simfrontier_extras.softmax.rates import CACHED, FLOAT_BYTES, IN_MEMORY, STARTS, TWO_PASS, Rates, bytes_per_element

MARKS: Final[Mapping[str, PlanMark]] = marks(IN_MEMORY)
NAMES: Final = {"cached": "row in the cache", "uncached": "row in memory"}
_DASHES: Final = {"cached": "dot", "uncached": "solid"}
_HEIGHT: Final = 440


def _chart(rates: Rates, relative: bool) -> Figure:
    """Plot nanoseconds per element, or the time relative to the two-pass algorithm, against row length."""
    traces = [
        trace
        for name in IN_MEMORY
        for starts in STARTS
        if not (relative and name == TWO_PASS)
        for trace in _lines(rates, name, starts, relative)
    ]
    heights = [height for trace in traces for height in trace["y"]]
    sizes = [elements for elements, _ in rates.kinds]
    ends = (min(sizes) / 1.5, max(sizes) * 1.5)
    top = 1.12 * max(heights)
    low = min(0.95 * min(heights), 0.95) if relative else 0.0
    shapes = [_cache_end(rates.cache_bytes), *([_two_pass_level()] if relative else [])]
    ticks = decades(*ends)
    return figure(
        traces,
        axis(
            "elements of a row",
            type="log",
            range=[log10(end) for end in ends],
            tickvals=ticks,
            ticktext=[f"{tick:,.0f}" for tick in ticks],
        ),
        axis("time / time of two-pass" if relative else "ns per element", range=[low, top]),
        _HEIGHT,
        shapes=shapes,
    )


def _lines(result: Rates, name: str, starts: str, relative: bool) -> list[dict[str, Any]]:
    """Return a line through the lengths that were measured with rows starting there; an empty list where there are
    none."""
    sizes = [elements for elements, each in result.kinds if each == starts]
    if not sizes:
        return []
    rates = [result.rates[elements, starts, name] for elements in sizes]
    ratios = [result.ratio(elements, starts, name) for elements in sizes]
    each = [1e9 * rate.median_s / rate.elements for rate in rates]
    hover = [
        f"{rate.elements:,} elements, {NAMES[starts]}: {number(ns)} ns each, {number(ratio)} × two-pass"
        for rate, ns, ratio in zip(rates, each, ratios, strict=True)
    ]
    mark = MARKS[name]
    return [
        points(
            f"{text(name)}, {NAMES[starts]}",
            sizes,
            ratios if relative else each,
            mark.colour,
            mark.symbol + ("-open" if starts == CACHED else ""),
            hover,
            mode="lines+markers",
            line={"color": mark.colour, "width": 1.8, "dash": _DASHES[starts]},
            hovertemplate="%{hovertext}<extra></extra>",
        )
    ]


def _cache_end(cache_bytes: int) -> dict[str, Any]:
    """Return a vertical line at the row length that fills the last-level cache."""
    x = cache_bytes / FLOAT_BYTES
    words = f"a row fills the last cache ({binary(cache_bytes)})"
    label = {
        "text": words,
        "textangle": 0,
        "textposition": "end",
        "xanchor": "right",
        "font": {"color": LINE, "size": 12},
    }
    place = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    return {"type": "line", **place, "line": {"color": LINE, "width": 1.4, "dash": "dash"}, "label": label}


def _two_pass_level() -> dict[str, Any]:
    place = {"xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 1, "y1": 1}
    return {"type": "line", **place, "line": {"color": LINE, "width": 1.4}}


TEMPLATES = Path(__file__).parent / "templates"


def softmax_rates_page(rates: Rates) -> str:
    """Return the page as text; the same table gives the same text."""
    return page_of(
        "softmax",
        TEMPLATES,
        found=rates,
        charts={"times as long as two-pass": _chart(rates, True), "time per element": _chart(rates, False)},
        marks=MARKS,
        starts=NAMES,
        line_bytes={name: bytes_per_element(name) for name in IN_MEMORY},
        versions=versions(),
    )
