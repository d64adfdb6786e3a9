"""Steps without contention where all ranks keep step: times follow from prices, without folding what is alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.simulation import passed, timeline_of
from simfrontier.study import BuiltSchedule


@dataclass(frozen=True, slots=True)
class EvenStep:
    """What a step takes at fidelity `analytic`, in seconds, and the bytes of a rank at its fullest moment."""

    step_s: float
    peak_bytes: int


def even_step(built: BuiltSchedule, prices: Prices) -> EvenStep | None:
    """The step of a schedule of one role; None where ranks may differ, and where it cannot be priced: a simulation says
    what it takes then, or why."""
    program, schedule = built.program, built.schedule
    if program is None:
        return None
    took = {}
    try:
        for op in {op.number: op for op in program.ops}.values():
            took[op.number] = prices.seconds(op, schedule)
            if not prices.is_even(op, schedule):
                return None
    except InputError:
        return None
    start, end = passed(program.before, [took[op.number] for op in program.ops])
    step_s = max(end, default=0.0)
    return EvenStep(step_s, timeline_of(schedule, program, np.array(start), np.array(end), step_s).peak_bytes)
