"""What-ifs: step times of one plan at one size on machines with other numbers, from a few simulated steps."""

from __future__ import annotations

from collections.abc import Mapping
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
from simfrontier.whatif.bases import simulated_bases
from simfrontier.whatif.numbers import varied_numbers, with_settings
from simfrontier.whatif.prices import VariedPrices

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
        prices = VariedPrices(self.step.cluster, varied_numbers(self.scenario, given))

        def simulate(variation: int) -> SimulatedStep:
            changed = with_settings(self.scenario, {key: float(values[variation - 1]) for key, values in given.items()})
            return simulated(changed, self.built, self.step.fidelity)

        return answered(simulated_bases(prices, self.step, simulate, num_steps))


def _why_not(step: SimulatedStep) -> str:
    """Of which steps what-ifs are not known; "" where they are."""
    if step.changes:
        return "a machine that changes within a step"
    if step.is_shared:
        return "a job beside another"
    if step.call_factors is not None:
        return "calls that differ"
    return "" if step.cluster.library.two_level is None else "a library of two levels"
