"""Estimates of the live page: rates of a plan wherever the controls of numbers stand, by what-ifs of one simulated
step, to be shown until what was asked for is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from simfrontier.errors import InputError
from simfrontier.live.controls import OVERRIDES, Control
from simfrontier.live.state import LiveState
from simfrontier.live.worker import Worker
from simfrontier.records import dataclass
from simfrontier.scenario import NUMBER_TABLES
from simfrontier.simulation import REPLAY_MEAN_ERROR
from simfrontier.study import WhatIfs
from simfrontier.workers import PerProcess

Places = tuple[int, ...]  # of the controls of numbers, in their order


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Nominal step times of a plan in seconds, where the library takes the same algorithms, and the tokens of a device
    in a step. Empty where what-ifs are not known, or the plan does not fit."""

    step_s: Mapping[Places, float]
    tokens_per_device: float = 0.0

    def shown(self, places: Places) -> dict[str, float] | None:
        """What the page shows of these places, if that is known."""
        step_s = self.step_s.get(places)
        if step_s is None:
            return None
        return {"step_s": step_s, "nominal": self.tokens_per_device / step_s, "error": REPLAY_MEAN_ERROR}


def numbers_of(controls: Sequence[Control]) -> tuple[Control, ...]:
    """The controls of numbers of machine or library."""
    return tuple(control for control in controls if control.key.startswith(NUMBER_TABLES))


def without_numbers(state: LiveState, controls: Sequence[Control]) -> LiveState:
    """The state in which these stand as in the scenario, whichever plan is shown."""
    keys = {control.key for control in numbers_of(controls)}
    return LiveState(places={key: place for key, place in state.places.items() if key not in keys})


def places_of(state: LiveState, controls: Sequence[Control]) -> Places:
    """Where they stand."""
    return tuple(control.place(state.places) for control in numbers_of(controls))


def estimates_of(worker: PerProcess[Worker], plan: str, state: LiveState) -> Estimates:
    """Of a plan, with the other controls as in the state. Raises SimfrontierError for a state that cannot be."""
    here = worker.here
    scenario = here.scenario(plan, state)
    [devices] = scenario.file.run.devices
    row = here.simulated(plan, state).outcome.row
    if not row["fits"] or plan in here.base.at(devices).searches:
        return Estimates(step_s={})
    try:
        asked = WhatIfs.of(scenario, plan, devices, scenario.file.run.fidelity, here.schedules)
        all_places, axes = _axes(numbers_of(here.controls), scenario.library.provenance())
        answers = asked.step_s(axes)
    except InputError:
        return Estimates(step_s={})
    each = zip(all_places, answers.step_s.tolist(), answers.is_unlike.tolist(), strict=True)
    return Estimates(
        step_s={places: step_s for places, step_s, is_unlike in each if not is_unlike},
        tokens_per_device=float(row["tokens_per_s_per_device"]) * float(row["step_time_s"]),
    )


def _axes(numbers: Sequence[Control], known: Sequence[Any]) -> tuple[list[Places], dict[str, Any]]:
    """All places, and the value of every number there: where a control leaves it to the library, the library's."""
    own = {number.key: float(number.value) for number in known}
    values = [
        [own[control.key.removeprefix(OVERRIDES)] if value is None else float(value) for value in control.values]
        for control in numbers
    ]
    columns = zip(*product(*values), strict=True)
    axes = {control.key: np.array(column) for control, column in zip(numbers, columns, strict=True)}
    return list(product(*(range(len(each)) for each in values))), axes
