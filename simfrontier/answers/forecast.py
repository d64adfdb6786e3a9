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
from simfrontier.core.workload import num_blocks

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
    """Forecast of a job: CPU seconds, peak bytes, ops of its largest schedule, and the numbers of simulated plans and
    sizes.
    """

    seconds: float
    num_bytes: float
    num_ops: int
    num_cases: int

    @property
    def is_large(self) -> bool:
        """True if the forecast is shown to the user before the job begins."""
        return self.seconds >= ANNOUNCED_S or self.num_bytes >= ANNOUNCED_BYTES

    @property
    def is_too_large(self) -> bool:
        """True if the job is refused unless the user confirms it."""
        return self.seconds > MOST_S or self.num_bytes > MOST_BYTES

    def __str__(self) -> str:
        cases = f"{self.num_cases:,} plans at a size" if self.num_cases > 1 else "one plan at a size"
        needs = f"{time_words(self.seconds)} of CPU time and {self.num_bytes / 1e9:,.1f} GB of memory"
        return f"{needs} ({cases}, up to {self.num_ops:,} ops)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSize:
    """Size of a plan's schedule at a number of ranks: number of ops over all roles and micro-batches; number of
    micro-batches that are set up as one; number of pipelines that differ by the groups of nodes they cross; and number
    of candidate schedules if the plan is searched for.
    """

    plan: str
    num_ops: int
    num_roles: int
    num_ranks: int
    num_repeats: int = 1
    num_unlike: int = 1
    tries: int = 1

    @property
    def num_set_up(self) -> int:
        """Number of ops to set up, plus the ranks and pairs of stages, whose arrays and exchanges count
        as one op each.
        """
        return self.num_ops // self.num_repeats + self.num_ranks + self.num_roles**2

    def num_held(self, fidelity: Fidelity | None, exact: bool) -> int:
        """Number of op-instances in memory at once; 0 without a fidelity, since nothing is simulated then."""
        if fidelity is None:
            return 0
        if exact or fidelity == "chunk":
            return self.num_ops * self._ranks_of_role
        return self.num_ops * (self.num_unlike if fidelity == "flow" else 1)

    def num_run(self, fidelity: Fidelity | None, exact: bool) -> int:
        """Number of simulated op-instances; at fidelity chunk, one message from every rank to every
        other rank per op.
        """
        return self.num_held(fidelity, exact) * (self._ranks_of_role if fidelity == "chunk" else 1)

    @property
    def _ranks_of_role(self) -> int:
        return max(1, self.num_ranks // self.num_roles)


def sized(scenario: Scenario, plan: str, devices: int) -> PlanSize:
    """Return the size of a plan at a number of devices. For a plan that is searched for: the size common to all
    candidates, with the micro-batches of the plan or the scenario, or the fewest that the batch allows. Raises
    InputError for a plan that cannot be laid out at this size.
    """
    here = scenario.at(devices)
    options, training = here.plans[plan], here.file.training
    search = None if (plan, devices) in scenario.resolved_options else here.searches.get(plan)
    if search is None:
        case = scenario.case(plan, devices)
        micro_batches, stages = case.grad_accum, case.stages
        unlike, tries = _num_unlike(scenario, case), 1
    else:
        batch = training.about(here.sequence)
        few = training.grad_accum if batch is None else batch // devices
        micro_batches = options.grad_accum or min(MOST_MICRO_BATCHES, max(1, few))
        stages = options.pipeline if isinstance(options, TensorOptions) else 1
        grids = 1 if search.by is None else search.top
        unlike, tries = 1, grids * prod(map(len, search.values.values()))
    return PlanSize(
        plan=plan,
        num_ops=OPS_PER_LAYER * num_blocks(here.shape) * micro_batches,
        num_roles=max(1, stages),
        num_ranks=devices,
        num_repeats=micro_batches if stages > 1 else 1,
        num_unlike=unlike,
        tries=tries,
    )


def _num_unlike(scenario: Scenario, case: Case) -> int:
    """Return the number of a plan's pipelines that differ by the groups of nodes they cross."""
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
    """Return the sizes of plans at numbers of devices; plans that cannot be laid out are left out."""
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
    case of `again` the given number of additional times. Rows of all cases are kept in memory, but only one schedule at
    a time.
    """
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
    """Forecast the simulation of every plan at every size, with the scenario's sensitivity variations and slowdown
    cases.
    """
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
    """Forecast the export of every plan at the largest size."""
    run = scenario.file.run
    return _together(_sizes(scenario, scenario.plans, (max(run.devices),)), fidelity or run.fidelity, exact)


def forecast_check(scenario: Scenario) -> Forecast:
    """Forecast building and checking every plan at every size."""
    return _together(_sizes(scenario, scenario.plans, scenario.file.run.devices), None)


def forecast_show(scenario: Scenario, volumes: bool = False) -> Forecast:
    """Forecast building the first plan at the smallest size; with `volumes`, also its simulation."""
    first = _sizes(scenario, list(scenario.plans)[:1], (min(scenario.file.run.devices),))
    return _together(first, "analytic" if volumes else None)


def forecast_tune(scenario: Scenario, devices: int | None, simulate: int | None) -> Forecast:
    """Forecast a search: all plans of the space are estimated from one layer; the scenario's own plans and the best
    plans are simulated, where the latter are assumed to be as large as the largest own plan.
    """
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
    """Forecast the explanation of one plan at the largest size: its simulation, that of another plan or of all others,
    and that of the changes. If no plan is named, the changes are counted for the largest one.
    """
    run = scenario.file.run
    named = [name for name in scenario.plans if plan is None or against is None or name in (plan, against)]
    cases = _sizes(scenario, named, (max(run.devices),))
    explained = [case for case in cases if (case.plan != against if plan is None else case.plan == plan)]
    changed = [(case, WHAT_IFS) for case in _largest(explained)] if what_if else []
    return _together(cases, fidelity or run.fidelity, again=changed)


def forecast_replay(schedule: Schedule, fidelity: Fidelity, exact: bool = False) -> Forecast:
    """Forecast the simulation of a schedule that was read from a file, by counting its ops."""
    num_ops = sum(len(call.ops) for role in schedule.roles for call in role.calls)
    ranks = schedule.mesh.num_ranks
    return _together(
        [PlanSize(plan="", num_ops=num_ops, num_roles=len(schedule.roles), num_ranks=ranks)], fidelity, exact
    )


def _largest(cases: Sequence[PlanSize]) -> list[PlanSize]:
    """Return a list with only the case that has the most ops; empty if there are no cases."""
    return sorted(cases, key=lambda case: -case.num_ops)[:1]
