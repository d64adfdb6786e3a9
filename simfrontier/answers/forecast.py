"""Forecast of a job's CPU time and memory from its size alone: nothing is built, expanded or simulated for it.

The size of a job is the number of op-instances that it simulates. An op of a schedule has one instance for each class
of ranks that is simulated separately: one if all ranks of a pipeline stage (or of a plan without stages) are alike, as
many as there are kinds of pipelines, or one per rank (`exact`); at fidelity chunk every message of a rank is an
instance. Setting up an op counts as several instances more, and the arrays of a rank or of a pair of stages count as
much as an op. The ops of a pipeline are set up once for all micro-batches, those of other plans once for each.

Forecasts are within a factor of five of the measurements, which `tests/test_forecast.py` lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from simfrontier.base.errors import InputError
from simfrontier.base.units import time_words
from simfrontier.core.plan import MOST_MICRO_BATCHES, TensorOptions

if TYPE_CHECKING:
    from simfrontier.core.engine import Fidelity
    from simfrontier.core.program import Schedule
    from simfrontier.inputs.scenario import Case, Scenario

INSTANCE_S: Final = 3e-6  # CPU seconds of an op-instance
INSTANCE_BYTES: Final = 150.0
SETUP: Final = 15  # instances that setting up an op counts as
PROCESS_BYTES: Final = 0.1e9  # before the first op

OPS_PER_LAYER: Final = 65  # and micro-batch, of all roles together (measured: 39 to 121)
OPS_PER_CASE: Final = 1_000  # that samples, rows and checks of a plan at a size count as, whatever its schedule
CASE_S: Final = OPS_PER_CASE * SETUP * INSTANCE_S

# simulations of a plan
WHAT_IFS: Final = 20  # that `explain` makes
TUNED: Final = 20  # that `tune` makes by default, at most
REQUIRED: Final = 8  # to solve for a required value
LAGGING: Final = 80  # of 8 to 33 kinds of devices and links, each as long as several: ranks fall into more classes
ESTIMATES: Final = 150  # plans that `tune` estimates for each divisor of the number of devices (measured: 97 to 168)

# limits
ANNOUNCED_S: Final = 60.0
ANNOUNCED_BYTES: Final = 1e9
MOST_S: Final = 1_800.0  # half an hour: beyond, somebody has mistyped a number more often than not
MOST_BYTES: Final = 8e9  # half of a usual laptop's memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """CPU seconds and peak bytes of a job; ops of its largest schedule, and how many plans at how many sizes it
    simulates."""

    seconds: float
    num_bytes: float
    num_ops: int
    num_cases: int

    @property
    def is_large(self) -> bool:
        """True if the job is announced before it begins."""
        return self.seconds >= ANNOUNCED_S or self.num_bytes >= ANNOUNCED_BYTES

    @property
    def is_too_large(self) -> bool:
        """True if the job is refused unless the user agrees."""
        return self.seconds > MOST_S or self.num_bytes > MOST_BYTES

    def __str__(self) -> str:
        cases = f"{self.num_cases:,} plans at a size" if self.num_cases > 1 else "one plan at a size"
        needs = f"{time_words(self.seconds)} of CPU time and {self.num_bytes / 1e9:,.1f} GB of memory"
        return f"{needs} ({cases}, up to {self.num_ops:,} ops)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSize:
    """Size of a plan's schedule at a number of ranks: its ops, of all roles and micro-batches together; micro-batches
    that are set up as one; how many of its pipelines differ by the groups of nodes that they pass; and how many such
    schedules are tried where the plan is searched for."""

    plan: str
    num_ops: int
    num_roles: int
    num_ranks: int
    num_repeats: int = 1
    num_unlike: int = 1
    tries: int = 1

    @property
    def num_set_up(self) -> int:
        """Ops that are set up, with ranks and pairs of stages, whose arrays and exchanges count as much each."""
        return self.num_ops // self.num_repeats + self.num_ranks + self.num_roles**2

    def num_held(self, fidelity: Fidelity | None, exact: bool) -> int:
        """Op-instances that are in memory at once; none without a fidelity, where nothing is simulated."""
        if fidelity is None:
            return 0
        if exact or fidelity == "chunk":
            return self.num_ops * self._ranks_of_role
        return self.num_ops * (self.num_unlike if fidelity == "flow" else 1)

    def num_run(self, fidelity: Fidelity | None, exact: bool) -> int:
        """Op-instances that are simulated: at fidelity chunk, a message from every rank to every other."""
        return self.num_held(fidelity, exact) * (self._ranks_of_role if fidelity == "chunk" else 1)

    @property
    def _ranks_of_role(self) -> int:
        return max(1, self.num_ranks // self.num_roles)


def sized(scenario: Scenario, plan: str, devices: int) -> PlanSize:
    """Return the size of a plan at a number of devices. Of one that is searched for, what all candidates have:
    micro-batches as the plan or the scenario says, or as few as the batch makes. Raises InputError for a plan that
    cannot be laid out there."""
    here = scenario.at(devices)
    options, training = here.plans[plan], here.file.training
    search = None if (plan, devices) in scenario.resolved_options else here.searches.get(plan)
    if search is None:
        case = scenario.case(plan, devices)
        micro_batches, stages = case.grad_accum, case.stages
        unlike, tries = _num_unlike(scenario, case), 1
    else:
        few = training.grad_accum if training.batch is None else training.batch // devices
        micro_batches = options.grad_accum or min(MOST_MICRO_BATCHES, max(1, few))
        stages = options.pipeline if isinstance(options, TensorOptions) else 1
        grids = 1 if search.by is None else search.top
        unlike, tries = 1, grids * prod(map(len, search.values.values()))
    return PlanSize(
        plan=plan,
        num_ops=OPS_PER_LAYER * here.shape.num_layers * micro_batches,
        num_roles=max(1, stages),
        num_ranks=devices,
        num_repeats=micro_batches if stages > 1 else 1,
        num_unlike=unlike,
        tries=tries,
    )


def _num_unlike(scenario: Scenario, case: Case) -> int:
    """Return the number of a plan's pipelines that differ by the groups of nodes that they pass."""
    if case.plan.pipeline is None or case.stages == 1:
        return 1
    from simfrontier.core.cost import placed
    from simfrontier.core.network import groups_of_job, num_unlike

    machine, placement = scenario.machine, scenario.file.run.placement
    num_nodes = -(-case.devices // machine.devices_per_node)
    device_of = placed(placement, case.devices, num_nodes, machine)
    pipelines = case.mesh.groups((case.plan.pipeline.axis,))
    if device_of is not None:
        pipelines = device_of[pipelines]
    return num_unlike(groups_of_job(machine, num_nodes)[pipelines // machine.devices_per_node])


def _sizes(scenario: Scenario, plans: Iterable[str], sizes: Iterable[int]) -> list[PlanSize]:
    """Return sizes of plans at numbers of devices, without those that cannot be laid out there."""
    found = []
    for plan, size in product(plans, sizes):
        if plan in scenario.at(size).plans:
            with suppress(InputError):
                found.append(sized(scenario, plan, size))
    return found


def _together(
    cases: Sequence[PlanSize],
    fidelity: Fidelity | None,
    exact: bool = False,
    again: Sequence[tuple[PlanSize, int]] = (),
) -> Forecast:
    """Return the forecast of a job that simulates each of `cases` once (without `fidelity`: only builds them), and each
    of `again` the stated number of times more. Rows of all cases are kept in memory, schedules of one at a time."""
    runs = [*((case, case.tries) for case in cases), *((case, times * case.tries) for case, times in again)]
    work = sum(
        times * (SETUP * (OPS_PER_CASE + case.num_set_up) + case.num_run(fidelity, exact)) for case, times in runs
    )
    largest = max((SETUP * case.num_set_up + case.num_held(fidelity, exact) for case, _ in runs), default=0)
    return Forecast(
        seconds=work * INSTANCE_S,
        num_bytes=PROCESS_BYTES + (SETUP * OPS_PER_CASE * len(cases) + largest) * INSTANCE_BYTES,
        num_ops=max((case.num_ops for case, _ in runs), default=0),
        num_cases=sum(times for _, times in runs),
    )


def forecast_run(
    scenario: Scenario, fidelity: Fidelity | None, exact: bool = False, vary: bool = True, trouble: bool = True
) -> Forecast:
    """Forecast of every plan at every size, the scenario's variations of what is unknown, and its troubles."""
    file, again = scenario.file, []
    if vary and (table := file.sensitivity) is not None:
        times = sum(len(variation.values) for variation in table.vary) + REQUIRED * len(table.required)
        again += [(case, times) for case in _sizes(scenario, table.plans, table.sizes)]
    if trouble and file.slowdown is not None:
        times = len(file.slowdown.cases) + LAGGING
        again += [(case, times) for case in _sizes(scenario, scenario.plans, (scenario.troubled_size,))]
    cases = _sizes(scenario, scenario.plans, file.run.devices)
    return _together(cases, fidelity or file.run.fidelity, exact, again)


def forecast_export(scenario: Scenario, fidelity: Fidelity | None, exact: bool = False) -> Forecast:
    """Forecast of every plan at the largest size."""
    run = scenario.file.run
    return _together(_sizes(scenario, scenario.plans, (max(run.devices),)), fidelity or run.fidelity, exact)


def forecast_check(scenario: Scenario) -> Forecast:
    """Forecast of every plan at every size, built and checked."""
    return _together(_sizes(scenario, scenario.plans, scenario.file.run.devices), None)


def forecast_show(scenario: Scenario, volumes: bool = False) -> Forecast:
    """Forecast of the first plan at the smallest size, built; with `volumes`, simulated too."""
    first = _sizes(scenario, list(scenario.plans)[:1], (min(scenario.file.run.devices),))
    return _together(first, "analytic" if volumes else None)


def forecast_tune(scenario: Scenario, devices: int | None, simulate: int | None) -> Forecast:
    """Forecast of a search: all plans of the space estimated, from one layer; the scenario's own simulated, and the
    best, which are taken to be as large as the largest of these."""
    file = scenario.file
    size = max(file.run.devices) if devices is None else devices
    own = _sizes(scenario, scenario.plans, (size,))
    best = [(case, simulate or file.tune.simulate or TUNED) for case in _largest(own)]
    simulated = _together(own, file.run.fidelity, again=best)
    estimates = ESTIMATES * sum(size % each == 0 for each in range(1, size + 1))
    return replace(simulated, seconds=simulated.seconds + estimates * OPS_PER_LAYER * SETUP * INSTANCE_S)


def forecast_explain(
    scenario: Scenario, plan: str | None, against: str | None, fidelity: Fidelity | None, what_if: bool
) -> Forecast:
    """Forecast of one plan, and another or all others of the scenario, at the largest size, and of what would help the
    first: the largest, where none is named."""
    run = scenario.file.run
    named = [name for name in scenario.plans if plan is None or against is None or name in (plan, against)]
    cases = _sizes(scenario, named, (max(run.devices),))
    explained = [case for case in cases if (case.plan != against if plan is None else case.plan == plan)]
    changed = [(case, WHAT_IFS) for case in _largest(explained)] if what_if else []
    return _together(cases, fidelity or run.fidelity, again=changed)


def forecast_replay(schedule: Schedule, fidelity: Fidelity, exact: bool = False) -> Forecast:
    """Forecast of a schedule that was read, whose ops are counted."""
    num_ops = sum(len(call.ops) for role in schedule.roles for call in role.calls)
    ranks = schedule.mesh.num_ranks
    return _together(
        [PlanSize(plan="", num_ops=num_ops, num_roles=len(schedule.roles), num_ranks=ranks)], fidelity, exact
    )


def _largest(cases: Sequence[PlanSize]) -> list[PlanSize]:
    """Return the case with the most ops alone; none of none."""
    return sorted(cases, key=lambda case: -case.num_ops)[:1]
