"""What-ifs: step times of one plan at one size on machines with other numbers, from one simulated step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.errors import InputError
from simfrontier.scenario import Scenario
from simfrontier.simulation import Fidelity, SimulatedStep, replayed_s
from simfrontier.study import ScheduleCache, simulated
from simfrontier.whatif.numbers import varied_numbers
from simfrontier.whatif.prices import VariedPrices


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Step times in seconds [num_variations]."""

    step_s: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class WhatIfs:
    """A simulated step of a plan at a size, of which what-ifs are asked."""

    scenario: Scenario
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
        cache = schedule_cache or ScheduleCache()
        step = simulated(scenario, cache.get(scenario, plan, devices), fidelity)
        if not step.may_be_sampled or step.call_factors is not None or step.cluster.library.two_level is not None:
            raise InputError(f"{scenario.where}: what-ifs are not known of it; simulate each")
        return cls(scenario=scenario, step=step)

    def step_s(self, axes: Mapping[str, Floats]) -> Answers:
        """Step times with these numbers: dotted keys of `machine.overrides` or `library.overrides`, to the values of
        the variations [num_variations each]. Raises InputError as `varied_numbers`."""
        numbers = varied_numbers(self.scenario, {key: np.asarray(values, float) for key, values in axes.items()})
        prices = VariedPrices(self.step.cluster, numbers)

        def change_of(op: object) -> Floats:
            alone = prices.alone_s(op)  # type: ignore[arg-type]
            return alone[:, 1:] - alone[:, :1]

        return Answers(step_s=replayed_s(self.step, change_of, numbers.variations.num - 1))
