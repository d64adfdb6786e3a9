"""The chart of collectives that were measured alone: real over simulated time by message size."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.interfaces.report.phrases import binary, quantity
from simfrontier.interfaces.report.theme import (
    COLLECTIVES,
    OTHER_COLLECTIVES,
    Figure,
    axis,
    figure,
    line,
    points as marks,
    powers_of_two,
)
from simfrontier_extras.emulation.crosscheck.sweep import ALLOWED, LEAST_JUDGED_BYTES, Implementation, SweepPoint

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_MAX_TICKS = 9


def ratios_figure(variant: Implementation, points: Sequence[SweepPoint]) -> Figure:
    """Real over simulated time over message size; a colour per kind, a symbol and a dash per group."""
    lines: dict[tuple[str, str], list[SweepPoint]] = {}
    groups = list(dict.fromkeys(point.group for point in points))
    for point in sorted(points, key=lambda point: point.message_bytes):
        if point.collectives == variant and point.message_bytes > 0:
            lines.setdefault((point.kind, point.group), []).append(point)
    sizes = [point.message_bytes for several in lines.values() for point in several] or [float(LEAST_JUDGED_BYTES)]
    ends, allowed = (min(sizes) / 1.3, max(sizes) * 1.3), ALLOWED[variant]
    traces = [
        line("real = simulated", ends, [1.0, 1.0]),
        line(f"± {100 * allowed:g} %", ends, [1 + allowed] * 2, "dot"),
        line("", ends, [1 - allowed] * 2, "dot"),
    ]
    for (kind, group), several in lines.items():
        colour, place = COLLECTIVES.get(kind, OTHER_COLLECTIVES), groups.index(group)
        words = [
            f"{binary(point.message_bytes)}: simulated {quantity(point.sim_s, 's')}, "
            f"real {quantity(point.real_s, 's')} (× {point.ratio:.3g})"
            for point in several
        ]
        traces.append(
            marks(
                f"{kind.replace('_', '-')}, {group}",
                [point.message_bytes for point in several],
                [point.ratio for point in several],
                colour,
                _SYMBOLS[place % len(_SYMBOLS)],
                words,
                mode="lines+markers",
                line={"color": colour, "width": 1.5, "dash": _DASHES[place % len(_DASHES)]},
            )
        )
    ticks = powers_of_two(*ends, _MAX_TICKS)
    x = axis("bytes of the message", type="log", tickvals=ticks, ticktext=[binary(value) for value in ticks])
    return figure(traces, x, axis("real / simulated time", rangemode="tozero"), 480)
