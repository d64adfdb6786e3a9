"""What one process does of a search: it estimates plans, and simulates them. Results are plain numbers, which can be
written down and read again, and do not depend on which process made them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from simfrontier.analysis import Exposure, TimeSpent, band_of, exposure, sampled_step_s, time_spent
from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.io import frozen
from simfrontier.scenario import Case, Scenario, options_of
from simfrontier.schedule import peak_bytes
from simfrontier.simulation import SimulatedStep, memory_of_role
from simfrontier.stack import NONE as NO_STACK
from simfrontier.study import BuiltSchedule, ScheduleCache, schedule_of_case, simulated, stream_of
from simfrontier.tuning.layer_states import LayerStates
from simfrontier.tuning.small_steps import SmallSchedules
from simfrontier.tuning.step_estimate import Estimate, estimate

Table = Mapping[str, Any]
PARTS: tuple[str, ...] = ("compute", "inter_node", "intra_node", "package", "codec", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPlan:
    """A simulated plan: seconds of the nominal step and of its parts on the critical rank (as `analysis.exposure`),
    bytes on the fullest rank, and sampled step times (empty where nothing is known to be uncertain)."""

    nominal_s: float
    parts: Mapping[str, float]
    peak_bytes: int
    samples_s: tuple[float, ...]

    @property
    def step_s(self) -> float:
        """Seconds of the step: the median of its samples."""
        return self.nominal_s if self.band_s is None else self.band_s[1]

    @property
    def band_s(self) -> tuple[float, float, float] | None:
        """The 5 %, the 50 % and the 95 % quantile of the samples."""
        import numpy as np

        return band_of(np.array(self.samples_s)) if self.samples_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFault:
    """Why the machine or the library cannot run a plan."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutline:
    """What is estimated of a plan, or why it was not: it does not fit by its states alone, or cannot be made."""

    estimate: Estimate | None
    too_big: float = 0.0  # bytes of the states of a stage, where these alone do not fit
    fault: str = ""

    @property
    def needs_bytes(self) -> float:
        """Bytes on the fullest rank, at least as far as they are known."""
        return self.too_big if self.estimate is None else self.estimate.peak_bytes


