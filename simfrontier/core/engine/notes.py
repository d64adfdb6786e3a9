"""Notes of a simulated step: what was simplified in it, and how far off that may be."""

from __future__ import annotations

from typing import Final

from simfrontier.core.engine.many_speeds import speed_error
from simfrontier.core.engine.step import SimulatedStep

CALLS_DIFFER: Final = "single calls take their usual time times a factor, and what runs beside them is as usual"


def step_note(step: SimulatedStep) -> str:
    """What was simplified in a step, "" where nothing was."""
    error = speed_error(step)
    notes = ["" if error is None else error.note, "" if step.call_factors is None else CALLS_DIFFER]
    return "; ".join(filter(None, notes))
