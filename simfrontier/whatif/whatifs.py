"""What-ifs: step times of one plan at one size on machines with other numbers, from a few simulated steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.errors import InputError
from simfrontier.limits import WHAT_IFS
from simfrontier.scenario import Scenario
from simfrontier.simulation import Fidelity, SimulatedStep
from simfrontier.study import BuiltSchedule, ScheduleCache, simulated
from simfrontier.whatif.answers import Answers, answered
from simfrontier.whatif.bases import simulated_bases, unseen
from simfrontier.whatif.numbers import varied_numbers, with_settings
from simfrontier.whatif.prices import VariedPrices

UNSEEN: Final = 0.001  # of a step, by which numbers may change it of which no answer knows
STEPS: Final = 12  # that are simulated for a question


@dataclass(frozen=True, kw_only=True, eq=False)
class WhatIfs:
    """A simulated step of a plan at a size, of which what-ifs are asked."""

    scenario: Scenario
    built: BuiltSchedule
    step: SimulatedStep

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        plan: str,
        devices: int,
        fidelity: Fidelity = "flow",
        schedule_cache: ScheduleCache | None = None,
    ) -> WhatIfs:
        """Simulates one step. Raises InputError where what-ifs of it are not known."""
        where = f"{scenario.where}: plans.{plan}: at {devices} devices"
        if fidelity == "chunk":
            raise InputError(f"{where}: what-ifs of fidelity chunk are not known; allowed: analytic, flow")
        built = (schedule_cache or ScheduleCache()).get(scenario, plan, devices)
        step = simulated(scenario, built, fidelity)
        why = _why_not(step)
        if why:
            raise InputError(f"{where}: what-ifs of {why} are not known; simulate each")
        return cls(scenario=scenario, built=built, step=step)

    def step_s(self, axes: Mapping[str, Floats], num_steps: int = STEPS) -> Answers:
        """Step times in seconds with these numbers: keys of `machine.overrides` and `library.overrides`, as `--set`
        takes them, to the values of the variations [num_variations each]. `num_steps`: how many steps are simulated,
        this one among them; with this one alone the error is not known, and no answer is trusted. Raises InputError
        for keys that what-ifs cannot vary, and for values that the scenario cannot have."""
        given = {key: np.asarray(values, float).reshape(-1) for key, values in axes.items()}
        if fault := WHAT_IFS.fault(max(map(len, given.values()), default=0)):
            raise InputError(fault)
        num = max(map(len, given.values()), default=0)
        given = _with_ends(given)
        prices = VariedPrices(self.step.cluster, varied_numbers(self.scenario, given))
        self._refuse_unseen(unseen(prices, self.step, tuple(given), num + 1), given)

        def simulate(variation: int) -> SimulatedStep:
            changed = with_settings(self.scenario, {key: float(values[variation - 1]) for key, values in given.items()})
            return simulated(changed, self.built, self.step.fidelity)

        return answered(simulated_bases(prices, self.step, simulate, num_steps)).first(num)

    def _refuse_unseen(self, keys: Sequence[str], given: Mapping[str, Floats]) -> None:
        """Raise InputError where keys that change the time alone of no op change the step all the same, from their
        least to their greatest values together, the others at their first. Without contention they cannot."""
        if not keys or self.step.fidelity == "analytic":
            return
        first = {key: float(values[0]) for key, values in given.items()}
        least, most = (
            simulated(with_settings(self.scenario, first | ends), self.built, self.step.fidelity).step_s
            for ends in ({key: float(given[key].min()) for key in keys}, {key: float(given[key].max()) for key in keys})
        )
        if abs(most / least - 1.0) > UNSEEN:
            text = f"{', '.join(keys)}: changes the step, but the time alone of no op, which what-ifs go by"
            raise InputError(f"{text}; allowed: simulate it")


def _with_ends(given: Mapping[str, Floats]) -> dict[str, Floats]:
    """The variations, and for each key two more that differ in it alone: its least and its greatest value."""
    if len({len(values) for values in given.values()}) != 1 or not all(map(len, given.values())):
        return dict(given)  # which is refused
    keys = list(given)
    more = {key: np.full(2 * len(keys), values[0]) for key, values in given.items()}
    for place, key in enumerate(keys):
        more[key][2 * place : 2 * place + 2] = given[key].min(), given[key].max()
    return {key: np.concatenate([values, more[key]]) for key, values in given.items()}


def _why_not(step: SimulatedStep) -> str:
    """Of which steps what-ifs are not known; "" where they are."""
    if step.changes:
        return "a machine that changes within a step"
    if step.is_shared:
        return "a job beside another"
    if step.call_factors is not None:
        return "calls that differ"
    return "" if step.cluster.library.two_level is None else "a library of two levels"