@dataclass
class PlanEvaluator:
    """Prices, small schedules and states of a scenario at one size, each worked out once; `original`: the scenario with
    its own plans and batch."""

    scenario: Scenario
    original: Scenario
    size: int
    states: dict[Hashable, float] = field(default_factory=dict)
    layer_states: LayerStates = field(default_factory=LayerStates)
    _by_stack: dict[str, tuple[Scenario, SmallSchedules]] = field(default_factory=dict)

    def case(self, table: Table, name: str) -> Case:
        """The case of a plan's table. Raises InputError."""
        options = options_of(name, table)
        return self._run_by(options.family)[0].case_with(name, options, self.size)

    def _run_by(self, family: str) -> tuple[Scenario, SmallSchedules]:
        """The scenario by the stack of a family, and its small schedules."""
        stack = self.scenario.stack_of(family)
        name = NO_STACK if stack is None else stack.name
        if name not in self._by_stack:
            here = self.scenario.at(self.size).of_family(family)
            prices = Prices(here.machine, here.library, self.size, here.file.perturbation, here.file.run.placement)
            self._by_stack[name] = here, SmallSchedules(prices)
        return self._by_stack[name]

    def outline(self, table: Table, name: str) -> PlanOutline:
        """The estimate of a plan."""
        case = self.case(table, name)
        least = self._states_bytes(case, table)
        here, small = self._run_by(case.options.family)
        if least > here.machine.device.hbm_bytes:
            return PlanOutline(estimate=None, too_big=least)
        try:
            return PlanOutline(estimate=estimate(case, small))
        except InputError as error:
            return PlanOutline(estimate=None, fault=str(error))

    def _states_bytes(self, case: Case, table: Table) -> float:
        """What the layers of a stage keep, whatever their activations."""
        key = frozen({name: value for name, value in table.items() if name not in ("micro_batch", "checkpointing")})
        if key not in self.states:
            self.states[key] = self.layer_states.num_bytes(case)
        return self.states[key]

    def simulate(self, table: Table, name: str) -> SimulatedPlan | PlanFault:
        """The simulated plan. The schedule is not checked: that is done for the best plan."""
        try:
            case = self.case(table, name)
            return self._simulate(self._run_by(case.options.family)[0], case)
        except InputError as error:
            return PlanFault(why=str(error))

    def explained(self, table: Table, name: str, checked: bool) -> TimeSpent:
        """Where the time of a plan goes, of which the schedule may be checked. Raises SimfrontierError where it is not
        sound."""
        case = self.case(table, name)
        if checked:
            built = ScheduleCache().of_case(self.scenario, case)
        else:
            built = BuiltSchedule(schedule=schedule_of_case(self.scenario, case))
        here = self._run_by(case.options.family)[0]
        return time_spent(simulated(here, built, here.file.run.fidelity))

    def own(self, plan: str) -> SimulatedPlan | PlanFault:
        """A plan of the scenario itself, simulated."""
        try:
            return self._simulate(self.original.of(plan, self.size), self.original.case(plan, self.size))
        except InputError as error:
            return PlanFault(why=error.below(("plans", plan)))

    def _simulate(self, here: Scenario, case: Case) -> SimulatedPlan:
        schedule = schedule_of_case(here, case)
        step = simulated(here, BuiltSchedule(schedule=schedule), here.file.run.fidelity)
        wanted = here.file.uncertainty
        num_samples = wanted.samples if step.may_be_sampled else 0
        samples = sampled_step_s(step, stream_of(case.options), num_samples, wanted.seed)
        return SimulatedPlan(
            nominal_s=step.step_s,
            parts=_parts(exposure(step)),
            peak_bytes=_fullest_bytes(step),
            samples_s=() if samples is None else tuple(samples.tolist()),
        )


def _parts(spent: Exposure) -> dict[str, float]:
    return {name: getattr(spent, name) for name in PARTS}


def _fullest_bytes(step: SimulatedStep) -> int:
    """Bytes on the fullest rank at its fullest moment. Of a pipeline's stages the first has the most micro-batches
    under way and the embedding, the second the most without it, and the last the head."""
    last = len(step.roles) - 1
    chosen = sorted({0, min(1, last), last})
    if len(chosen) == 1:
        return memory_of_role(step, 0).peak_bytes
    worst = max(chosen, key=lambda number: peak_bytes(step.schedule, step.schedule.roles[number]).num_bytes)
    return memory_of_role(step, worst).peak_bytes


def plain(value: SimulatedPlan | PlanFault | PlanOutline) -> dict[str, Any]:
    """A result as JSON holds it."""
    return asdict(value)


def outline_of(known: Mapping[str, Any]) -> PlanOutline:
    """The inverse of `plain`. Raises KeyError, TypeError or ValueError where it is none of its values."""
    estimated = known["estimate"]
    made = None if estimated is None else Estimate(**{name: _number(value) for name, value in estimated.items()})
    return PlanOutline(estimate=made, too_big=_number(known["too_big"]), fault=str(known["fault"]))


def simulated_of(known: Mapping[str, Any]) -> SimulatedPlan | PlanFault:
    """The inverse of `plain`. Raises as `outline_of`."""
    if "why" in known:
        return PlanFault(why=str(known["why"]))
    parts = {name: _number(known["parts"][name]) for name in PARTS}
    samples = tuple(_number(value) for value in known["samples_s"])
    return SimulatedPlan(
        nominal_s=_number(known["nominal_s"]),
        parts=parts,
        peak_bytes=int(_number(known["peak_bytes"])),
        samples_s=samples,
    )


def _number(value: Any) -> float:
    """A finite number as it is. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"got {value!r}; allowed: a number")
    return value
