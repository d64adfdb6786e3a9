"""Steps whose times must stay the same (`tests.same`)."""

from __future__ import annotations

from tests.same.job import Step

ADDS = tuple(
    Step(name=f"Mugs {plan} on {devices}", scenario="mugs-vit-l", plan=plan, devices=devices)
    for plan in ("blocking", "overlapped")
    for devices in (8, 40)
)
