"""What changed since an earlier prediction of the same scenario: figures side by side, and what was done in between."""

from __future__ import annotations

import math

from simfrontier.report.markup import items, paragraph, section, table, text
from simfrontier.report.published import rates_at
from simfrontier.report.view import View
from simfrontier.report.words import TOO_BIG, distance, number


def earlier(view: View) -> str:
    """The section, or nothing where the scenario records no earlier prediction or its size was not run."""
    figures = view.scenario.file.earlier
    if figures is None or not any(o.devices == figures.devices for o in view.study.outcomes):
        return ""
    now = rates_at(view, None, figures.devices)
    first = next(iter(figures.tflops_per_device))
    before = figures.tflops_per_device
    rows = []
    for plan, rate in before.items():
        found, base = now.get(plan, math.nan), now.get(first, math.nan)
        missing = math.isnan(found)
        rows.append(
            [
                text(plan),
                number(rate),
                TOO_BIG if missing else number(found),
                "–" if missing else distance(found, rate),
                f"{rate / before[first]:.3f}",
                "–" if missing or math.isnan(base) else f"{found / base:.3f}",
            ]
        )
    head = ["plan", "TFLOPS then", "TFLOPS now", "now is", f"of {first}, then", f"of {first}, now"]
    return section(
        "earlier",
        "What changed",
        paragraph(f"Then: {figures.title}. TFLOPS per {view.device} on {figures.devices:,} {view.devices}."),
        items((text(change) for change in figures.changes), "findings"),
        table(head, rows),
    )
