"""Estimates and simulations of a search's plans in one process. Results are plain numbers, which can be stored as JSON
and do not depend on the process that computed them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from simfrontier.answers.search.small_steps import SmallSchedules
from simfrontier.answers.search.space import TUNED
from simfrontier.answers.search.states import LayerStates
from simfrontier.answers.search.step_estimate import Estimate, estimate
from simfrontier.answers.step import TimeSpent, band_of, exposure, sampled_step_s, time_spent
from simfrontier.answers.study import ScheduleCache, simulated, stream_of
from simfrontier.base.errors import InputError
from simfrontier.core.cost import Prices
from simfrontier.core.engine import fullest
from simfrontier.core.machine.stack import NONE as NO_STACK
from simfrontier.inputs.scenario import Case, Scenario, options_of

Table = Mapping[str, Any]
SLACK = 1.1  # estimates of memory are as much as this off; what fits is known where it is simulated
PARTS: tuple[str, ...] = ("compute", "inter_node", "intra_node", "package", "codec", "host", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPlan:
    """A simulated plan: seconds of the nominal step and of its parts on the critical rank (see
    `answers.step.exposed_time`), bytes on the fullest rank, and sampled step times (empty if no uncertainty is known).
    """

    nominal_s: float
    parts: Mapping[str, float]
    peak_bytes: int
    samples_s: tuple[float, ...]

    @property
    def step_s(self) -> float:
        """Step time in seconds: the median of the samples."""
        return self.nominal_s if self.band_s is None else self.band_s[1]

    @property
    def band_s(self) -> tuple[float, float, float] | None:
        """The 5 %, the 50 % and the 95 % quantile of the samples."""
        return band_of(np.array(self.samples_s)) if self.samples_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The estimate or simulation of a plan, or the reason why there is none: bytes of a stage's persistent states if
    these alone do not fit (`too_big`), or why the machine or library cannot run the plan (`fault`).
    """

    estimate: Estimate | None = None
    simulated: SimulatedPlan | None = None
    too_big: float = 0.0
    fault: str = ""

    @property
    def needs_bytes(self) -> float:
        """Bytes on the fullest rank, as far as they were computed."""
        return self.too_big if self.estimate is None else self.estimate.peak_bytes

    def is_too_big(self, capacity_bytes: float) -> bool:
        """Return whether the plan exceeds the memory, by its persistent states alone or by its estimate."""
        return self.too_big > 0.0 if self.estimate is None else self.estimate.peak_bytes > SLACK * capacity_bytes


AS_JSON: TypeAdapter[PlanResult] = TypeAdapter(PlanResult)


@dataclass
class PlanEvaluator:
    """Evaluates plans of a scenario at one size, with cached prices, small schedules and states; `original`: the
    scenario with its own plans and batch.
    """

    scenario: Scenario
    original: Scenario
    size: int
    layer_states: LayerStates = field(default_factory=LayerStates)
    _by_stack: dict[str, tuple[Scenario, SmallSchedules]] = field(default_factory=dict)

    def outline(self, table: Table) -> PlanResult:
        """Return the estimate of a plan."""
        case = self._case(table)
        here, small = self._run_by(case.options.family)
        least = self.layer_states.num_bytes(case)
        if least > here.machine.device.hbm_bytes:
            return PlanResult(too_big=least)
        try:
            return PlanResult(estimate=estimate(case, small))
        except InputError as error:
            return PlanResult(fault=str(error))

    def simulate(self, table: Table) -> PlanResult:
        """Return the simulated plan."""
        try:
            case = self._case(table)
            return PlanResult(simulated=_simulated(self._run_by(case.options.family)[0], case))
        except InputError as error:
            return PlanResult(fault=str(error))

    def own(self, plan: str) -> PlanResult:
        """Simulate one of the scenario's own plans."""
        try:
            here = self.original.of(plan, self.size)
            return PlanResult(simulated=_simulated(here, self.original.case(plan, self.size)))
        except InputError as error:
            return PlanResult(fault=error.below(("plans", plan)))

    def time_spent(self, table: Table) -> TimeSpent:
        """Return the breakdown of a plan's step time."""
        case = self._case(table)
        here = self._run_by(case.options.family)[0]
        return time_spent(simulated(here, ScheduleCache().of_case(here, case), here.file.run.fidelity))

    def _case(self, table: Table) -> Case:
        options = options_of(TUNED, table)
        return self._run_by(options.family)[0].case_with(TUNED, options, self.size)

    def _run_by(self, family: str) -> tuple[Scenario, SmallSchedules]:
        """Return the scenario with the software stack of a plan family, and the small schedules for it."""
        stack = self.scenario.stack_of(family)
        name = NO_STACK if stack is None else stack.name
        if name not in self._by_stack:
            here = self.scenario.at(self.size).of_family(family)
            prices = Prices(here.machine, here.library, self.size, here.file.perturbation, here.file.run.placement)
            self._by_stack[name] = here, SmallSchedules(prices)
        return self._by_stack[name]


def _simulated(here: Scenario, case: Case) -> SimulatedPlan:
    """Build, check and simulate a case. Raises InputError."""
    built = ScheduleCache().of_case(here, case)
    step = simulated(here, built, here.file.run.fidelity)
    wanted, spent = here.file.uncertainty, exposure(step)
    samples = sampled_step_s(step, stream_of(case.options), wanted.samples if step.may_be_sampled else 0, wanted.seed)
    return SimulatedPlan(
        nominal_s=step.step_s,
        parts={name: getattr(spent, name) for name in PARTS},
        peak_bytes=fullest(step, built.peaks).peak_bytes,
        samples_s=() if samples is None else tuple(samples.tolist()),
    )
