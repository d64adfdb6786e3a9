"""Sound schedules of Mugs, of which one fact at a time is changed (`tests.mutated`)."""

from __future__ import annotations

from simfrontier_extras.mugs.tests.schedules import schedule
from tests.mutated.case import AddedCase, Case

ADDS = (
    AddedCase(name="mugs", case=Case(lambda: schedule())),
    AddedCase(name="mugs fused", case=Case(lambda: schedule(attention="fused", overlap_statistics=True))),
)
