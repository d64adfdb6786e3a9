"""Schedules of Mugs for the faults to be put in (`tests.real.mutation`)."""

from __future__ import annotations

from simfrontier_extras.mugs.tests.schedules import schedule
from tests.real.mutation.case import AddedCase

ADDS = (
    AddedCase(name="mugs", make=lambda: schedule(sizes=(2, 1, 2), grad_accum=2)),
    AddedCase(name="mugs fp32", make=lambda: schedule(sizes=(1, 1, 2), precision="fp32", grad_accum=2), epsilon=1e-4),
)
