"""The section of a cross-check that shows an emulated fabric: bytes per link, simulated beside counted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simfrontier.report.drawing import key
from simfrontier.report.fabric_drawing import drawing
from simfrontier.report.findings.crosscheck import links_found
from simfrontier.report.phrases import quantity
from simfrontier.report.render import render
from simfrontier.trace import LinkCheck


def fabric_section(checks: Sequence[LinkCheck]) -> str:
    """The drawing and its tables, a plan at a time; empty where no plan's bytes per link are known on both sides."""
    if not checks:
        return ""
    full = _round_up(max((pair.real_bytes for each in checks for pair in each.pairs), default=0.0))
    title = "Links of the fabric under {}, simulated and counted bytes"
    return render(
        "sections/fabric.html.j2",
        found=links_found(checks),
        checks={each.plan: each for each in checks},
        drawings={each.plan: drawing(each.pairs, full, title.format(each.plan)) for each in checks},
        key=key("link-bytes", "counted bytes per step", "colour scale of bytes per link", "0", quantity(full, "bytes")),
    )


def _round_up(num_bytes: float) -> float:
    """The next 1, 2 or 5 of a power of ten, for the end of a scale."""
    if num_bytes <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(num_bytes))
    return next((step * power for step in (1.0, 2.0, 5.0) if num_bytes <= step * power), 10.0 * power)
