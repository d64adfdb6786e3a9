"""How long a job will take and how much memory, from sizes alone: nothing is built, expanded or simulated for it.

The model. A plan's schedule has some 65 ops for each layer and micro-batch (measured: 39 for Megatron-LM's tensor and
pipeline parallelism, 40 for ZeRO-1, 64 for ZeRO-3, 115 for ZeRO++, 121 at most). Time and memory grow with ops; with
ranks, of which some arrays have an entry for each; without folding (`exact`) with ops × ranks; at fidelity chunk with
messages. The constants were measured on two cores of a shared server (November 2026, Python 3.11). CPU seconds and peak
memory of whole processes, `run --no-page --no-sensitivity`, measured → forecast:

    zero3, 20B, 384 GCDs                                  0.9 s  0.08 GB →   0.9 s  0.09 GB
    the same, 1,000 layers                                7.1 s  0.38 GB →   6.2 s  0.36 GB
    the same, 200 layers × 10 micro-batches               9.4 s  0.55 GB →  11.7 s  0.63 GB
    zero3, 20B, 75,264 GCDs                               1.1 s  0.16 GB →   1.6 s  0.20 GB
    zero-topo, 20B, 75,264 GCDs                           1.4 s  0.24 GB →   1.6 s  0.20 GB
    zero3, 20B, exact on 384                              3.4 s  0.26 GB →   5.3 s  0.23 GB
    exact on 3,072                                       30.9 s  0.95 GB →  36.1 s  1.23 GB
    zero3, 20B, chunk on 64                              29.3 s  0.25 GB →  20.9 s  0.27 GB
    zero3, 20B, chunk on 128                            106.2 s  0.33 GB →  80.6 s  0.45 GB
    zero-topo, 20B, chunk on 128                         28.9 s  0.27 GB →  80.6 s  0.45 GB
    zero3, 20B with 8 layers, chunk on 128               20.9 s  0.31 GB →  15.2 s  0.14 GB
    zero-topo, 20B with 8 layers, chunk on 128            7.2 s  0.24 GB →  15.2 s  0.14 GB
    1f1b of frontier-1t-3d on 3,072                       4.8 s  0.30 GB →   7.7 s  0.50 GB
    the same on 24,576                                    7.2 s  0.73 GB →   9.0 s  0.76 GB
    the same on 65,536                                   10.2 s  1.68 GB →  11.8 s  1.26 GB
    the same on 18,816, 19 kinds of pipelines            30.0 s  1.29 GB →  26.4 s  0.95 GB
    the same on 75,264, 74 kinds of pipelines           284.9 s  5.52 GB → 288.6 s  5.44 GB
    64 stages of a layer each, 512 GCDs                   1.5 s  0.09 GB →   1.0 s  0.09 GB
    512 stages of a layer each, 512 GCDs                 16.0 s  0.45 GB →  16.8 s  0.48 GB
    100 tiny plans at 4 sizes                            16.5 s  0.19 GB →  23.5 s  0.19 GB

and of other verbs:

    tune, toy on 8, one process                           7.3 s  0.27 GB →   8.2 s  0.26 GB
    tune, 20B on 64, one process                         11.6 s  0.30 GB →  16.4 s  0.32 GB
    tune, 20B on 384, one process                        21.2 s  0.38 GB →  30.0 s  0.40 GB
    explain, toy, zero3                                   0.9 s  0.09 GB →   2.1 s  0.08 GB
    explain, 20B, zero-topo without what would help       1.1 s  0.09 GB →   0.9 s  0.09 GB
    explain, 20B, zero-topo against zero3                 6.5 s  0.13 GB →  10.3 s  0.09 GB
    explain, 1f1b of frontier-1t-3d                      49.8 s  0.83 GB →  93.0 s  0.52 GB

All are within a factor of three, those measured with numpy's threads held to one (OMP_NUM_THREADS=1). Pipelines are
unlike where their stages pass other groups of nodes: on 75,264, each of 16 stages has 588 nodes, which groups of 128
cut at other places in every stage, so that there are 74 kinds of pipelines. Classes of ranks grow with these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simfrontier.errors import InputError
from simfrontier.plan import MOST_MICRO_BATCHES, TensorOptions
from simfrontier.records import dataclass

if TYPE_CHECKING:
    from simfrontier.scenario import Case, Scenario
    from simfrontier.schedule import Schedule
    from simfrontier.simulation import Fidelity

OPS_PER_LAYER: Final = 65  # and micro-batch, of all roles together

# CPU seconds
BASE_S: Final = 0.6  # to start, and read a scenario
CASE_S: Final = 0.05  # of a plan at a size, whatever its schedule
BUILD_S: Final = 40e-6  # of an op of a schedule with one role: built, expanded, checked
SIMULATE_S: Final = 45e-6  # of such an op: simulation, sampling of error bars, report
STAGED_S: Final = 12e-6  # of an op of a schedule with several roles, all of that: calls are taken as a whole
RANK_S: Final = 10e-6
STAGES_S: Final = 60e-6  # of a pair of roles: every exchange is priced with the ranks of all stages
STAGED_RANK_S: Final = 60e-6  # of a rank where there are several roles
UNLIKE_S: Final = 95e-9  # of an op and a pair of pipelines that are unlike
EXACT_S: Final = 4e-6  # of an op of a rank
CHUNK_S: Final = 1.7e-6  # of an op and a pair of ranks
WHAT_IFS: Final = 25  # that `explain` simulates
OUTLINE_S: Final = 0.01  # that `tune` takes to estimate one plan
OUTLINES: Final = 150  # plans of its space for each divisor of the number of devices (measured: 97 to 168)
TUNED: Final = 20  # plans that `tune` simulates by default, at most
REQUIRED: Final = 8  # runs to solve for a required value
LAGGING: Final = 20  # kinds of devices and links of a plan (measured: 8 to 33)
SLOWED: Final = 6  # times as long as a healthy step, as its ranks fall into more classes
MOST_TRIES: Final = 10**9  # of a search that are counted: far above what is refused

# bytes
BASE_BYTES: Final = 75e6
TUNE_BYTES: Final = 150e6  # more in a search, whatever its space
OUTLINE_BYTES: Final = 60e3  # that are kept of an estimated plan
SCHEDULE_BYTES: Final = 500  # of an op of a schedule with one role
EXPANDED_BYTES: Final = 700  # of such an op, expanded; both are kept for every plan
SIMULATED_BYTES: Final = 3_100  # more while it is simulated
STAGED_KEPT_BYTES: Final = 20  # of an op of a schedule with several roles: calls share their ops
STAGED_BYTES: Final = 700  # more while it is expanded or simulated
RANK_BYTES: Final = 1_500
STAGES_BYTES: Final = 1_400  # of a pair of roles
STAGED_RANK_BYTES: Final = 12_000
UNLIKE_BYTES: Final = 1.4  # of an op and a pair of pipelines that are unlike
EXACT_BYTES: Final = 130
CHUNK_BYTES: Final = 1_000
CASE_BYTES: Final = 250e3  # that is kept of a plan at a size

# what is announced, and what is refused
TOLD_S: Final = 60.0
TOLD_BYTES: Final = 1e9
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
        """Whether it is worth a word before it begins."""
        return self.seconds >= TOLD_S or self.num_bytes >= TOLD_BYTES

    @property
    def is_too_large(self) -> bool:
        """Whether it is refused unless the user agrees."""
        return self.seconds > MOST_S or self.num_bytes > MOST_BYTES

    def __str__(self) -> str:
        cases = f"{self.num_cases:,} plans at a size" if self.num_cases > 1 else "one plan at a size"
        needs = f"{_time(self.seconds)} of CPU time and {_memory(self.num_bytes)} of memory"
        return f"{needs} ({cases}, up to {self.num_ops:,} ops)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSize:
    """What a plan's schedule at a size will be: its ops of all roles together, roles, ranks, how many of its pipelines
    are unlike by the groups of nodes that they pass, and how many such schedules are tried where the plan is searched
    for."""

    plan: str
    num_ops: int
    num_roles: int
    num_ranks: int
    num_unlike: int = 1
    tries: int = 1

    @property
    def build_s(self) -> float:
        return self.tries * self.num_ops * (STAGED_S / 2 if self.num_roles > 1 else BUILD_S)

    @property
    def checked_s(self) -> float:
        """To build and check it; of a plan that is searched for, after all candidates were compared."""
        return CASE_S + self.build_s + (self.simulate_s("analytic", False) if self.tries > 1 else 0.0)

    def simulate_s(self, fidelity: Fidelity, exact: bool) -> float:
        """To simulate it once."""
        staged = self.num_roles > 1
        seconds = CASE_S + self.num_ops * (STAGED_S / 2 if staged else SIMULATE_S)
        seconds += self.num_ranks * (STAGED_RANK_S if staged else RANK_S)
        if staged:
            seconds += self.num_roles**2 * STAGES_S
        if self.num_unlike > 1 and fidelity != "analytic":
            seconds += self.num_ops * self.num_unlike**2 * UNLIKE_S
        if fidelity == "chunk":
            seconds += self.num_ops * self.num_ranks**2 * CHUNK_S
        elif exact:
            seconds += self.num_ops * self.num_ranks * EXACT_S / self.num_roles
        return self.tries * seconds

    @property
    def kept_bytes(self) -> float:
        return self.num_ops * (STAGED_KEPT_BYTES if self.num_roles > 1 else SCHEDULE_BYTES + EXPANDED_BYTES)

    @property
    def stored_bytes(self) -> float:
        """Of the schedule alone."""
        return self.num_ops * (STAGED_KEPT_BYTES if self.num_roles > 1 else SCHEDULE_BYTES)

    @property
    def expanded_bytes(self) -> float:
        """More than that while it is checked."""
        return self.num_ops * (STAGED_BYTES if self.num_roles > 1 else EXPANDED_BYTES)

    def simulated_bytes(self, fidelity: Fidelity, exact: bool) -> float:
        """More than is kept, while it is simulated."""
        staged = self.num_roles > 1
        size: float = self.num_ops * (STAGED_BYTES if staged else SIMULATED_BYTES)
        size += self.num_ranks * (STAGED_RANK_BYTES if staged else RANK_BYTES)
        size += self.num_roles**2 * STAGES_BYTES if staged else 0
        if self.num_unlike > 1 and fidelity != "analytic":
            size += self.num_ops * self.num_unlike**2 * UNLIKE_BYTES
        if fidelity == "chunk":
            return size + self.num_ops * self.num_ranks * CHUNK_BYTES
        return size + (self.num_ops * self.num_ranks * EXACT_BYTES / self.num_roles if exact else 0)


def sized(scenario: Scenario, plan: str, devices: int) -> PlanSize:
    """A plan of a scenario at a size. Of one that is searched for, what all candidates have: micro-batches as the plan
    or the scenario says, or as few as the batch makes."""
    here = scenario.at(devices)
    num_layers = here.shape.num_layers
    search = here.searches.get(plan)
    options = here.plans[plan]
    if search is None or (plan, devices) in scenario.resolved_options:
        case = scenario.case(plan, devices)
        micro_batches, stages = case.grad_accum, case.stages
        tries, unlike = 1, _num_unlike(scenario, case)
    else:
        training = here.file.training
        few = 1 if training.batch is None else training.batch // devices
        micro_batches = options.grad_accum or (min(MOST_MICRO_BATCHES, max(1, few)) if training.batch else 0)
        micro_batches = micro_batches or training.grad_accum
        stages = options.pipeline if isinstance(options, TensorOptions) else 1
        tries, unlike = search.top if search.by is not None else 1, 1
        for values in search.values.values():
            tries = min(MOST_TRIES, tries * len(values))
    return PlanSize(
        plan=plan,
        num_ops=OPS_PER_LAYER * num_layers * micro_batches,
        num_roles=max(1, stages),
        num_ranks=devices,
        num_unlike=unlike,
        tries=tries,
    )


def _num_unlike(scenario: Scenario, case: Case) -> int:
    """How many of a plan's pipelines are unlike by the groups of nodes that they pass."""
    if case.plan.pipeline is None or case.stages == 1:
        return 1
    from simfrontier.cost import placed
    from simfrontier.network import groups_of_job, num_unlike

    machine, placement = scenario.machine, scenario.file.run.placement
    num_nodes = -(-case.devices // machine.devices_per_node)
    device_of = placed(placement, case.devices, num_nodes, machine)
    pipelines = case.mesh.groups((case.plan.pipeline.axis,))
    if device_of is not None:
        pipelines = device_of[pipelines]
    return num_unlike(groups_of_job(machine, num_nodes)[pipelines // machine.devices_per_node])


def _together(
    cases: Iterable[tuple[PlanSize, int]], fidelity: Fidelity = "flow", exact: bool = False, extra_s: float = 0.0
) -> Forecast:
    """Of cases, each simulated so many times. Schedules of a plan with one role are built once for all sizes."""
    seconds, kept, most, num_ops, num_cases = BASE_S + extra_s, 0.0, 0.0, 0, 0
    built: dict[str, float] = {}
    held: dict[str, float] = {}
    for case, times in cases:
        seconds += times * case.simulate_s(fidelity, exact)
        built[case.plan] = max(built.get(case.plan, 0.0), case.build_s)
        held[case.plan] = max(held.get(case.plan, 0.0), case.kept_bytes)
        kept += CASE_BYTES
        most = max(most, case.simulated_bytes(fidelity, exact))
        num_ops, num_cases = max(num_ops, case.num_ops), num_cases + times * case.tries
    seconds += sum(built.values())
    total = BASE_BYTES + kept + sum(held.values()) + most
    return Forecast(seconds=seconds, num_bytes=total, num_ops=num_ops, num_cases=num_cases)


def forecast_run(
    scenario: Scenario, fidelity: Fidelity | None, exact: bool = False, vary: bool = True, trouble: bool = True
) -> Forecast:
    """Every plan at every size, the scenario's variations of what is unknown, and its troubles."""
    cases = [(sized(scenario, plan, size), 1) for plan in scenario.plans for size in scenario.file.run.devices]
    table = scenario.file.sensitivity if vary else None
    if table is not None:
        times = sum(len(variation.values) for variation in table.vary) + REQUIRED * len(table.required)
        cases += [
            (sized(scenario, plan, size), times)
            for plan in table.plans
            for size in table.sizes
            if plan in scenario.at(size).plans and _can_run(scenario, plan, size)
        ]
    lagging = scenario.file.slowdown if trouble else None
    if lagging is not None:
        size, times = scenario.troubled_size, SLOWED * (len(lagging.cases) + LAGGING)
        cases += [(sized(scenario, plan, size), times) for plan in scenario.plans if _can_run(scenario, plan, size)]
    return _together(cases, fidelity or scenario.file.run.fidelity, exact)


def forecast_export(scenario: Scenario, fidelity: Fidelity | None, exact: bool = False) -> Forecast:
    """Every plan at the largest size."""
    size = max(scenario.file.run.devices)
    chosen = fidelity or scenario.file.run.fidelity
    return _together([(sized(scenario, plan, size), 1) for plan in scenario.plans], chosen, exact)


def forecast_check(scenario: Scenario) -> Forecast:
    """Every plan at every size, built and checked; all schedules are kept until the last is built."""
    cases = [sized(scenario, plan, size) for plan in scenario.plans for size in scenario.file.run.devices]
    return Forecast(
        seconds=BASE_S + sum(case.checked_s for case in cases),
        num_bytes=BASE_BYTES + sum(case.stored_bytes for case in cases) + max(case.expanded_bytes for case in cases),
        num_ops=max(case.num_ops for case in cases),
        num_cases=sum(case.tries for case in cases),
    )


def forecast_show(scenario: Scenario, plan: str | None, volumes: bool = False) -> Forecast:
    """One plan at the smallest size, built; `volumes`: and simulated."""
    chosen = plan if plan is not None and plan in scenario.plans else next(iter(scenario.plans))
    case = sized(scenario, chosen, min(scenario.file.run.devices))
    if volumes:
        return _together([(case, 1)], "analytic")
    held = BASE_BYTES + case.stored_bytes + case.expanded_bytes
    return Forecast(seconds=BASE_S + case.checked_s, num_bytes=held, num_ops=case.num_ops, num_cases=case.tries)


def forecast_tune(scenario: Scenario, devices: int | None, simulate: int | None) -> Forecast:
    """All plans of the space estimated, and the best simulated, which are taken to be as large as the scenario's own;
    these are simulated too."""
    size = max(scenario.file.run.devices) if devices is None else devices
    own = [sized(scenario, plan, size) for plan in scenario.plans if _can_run(scenario, plan, size)]
    outlines = OUTLINES * sum(size % each == 0 for each in range(1, size + 1))
    outlines_s, outlines_bytes = outlines * OUTLINE_S, TUNE_BYTES + outlines * OUTLINE_BYTES
    if not own:
        return Forecast(seconds=BASE_S + outlines_s, num_bytes=BASE_BYTES + outlines_bytes, num_ops=0, num_cases=0)
    largest = max(own, key=lambda case: case.num_ops)
    wanted = simulate or scenario.file.tune.simulate or TUNED
    chosen = scenario.file.run.fidelity
    simulated = _together([*((case, 1) for case in own), (largest, wanted)], chosen, extra_s=outlines_s)
    return replace(simulated, num_bytes=simulated.num_bytes + outlines_bytes)


def forecast_explain(
    scenario: Scenario, plan: str | None, against: str | None, fidelity: Fidelity | None, what_if: bool
) -> Forecast:
    """One plan, and another or all others of the scenario, at the largest size, and what would help the first. Of a
    plan that is not named yet the largest is taken."""
    size = max(scenario.file.run.devices)
    simulated = [name for name in scenario.plans if plan is None or against is None or name in (plan, against)]
    cases = {name: sized(scenario, name, size) for name in simulated if _can_run(scenario, name, size)}
    if plan is None:
        open_to = [case for name, case in cases.items() if name != against]
        explained = max(open_to, key=lambda case: case.num_ops, default=None)
    else:
        explained = cases.get(plan)
    tries = [(explained, WHAT_IFS)] if what_if and explained is not None else []
    return _together([*((case, 1) for case in cases.values()), *tries], fidelity or scenario.file.run.fidelity)


def forecast_replay(schedule: Schedule, fidelity: Fidelity, exact: bool = False) -> Forecast:
    """A schedule that is there, whose ops are counted."""
    num_ops = sum(len(call.ops) for role in schedule.roles for call in role.calls)
    ranks = schedule.mesh.num_ranks
    return _together(
        [(PlanSize(plan="", num_ops=num_ops, num_roles=len(schedule.roles), num_ranks=ranks), 1)], fidelity, exact
    )


def _can_run(scenario: Scenario, plan: str, size: int) -> bool:
    try:
        sized(scenario, plan, size)
    except InputError:
        return False
    return True


def _time(seconds: float) -> str:
    for unit, each in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * each:
            return f"{seconds / each:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _memory(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:,.0f} GB" if num_bytes >= 10e9 else f"{num_bytes / 1e9:.1f} GB"
