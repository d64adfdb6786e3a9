"""The section of a cross-check on collectives that were measured alone: real over simulated time by message size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simfrontier.report.crosscheck_figures import KINDS, LINE, OTHER_COLOUR
from simfrontier.report.crosscheck_text import swept
from simfrontier.report.markup import Figure, paragraph, plot, section, table, text
from simfrontier.report.phrases import binary, number, percent, quantity, signed
from simfrontier.report.theme import axis, figure, powers_of_two
from simfrontier.trace import ALLOWED, LEAST_JUDGED_BYTES, Implementation, SweepMedian, SweepPoint, sweep_medians

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_MAX_TICKS = 9


def sweep_section(points: Sequence[SweepPoint]) -> str:
    """The chart, one implementation of collectives at a time, and the medians of both; empty where nothing was
    measured."""
    if not points:
        return ""
    variants = [variant for variant in ALLOWED if any(point.collectives == variant for point in points)]
    least = binary(LEAST_JUDGED_BYTES)
    return section(
        "sweep",
        "Collectives by message size",
        paragraph(swept(points), "callout"),
        paragraph(
            "Every collective measured by itself: as the explicit transfers that are simulated (lowered), or by the "
            "library’s own call (native). Times are medians over iterations; the dotted lines are what the median over "
            f"messages of {least} or more is held against."
        ),
        plot(
            "fig-sweep",
            {variant: ratios_figure(variant, points) for variant in variants},
            "Real over simulated time by size",
        ),
        _medians(points, variants),
        "<details><summary>All sizes</summary>" + _all(points) + "</details>",
    )


def ratios_figure(variant: Implementation, points: Sequence[SweepPoint]) -> Figure:
    """Real over simulated time over message size; a colour per kind, a symbol and a dash per group."""
    lines: dict[tuple[str, str], list[SweepPoint]] = {}
    groups = list(dict.fromkeys(point.group for point in points))
    for point in points:
        if point.collectives == variant and point.message_bytes > 0:
            lines.setdefault((point.kind, point.group), []).append(point)
    traces = [_line(kind, group, groups.index(group), several) for (kind, group), several in lines.items()]
    sizes = [point.message_bytes for several in lines.values() for point in several] or [float(LEAST_JUDGED_BYTES)]
    ends = min(sizes) / 1.3, max(sizes) * 1.3
    allowed = ALLOWED[variant]
    bands = [_level(ends, 1.0, "real = simulated", "solid"), _level(ends, 1 + allowed, f"± {100 * allowed:g} %", "dot")]
    bands.append(_level(ends, 1 - allowed, "", "dot"))
    ticks = powers_of_two(*ends, _MAX_TICKS)
    words = [binary(value) for value in ticks]
    x = axis("bytes of the message", type="log", tickvals=ticks, ticktext=words)
    return figure([*bands, *traces], x, axis("real / simulated time", rangemode="tozero"), 480)


def _line(kind: str, group: str, number_: int, several: Sequence[SweepPoint]) -> dict[str, Any]:
    shown = sorted(several, key=lambda point: point.message_bytes)
    colour, name = KINDS.get(kind, OTHER_COLOUR), f"{kind.replace('_', '-')}, {group}"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [point.message_bytes for point in shown],
        "y": [point.ratio for point in shown],
        "line": {"color": colour, "width": 1.5, "dash": _DASHES[number_ % len(_DASHES)]},
        "marker": {"color": colour, "symbol": _SYMBOLS[number_ % len(_SYMBOLS)], "size": 8},
        "hovertext": [
            f"{binary(point.message_bytes)}: simulated {quantity(point.sim_s, 's')}, "
            f"real {quantity(point.real_s, 's')} (× {point.ratio:.3g})"
            for point in shown
        ],
        "hovertemplate": f"%{{hovertext}}<extra>{name}</extra>",
    }


def _level(ends: tuple[float, float], at: float, name: str, dash: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "showlegend": bool(name),
        "x": list(ends),
        "y": [at, at],
        "line": {"color": LINE, "width": 1.4, "dash": dash},
        "hoverinfo": "skip",
    }


def _medians(points: Sequence[SweepPoint], variants: Sequence[Implementation]) -> str:
    medians = {(each.kind, each.group, each.collectives): each for each in sweep_medians(points)}
    rows = []
    for kind, group in dict.fromkeys((point.kind, point.group) for point in points):
        medians_of_row = [medians.get((kind, group, variant)) for variant in variants]
        sizes = max((each.num_sizes for each in medians_of_row if each), default=0)
        cells = (cell for each in medians_of_row for cell in _cells(each))
        rows.append([text(kind.replace("_", "-")), text(group), f"{sizes}", *cells])
    heads = [
        cell
        for variant in variants
        for cell in (f"{variant}: real / sim", f"apart ({100 * ALLOWED[variant]:g} % allowed)")
    ]
    return table(["collective", "group", f"sizes ≥ {binary(LEAST_JUDGED_BYTES)}, at most", *heads], rows)


def _cells(median: SweepMedian | None) -> tuple[str, str]:
    if median is None:
        return "–", "–"
    apart = text(percent(median.apart))
    return number(median.ratio), apart if median.is_near else f'<span class="no">{apart}</span>'


def _all(points: Sequence[SweepPoint]) -> str:
    rows = [
        [
            text(f"{point.kind.replace('_', '-')}, {point.group}"),
            point.collectives,
            binary(point.message_bytes),
            quantity(point.sim_s, "s"),
            quantity(point.real_s, "s"),
            signed(point.ratio - 1),
        ]
        for point in points
    ]
    return table(["collective", "way", "message", "simulated", "real", "real / sim"], rows)
