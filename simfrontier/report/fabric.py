"""The section of a cross-check that shows an emulated fabric: bytes per link, simulated beside counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simfrontier.report.crosscheck_text import link_bytes
from simfrontier.report.fabric_drawing import drawing, key
from simfrontier.report.markup import panels, paragraph, section, table, text
from simfrontier.report.phrases import percent, quantity, signed
from simfrontier.trace import JUDGED_BYTES, WITHIN, LinkCheck, LinkPair

MAX_WORST = 8  # links that are listed
_CLASSES = ("link class", "link directions", "judged", "simulated", "counted", "counted / sim", "worst judged")
_WORST = ("link", "simulated", "counted", "counted / sim")


def fabric_section(checks: Sequence[LinkCheck]) -> str:
    """The drawing and its tables, a plan at a time; empty where no plan's bytes per link are known on both sides."""
    if not checks:
        return ""
    full = _round_up(max((pair.real_bytes for each in checks for pair in each.pairs), default=0.0))
    return section(
        "links",
        "Bytes on every link",
        paragraph(link_bytes(checks), "callout"),
        paragraph(
            "Links of the emulated fabric in one step: simulated, and counted by the kernel at their interfaces. A "
            "line is one direction, right of the middle as it goes; wider and darker is more bytes, on one scale for "
            "all plans. The number is how much more or less was counted than simulated, of the worse direction; links "
            f"of {quantity(JUDGED_BYTES, 'bytes')} or less have none and are not judged. Point at a line for its bytes."
        ),
        key(full),
        panels({each.plan: _plan(each, full) for each in checks}),
    )


def _plan(check: LinkCheck, full: float) -> str:
    title = f"Links of the fabric under {check.plan}, simulated and counted bytes"
    return (
        f'<div class="drawing">{drawing(check.pairs, full, title)}</div>'
        + table(_CLASSES, (_class_row(name, pairs) for name, pairs in check.by_class.items()))
        + "<h3>The links that are furthest apart</h3>"
        + table(_WORST, (_link_row(pair) for pair in check.judged[:MAX_WORST]))
        + paragraph(f"Simulated: {check.sim_title}. Counted: {check.real_title}.", "note")
    )


def _class_row(name: str, pairs: Sequence[LinkPair]) -> list[str]:
    sim, real = sum(pair.sim_bytes for pair in pairs), sum(pair.real_bytes for pair in pairs)
    judged = [pair for pair in pairs if pair.is_judged]
    worst = max(judged, key=lambda pair: pair.apart, default=None)
    return [
        text(name),
        f"{len(pairs):,}",
        f"{len(judged):,}",
        quantity(sim, "bytes"),
        quantity(real, "bytes"),
        signed(real / sim - 1 if sim else math.nan),
        "–" if worst is None else f"{_difference_cell(worst)} <small>{text(worst.name)}</small>",
    ]


def _link_row(pair: LinkPair) -> list[str]:
    bytes_ = quantity(pair.sim_bytes, "bytes"), quantity(pair.real_bytes, "bytes")
    return [
        f"{text(pair.name)}<small>{text(f'{pair.link_class}, {pair.src} → {pair.dst}')}</small>",
        *bytes_,
        _difference_cell(pair),
    ]


def _difference_cell(pair: LinkPair) -> str:
    """Said in the warning colour where it is more than allowed."""
    message = text(signed(pair.ratio - 1) if pair.sim_bytes else "not simulated")
    more = f"more than {percent(WITHIN)}"
    return f'<span class="no" title="{text(more)}">{message}</span>' if pair.is_missed else message


def _round_up(num_bytes: float) -> float:
    """The next 1, 2 or 5 of a power of ten, for the end of a scale."""
    if num_bytes <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(num_bytes))
    return next((step * power for step in (1.0, 2.0, 5.0) if num_bytes <= step * power), 10.0 * power)
