"""What-ifs: step times of one plan at one size with other machine or library numbers, repriced from one
simulated step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.study.schedule_cache import BuiltSchedule, ScheduleCache
from simfrontier.answers.study.simulated_case import simulated
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError
from simfrontier.base.limits import Limit
from simfrontier.core.cost import VariedPrices
from simfrontier.core.engine import Fidelity, SimulatedStep, varied_step_s
from simfrontier.core.program import Schedule
from simfrontier.inputs.scenario import Scenario, varied_numbers, with_numbers

WHAT_IFS: Final = Limit(
    most=20_000, what="what-ifs in one question"
)  # each keeps the times of some hundred ops, on every class of ranks: 20 kB, with 128 classes 400 kB

UNSEEN: Final = 0.001  # of a step, by which numbers may change it of which no answer knows


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Step times of variations.

    step_s     [num_variations] seconds
    is_unlike  [num_variations] whether the library selects another algorithm than in the simulated step, so that other
               links are loaded; such a step time has to be simulated
    """

    step_s: Floats
    is_unlike: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class WhatIfs:
    """A simulated step of a plan at a size, which can be repriced with other numbers."""

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
        """Simulate one step and return its what-ifs. Raises InputError if the step cannot be repriced."""
        asked = f"what-ifs of {plan} at {devices} devices"
        if fidelity == "chunk":
            raise InputError(f"got chunk, of which {asked} are not known; allowed: analytic, flow", where="fidelity")
        built = (schedule_cache or ScheduleCache()).get(scenario, plan, devices)
        scenario = scenario.of(plan, devices)
        step = simulated(scenario, built, fidelity)
        for key, why in _why_not(step):
            text = f"{why}, of which {asked} are not known; allowed: a simulation of each variation"
            raise InputError(text, where=scenario.where, key=key)
        return cls(scenario=scenario, built=built, step=step)

    def step_s(self, axes: Mapping[str, Floats]) -> Answers:
        """Return step times in seconds with these numbers: keys of `machine.overrides` and `library.overrides`, as
        `--set` takes them, to the values of the variations [num_variations each]. Raises InputError for keys that
        what-ifs cannot vary, which it names, and for values that the scenario cannot have."""
        given = {key: np.asarray(values, float).reshape(-1) for key, values in axes.items()}
        if fault := WHAT_IFS.fault(max(map(len, given.values()), default=0)):
            raise InputError(fault)
        num = max(map(len, given.values()), default=0)
        given = _with_ends(given)
        numbers = varied_numbers(self.scenario, given)
        prices = VariedPrices(self.step.pricing, numbers.machine, numbers.library, numbers.num_variations)
        self._refuse_unseen(_unseen(prices, self.built.schedule, tuple(given), num + 1), given)
        step_s = varied_step_s(self.step, prices, num)
        return Answers(step_s=step_s, is_unlike=prices.has_other_algorithm[1 : num + 1])

    def _refuse_unseen(self, keys: Sequence[str], given: Mapping[str, Floats]) -> None:
        """Raise InputError if keys that change no op's duration without contention still change the step time. At a
        fidelity without contention they cannot.
        """
        if not keys or self.step.fidelity == "analytic" or not self._moves(keys, given):
            return
        if felt := [key for key in keys if self._moves([key], given)]:
            text = f"{', '.join(felt)}: changes the step, but the time alone of no op, which what-ifs go by"
            raise InputError(f"{text}; allowed: other keys, or a simulation of each")

    def _moves(self, keys: Sequence[str], given: Mapping[str, Floats]) -> bool:
        """Return whether the step time changes from the least to the greatest values of `keys`, with the other keys at
        their first values."""
        first = {key: float(values[0]) for key, values in given.items()}
        least, most = (
            simulated(with_numbers(self.scenario, first | ends), self.built, self.step.fidelity).step_s
            for ends in ({key: float(given[key].min()) for key in keys}, {key: float(given[key].max()) for key in keys})
        )
        return abs(most / least - 1.0) > UNSEEN


def _with_ends(given: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the variations, and for each key two more that differ in it alone: its least and its greatest value."""
    if len({len(values) for values in given.values()}) != 1 or not all(map(len, given.values())):
        return dict(given)  # which is refused
    keys = list(given)
    more = {key: np.full(2 * len(keys), values[0]) for key, values in given.items()}
    for place, key in enumerate(keys):
        more[key][2 * place : 2 * place + 2] = given[key].min(), given[key].max()
    return {key: np.concatenate([values, more[key]]) for key, values in given.items()}


def _unseen(prices: VariedPrices, schedule: Schedule, keys: Sequence[str], first: int) -> tuple[str, ...]:
    """Return the keys that change no op's duration without contention, for example the bandwidth that ops take from
    each other: their variations have equal prices. From index `first` on there are two variations for each key, which
    differ only in that key.
    """
    times = np.concatenate([prices.alone_s(op)[:, first : first + 2 * len(keys)] for op in schedule.ops])
    is_same = (times[:, 0::2] == times[:, 1::2]).all(axis=0)
    return tuple(key for key, same in zip(keys, is_same.tolist(), strict=True) if same)


def _why_not(step: SimulatedStep) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the reasons why a step cannot be repriced, if any: keys of the scenario, and their effect."""
    if step.changes:
        yield ("perturbation",), "the machine changes within a step"
    if step.is_shared:
        yield ("neighbour",), "another job shares links"
    if step.call_factors is not None:
        yield ("perturbation", "spread"), "calls differ"
    if step.pricing.library.two_level is not None:
        yield ("library", "name"), f"{step.pricing.library.name} is a library of two levels"
