"""The run of a search: which plans are estimated and simulated, in which order, and when there are enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from simfrontier.analysis import TimeSpent, why_faster
from simfrontier.errors import InputError
from simfrontier.scenario import Scenario
from simfrontier.tuning.evaluator import PlanFault, PlanOutline, SimulatedPlan, outline_of, plain, simulated_of
from simfrontier.tuning.known import Known
from simfrontier.tuning.outcome import OwnPlan, RuledOut, TunedPlan
from simfrontier.tuning.space import TUNED, Candidate
from simfrontier.tuning.workers import Task, TuneWorkers

SLACK = 1.1  # estimates of memory are as much as this off; what fits is known where it is simulated
LISTED = 4  # that are simulated even where no other is likely to be faster, if their floors do not rule them out
ROUND = 4  # simulated at a time: what they say of the others does not depend on the number of processes
MARGIN = 0.05  # by which estimates may be off more than any that was seen
Progress = Callable[[str, int, int], None]


def is_too_big(candidate: Candidate, outline: PlanOutline) -> bool:
    """Whether a plan is dropped: by its states alone, or by its estimate."""
    if outline.estimate is None:
        return outline.too_big > 0.0
    return outline.estimate.peak_bytes > SLACK * candidate.capacity_bytes


def fitting_of(outlines: Mapping[Candidate, PlanOutline]) -> list[TunedPlan]:
    """The plans that may fit, the fastest first."""
    fitting = [
        TunedPlan(candidate=candidate, estimate=outline.estimate)
        for candidate, outline in outlines.items()
        if outline.estimate is not None and not is_too_big(candidate, outline)
    ]
    return sorted(fitting, key=lambda plan: (plan.estimate.step_s, plan.candidate.key))


def without(plans: Sequence[TunedPlan], known: Sequence[TunedPlan]) -> list[TunedPlan]:
    """The plans that are not among those known."""
    keys = {plan.candidate.key for plan in known}
    return [plan for plan in plans if plan.candidate.key not in keys]


def ordered(kept: list[TunedPlan], fitting: list[TunedPlan], misfits: Sequence[TunedPlan]) -> tuple[TunedPlan, ...]:
    """Those simulated, the fastest first, then those estimated."""
    fastest = sorted(kept, key=lambda plan: (plan.step_s, plan.candidate.key))
    return (*fastest, *without(fitting, [*kept, *misfits]))


def _next(rest: Sequence[TunedPlan], kept: Sequence[TunedPlan]) -> list[TunedPlan]:
    """The plans that are worth a simulation, of those that were not simulated: all, as long as none that fits was
    (`kept`); then those with a floor no higher than the fastest of these, and with an estimate that would make them
    the fastest if it were off by `MARGIN` more than any was seen to be."""
    if not kept:
        return [*rest]
    fastest = min(plan.nominal_s for plan in kept)
    able = [plan for plan in rest if plan.estimate.floor_s <= fastest]
    if len(kept) < LISTED:
        return able[: LISTED - len(kept)]
    lowest = min(plan.nominal_s / plan.estimate.step_s for plan in kept)
    return [plan for plan in able if plan.estimate.step_s * (lowest - MARGIN) <= fastest]


class Runner:
    """Estimates and simulates plans on several processes, and keeps what is known."""

    def __init__(self, size: int, workers: TuneWorkers, known: Known, progress: Progress) -> None:
        self.size, self.workers, self.known, self.progress = size, workers, known, progress
        self.faults: dict[Candidate, str] = {}  # why plans could not be simulated

    def first_outlines(self, candidates: Sequence[Candidate]) -> dict[Candidate, PlanOutline]:
        """The estimates of the leanest plan of each core (grid, micro-batch, checkpointing), which has one floor."""
        leanest: dict[tuple[object, ...], Candidate] = {}
        for candidate in candidates:
            known = leanest.get(candidate.core)
            if known is None or candidate.states.spread > known.states.spread:
                leanest[candidate.core] = candidate
        return self._outlined(list(leanest.values()), "estimating one plan per grid")

    def rest_of_outlines(
        self, candidates: Sequence[Candidate], outlines: dict[Candidate, PlanOutline], fastest_s: float
    ) -> tuple[RuledOut, ...]:
        """Add the estimates of all plans of which the floor is not above the time of one that was simulated; those of
        which it is are ruled out."""
        floors = {c.core: o.estimate.floor_s for c, o in outlines.items() if o.estimate is not None}
        others = [candidate for candidate in candidates if candidate not in outlines]
        out = [candidate for candidate in others if floors.get(candidate.core, 0.0) > fastest_s]
        ruled = set(out)
        outlines |= self._outlined([c for c in others if c not in ruled], "estimating the others")
        return tuple(RuledOut(candidate=candidate, floor_s=floors[candidate.core]) for candidate in out)

    def _outlined(self, candidates: Sequence[Candidate], what: str) -> dict[Candidate, PlanOutline]:
        groups: dict[tuple[object, ...], list[Candidate]] = {}
        for candidate in candidates:
            if self.known.get("outline", candidate.key) is None:
                groups.setdefault(_structure(candidate), []).append(candidate)
        total, known = len(candidates), len(candidates) - sum(map(len, groups.values()))
        works = sorted(groups.values(), key=lambda group: (-len(group), group[0].key))

        def record_results(number: int, results: list[PlanOutline]) -> None:
            nonlocal known
            keys = (candidate.key for candidate in works[number])
            self.known.add("outline", dict(zip(keys, map(plain, results), strict=True)))
            known += len(results)
            self.progress(what, known, total)

        self.progress(what, known, total)
        tasks: list[Task] = [("outline", [(c.table, TUNED) for c in group]) for group in works]
        self.workers.do(tasks, record_results)
        return {candidate: outline_of(self.known.get("outline", candidate.key) or {}) for candidate in candidates}

    def best(
        self, fitting: Sequence[TunedPlan], count: int, before: Sequence[TunedPlan]
    ) -> tuple[list[TunedPlan], tuple[TunedPlan, ...]]:
        """With those simulated `before`, the first plans by their estimates, simulated, until `count` of them fit,
        twice as many were tried, or no other is likely to be faster (`_next`); and those that do not fit. Where none of
        twice as many fits, the others follow, those that need least memory first, until one does."""
        kept = list(before)
        misfits: list[TunedPlan] = []
        rest = list(fitting)
        while rest and len(kept) < count:
            if len(kept) + len(misfits) >= 2 * count:
                if kept:
                    break
                rest.sort(key=lambda plan: (plan.estimate.peak_bytes, plan.candidate.key))
            now = _next(rest, kept)[: min(ROUND, count - len(kept))]
            if not now:
                break
            for plan in self._simulated(now, len(kept) + len(misfits), count):
                (kept if plan.peak_bytes <= plan.candidate.capacity_bytes else misfits).append(plan)
            rest = without(rest, now)
        return kept, tuple(misfits)

    def _simulated(self, plans: Sequence[TunedPlan], before: int, count: int) -> list[TunedPlan]:
        new = [plan for plan in plans if self.known.get("simulated", plan.candidate.key) is None]
        known = before + len(plans) - len(new)

        def record_results(number: int, results: list[SimulatedPlan | PlanFault]) -> None:
            nonlocal known
            self.known.add("simulated", {new[number].candidate.key: plain(results[0])})
            known += 1
            self.progress("simulating the best", known, max(count, before + len(plans)))

        tasks: list[Task] = [("simulate", [(p.candidate.table, TUNED)]) for p in new]
        self.progress("simulating the best", known, max(count, before + len(plans)))
        self.workers.do(tasks, record_results)
        out = []
        for plan in plans:
            simulated = simulated_of(self.known.get("simulated", plan.candidate.key) or {})
            if isinstance(simulated, PlanFault):
                self.faults[plan.candidate] = simulated.why
            else:
                out.append(replace(plan, simulated=simulated))
        return out

    def own(self, scenario: Scenario, batch: int) -> tuple[OwnPlan, ...]:
        """The scenario's own plans at this size."""
        out: dict[str, OwnPlan] = {}
        names = []
        for plan in scenario.plans:
            try:
                if plan in scenario.at(self.size).searches:
                    raise InputError("its options are searched for; simfrontier run decides them")
                samples = scenario.case(plan, self.size).samples
                if samples != batch:
                    raise InputError(f"its step has {samples:,} sequences")
                names.append(plan)
            except InputError as error:
                out[plan] = OwnPlan(name=plan, simulated=None, fits=False, why=error.below(("plans", plan)))
        new = [plan for plan in names if self.known.get("own", plan) is None]

        def record_results(number: int, results: list[SimulatedPlan | PlanFault]) -> None:
            self.known.add("own", {new[number]: plain(results[0])})
            self.progress("simulating the scenario's own", number + 1, len(new))

        self.workers.do([("own", [(plan,)]) for plan in new], record_results)
        for plan in names:
            simulated = simulated_of(self.known.get("own", plan) or {})
            if isinstance(simulated, PlanFault):
                out[plan] = OwnPlan(name=plan, simulated=None, fits=False, why=simulated.why)
            else:
                capacity = scenario.of(plan, self.size).machine.device.hbm_bytes
                out[plan] = OwnPlan(name=plan, simulated=simulated, fits=simulated.peak_bytes <= capacity)
        return tuple(out[plan] for plan in scenario.plans)

    def why(self, plans: Sequence[TunedPlan]) -> tuple[TimeSpent, str]:
        """Where the time of the best plan goes, and why it is faster than the next of another kind (other dimensions
        cut, or another family), or, where only one kind was simulated, than the next with another layout."""
        best = plans[0]
        simulated = [plan for plan in plans if plan.simulated is not None]
        others = [plan for plan in simulated if plan.candidate.kind != best.candidate.kind]
        others += [plan for plan in simulated if plan.candidate.layout != best.candidate.layout]
        chosen = [best, *others[:1]]
        known: dict[int, TimeSpent] = {}

        def record_results(number: int, results: list[TimeSpent]) -> None:
            known[number] = results[0]
            self.progress("checking the best", len(known), len(chosen))

        tasks: list[Task] = [("explained", [(p.candidate.table, TUNED, p is best)]) for p in chosen]
        self.workers.do(tasks, record_results)
        if not others:
            return known[0], ""
        return known[0], why_faster(known[0], known[1], others[0].candidate.name)


def _structure(candidate: Candidate) -> tuple[object, ...]:
    """What plans have in common whose small schedules are mostly the same."""
    case = candidate.case
    many = case.stages > 1 or case.grad_accum > 1
    return (
        candidate.family,
        case.mesh.live(case.mesh.names),
        candidate.states.name,
        candidate.checkpointing,
        bool(candidate.grid.get("sequence_parallel")),
        many,
    )
