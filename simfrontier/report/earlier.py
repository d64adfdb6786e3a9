"""What changed since an earlier prediction of the same scenario: figures side by side, and the changes in between."""

from __future__ import annotations

import math

from simfrontier.report.markup import items, paragraph, section, table, text
from simfrontier.report.phrases import NOTHING, number, signed
from simfrontier.report.published import given, lacking, rates_at
from simfrontier.report.view import StudyView


def earlier(view: StudyView) -> str:
    """The section, or nothing where the scenario records no earlier prediction, nothing of it was run again, or results
    are of other settings than the scenario's: differences would have other causes than the changes."""
    figures = view.scenario.file.earlier
    if figures is None or given(view) or not view.at(figures.devices):
        return ""
    now, before = rates_at(view, None, figures.devices), figures.tflops_per_device
    if now.keys().isdisjoint(before):
        return ""
    first = next(iter(before))
    rows = []
    for plan, rate in before.items():
        result, base = now.get(plan, math.nan), now.get(first, math.nan)
        missing = lacking(now, plan)
        rows.append(
            [
                text(plan),
                number(rate),
                missing or number(result),
                NOTHING if missing else signed(result / rate - 1),
                f"{rate / before[first]:.3f}",
                f"{result / base:.3f}" if math.isfinite(result / base) else NOTHING,
            ]
        )
    head = ["plan", "TFLOPS then", "TFLOPS now", "change", f"of {first}, then", f"of {first}, now"]
    return section(
        "earlier",
        "What changed",
        paragraph(f"Then: {figures.title}. TFLOPS per {view.device} on {figures.devices:,} {view.devices}."),
        table(head, rows),
        items(text(change) for change in figures.changes),
    )
