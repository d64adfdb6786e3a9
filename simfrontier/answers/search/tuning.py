"""Tuning: the best plan for a model, a batch and a number of devices. All plans of the space are estimated and the best
are simulated; `Runner` decides which, in which order, and when there are enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from simfrontier.answers.search.evaluator import AS_JSON, PlanEvaluator, PlanResult
from simfrontier.answers.search.grids import NothingFitsError
from simfrontier.answers.search.nothing_fits import refuse_empty
from simfrontier.answers.search.outcome import OwnPlan, RuledOut, TunedPlan, TuningOutcome
from simfrontier.answers.search.pins import LossyPolicy, Pins, Value, pins_of
from simfrontier.answers.search.space import Candidate, Space
from simfrontier.answers.step import TimeSpent, why_faster
from simfrontier.answers.study import STORE, Digests, ResultStore, Setting, digest_of, neighbour_of, store_in
from simfrontier.base.errors import InputError
from simfrontier.base.workers import HERE, LostError, PerProcess, Place, Workers
from simfrontier.core.engine import refuse_unknown
from simfrontier.inputs.scenario import Scenario, scenario_of

LISTED = 4  # that are simulated even where no other is likely to be faster, if their floors do not rule them out
ROUND = 4  # simulated at a time: what they say of the others does not depend on the number of processes
MARGIN = 0.05  # by which estimates may be off more than any that was seen
Progress = Callable[[str, int, int], None]
Work = Callable[[PlanEvaluator, Any], Any]


def fitting_of(outlines: Mapping[Candidate, PlanResult]) -> list[TunedPlan]:
    """Return the plans that may fit, the fastest first."""
    fitting = [
        TunedPlan(candidate=candidate, estimate=outline.estimate)
        for candidate, outline in outlines.items()
        if outline.estimate is not None and not outline.is_too_big(candidate.capacity_bytes)
    ]
    return sorted(fitting, key=lambda plan: (plan.estimate.step_s, plan.candidate.key))


def without(plans: Sequence[TunedPlan], known: Sequence[TunedPlan]) -> list[TunedPlan]:
    """Return the plans that are not in `known`."""
    keys = {plan.candidate.key for plan in known}
    return [plan for plan in plans if plan.candidate.key not in keys]


def ordered(kept: list[TunedPlan], fitting: list[TunedPlan], misfits: Sequence[TunedPlan]) -> tuple[TunedPlan, ...]:
    """Return the simulated plans, the fastest first, followed by the estimated plans, the fastest first."""
    fastest = sorted(kept, key=lambda plan: (plan.step_s, plan.candidate.key))
    return (*fastest, *without(fitting, [*kept, *misfits]))


def _next(rest: Sequence[TunedPlan], kept: Sequence[TunedPlan]) -> list[TunedPlan]:
    """Return the plans, among those not yet simulated, that are worth a simulation: all of them as long as no simulated
    plan fits (`kept` is empty); then those whose lower bound is at most the fastest simulated time and whose estimate
    would make them the fastest if it were off by `MARGIN` more than the largest error observed so far.
    """
    if not kept:
        return [*rest]
    fastest = min(plan.nominal_s for plan in kept)
    able = [plan for plan in rest if plan.estimate.floor_s <= fastest]
    if len(kept) < LISTED:
        return able[: LISTED - len(kept)]
    lowest = min(plan.nominal_s / plan.estimate.step_s for plan in kept)
    return [plan for plan in able if plan.estimate.step_s * (lowest - MARGIN) <= fastest]


class Runner:
    """Estimates and simulates plans on workers, with one `evaluator` per worker, and keeps the results in a store."""

    def __init__(
        self, evaluator: PerProcess[PlanEvaluator], workers: Workers, store: ResultStore, progress: Progress
    ) -> None:
        self.evaluator, self.workers, self.store, self.progress = evaluator, workers, store, progress
        self.faults: dict[Candidate, str] = {}  # why plans could not be simulated

    def _results(
        self, work: Work, groups: Sequence[Mapping[str, Any]], stage: str, before: int = 0, count: int = 0
    ) -> list[PlanResult]:
        """Return the results of `work` for groups of arguments by key. Results that are not in the store are computed
        by the workers, one group at a time. `before`: number of items of the stage already done; `count`: expected
        number, at least.
        """
        asked = [{f"{work.__name__} {key}": given for key, given in group.items()} for group in groups]
        keys = [key for group in asked for key in group]
        missing = [{key: given for key, given in group.items() if key not in self.store} for group in asked]
        missing = [group for group in missing if group]
        done, total = before + len(keys) - sum(map(len, missing)), max(count, before + len(keys))
        self.progress(stage, done, total)
        calls = ((self.evaluator, work, [*group.values()]) for group in missing)
        for number, results in self.workers.as_done(_work, calls):
            self.store.add(dict(zip(missing[number], map(AS_JSON.dump_python, results), strict=True)))
            done += len(results)
            self.progress(stage, done, total)
        return [AS_JSON.validate_python(self.store.get(key)) for key in keys]

    def first_outlines(self, candidates: Sequence[Candidate]) -> dict[Candidate, PlanResult]:
        """Return the estimates of one plan per core (grid, micro-batch, checkpointing), the one that needs least
        memory; all plans of a core have the same lower bound.
        """
        leanest: dict[tuple[object, ...], Candidate] = {}
        for candidate in candidates:
            known = leanest.get(candidate.core)
            if known is None or candidate.states.spread > known.states.spread:
                leanest[candidate.core] = candidate
        return self._outlined(list(leanest.values()), "estimating one plan per grid")

    def rest_of_outlines(
        self, candidates: Sequence[Candidate], outlines: dict[Candidate, PlanResult], fastest_s: float
    ) -> tuple[RuledOut, ...]:
        """Estimate all remaining plans whose lower bound is at most the fastest simulated time and add them to
        `outlines`; return the other plans as ruled out.
        """
        floors = {c.core: o.estimate.floor_s for c, o in outlines.items() if o.estimate is not None}
        others = [candidate for candidate in candidates if candidate not in outlines]
        out = [candidate for candidate in others if floors.get(candidate.core, 0.0) > fastest_s]
        ruled = set(out)
        outlines |= self._outlined([c for c in others if c not in ruled], "estimating the others")
        return tuple(RuledOut(candidate=candidate, floor_s=floors[candidate.core]) for candidate in out)

    def _outlined(self, candidates: Sequence[Candidate], stage: str) -> dict[Candidate, PlanResult]:
        groups: dict[tuple[object, ...], list[Candidate]] = {}
        for candidate in candidates:
            groups.setdefault(_structure(candidate), []).append(candidate)
        ordered = sorted(groups.values(), key=lambda group: (-len(group), group[0].key))
        given = [{candidate.key: candidate.table for candidate in group} for group in ordered]
        known = self._results(PlanEvaluator.outline, given, stage)
        found = dict(zip((each for group in ordered for each in group), known, strict=True))
        return {candidate: found[candidate] for candidate in candidates}

    def best(
        self, fitting: Sequence[TunedPlan], count: int, before: Sequence[TunedPlan]
    ) -> tuple[list[TunedPlan], tuple[TunedPlan, ...]]:
        """Simulate plans in the order of their estimates, after those simulated `before`, until `count` of them fit,
        twice as many were tried, or no other plan is likely to be faster (`_next`); return the plans that fit and those
        that do not. If none of twice as many fits, continue with the plans that need least memory, until one fits.
        """
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
        given = [{plan.candidate.key: plan.candidate.table} for plan in plans]
        out = []
        known = self._results(PlanEvaluator.simulate, given, "simulating the best", before, count)
        for plan, result in zip(plans, known, strict=True):
            if result.simulated is None:
                self.faults[plan.candidate] = result.fault
            else:
                out.append(replace(plan, simulated=result.simulated))
        return out

    def own(self, scenario: Scenario, size: int, batch: int) -> tuple[OwnPlan, ...]:
        """Simulate the scenario's own plans at a size."""
        whys = {plan: _why_not(scenario, plan, size, batch) for plan in scenario.plans}
        able = [plan for plan, why in whys.items() if not why]
        known = self._results(PlanEvaluator.own, [{plan: plan} for plan in able], "simulating the scenario's own")
        results = {plan: PlanResult(fault=why) for plan, why in whys.items()} | dict(zip(able, known, strict=True))
        out = []
        for plan, result in results.items():
            done, capacity = result.simulated, scenario.of(plan, size).machine.device.hbm_bytes
            fits = done is not None and done.peak_bytes <= capacity
            out.append(OwnPlan(name=plan, simulated=done, fits=fits, why=result.fault))
        return tuple(out)

    def why(self, plans: Sequence[TunedPlan]) -> tuple[TimeSpent, str]:
        """Return the breakdown of the best plan's step time, and why it is faster than the next plan of another kind
        (other grid dimensions, or another family) or, if only one kind was simulated, than the next plan with another
        layout.
        """
        best = plans[0]
        simulated = [plan for plan in plans if plan.simulated is not None]
        others = [plan for plan in simulated if plan.candidate.kind != best.candidate.kind]
        others += [plan for plan in simulated if plan.candidate.layout != best.candidate.layout]
        chosen = [best, *others[:1]]
        calls = ((self.evaluator, PlanEvaluator.time_spent, [plan.candidate.table]) for plan in chosen)
        spent: list[TimeSpent] = []
        for number, results in enumerate(self.workers.in_order(_work, calls), start=1):
            spent += results
            self.progress("explaining the best", number, len(chosen))
        return spent[0], why_faster(spent[0], spent[1], others[0].candidate.name) if others else ""


def _why_not(scenario: Scenario, plan: str, size: int, batch: int) -> str:
    """Return why a plan of the scenario cannot be compared at a size; "" if it can."""
    try:
        if plan in scenario.at(size).searches:
            return "its options are searched for; simfrontier run decides them"
        samples = scenario.case(plan, size).samples
    except InputError as error:
        return error.below(("plans", plan))
    return "" if samples == batch else f"its step has {samples:,} sequences"


def _work(evaluator: PerProcess[PlanEvaluator], work: Work, given: Sequence[Any]) -> list[Any]:
    return [work(evaluator.here, each) for each in given]


def _structure(candidate: Candidate) -> tuple[object, ...]:
    """Return a key shared by plans whose small schedules are mostly the same."""
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


SHARE_SIMULATED = 0.05  # of the plans that fit
FEWEST_SIMULATED, MOST_SIMULATED = 5, 20
FIRST_SIMULATED = 2  # of one plan per grid


def tune(
    scenario: Scenario,
    *,
    devices: int | None = None,
    pins: Mapping[str, Value | Sequence[Value]] | None = None,
    lossy: bool | None = None,
    max_error: float | None = None,
    simulate: int | None = None,
    place: Place = HERE,
    folder: Path | None = None,
    progress: Progress = lambda *_: None,
    finish: Callable[[TuningOutcome], None] = lambda _: None,
) -> TuningOutcome:
    """Find the best plans for a scenario's machine, model and batch on `devices` devices (by default its largest size).

    Every plan of the space (`Space`) is estimated without contention; those that do not fit into memory are dropped;
    the best are simulated, at most `simulate` of them (by default 5 % of those that fit, at least 5, at most 20), and
    only as long as another may be faster; so are the scenario's own plans. All have the same batch: `training.batch`,
    or the batch that follows from micro-batch and accumulation of the scenario's first plan.

    pins        values to which dimensions are fixed, e.g. {"tensor": 8, "checkpointing": "full"}, in addition to those
                of the scenario's table `tune.pin`
    lossy       whether lossy codecs are allowed (default: as `tune.lossy` says)
    max_error   the largest error bound of a coded value, relative to the largest value coded together with it: any
                codec and compression policy within it may be chosen (default: as `tune.max_error` says)
    place       where plans are estimated and simulated, e.g. workers.Local(jobs=2); the outcome is the same everywhere
    folder      where an interrupted search leaves its results, from which the next call continues
    progress    called with the current phase, the number of items done, and the number of all items
    finish      called with the outcome before the search's files in `folder` are removed; they stay if it raises

    Raises InputError for pins that are unknown or do not divide, NothingFitsError if no plan fits; both messages say
    what would help.

    >>> from simfrontier.inputs.scenario import load_scenario
    >>> from simfrontier.answers.search import tune
    >>> found = tune(load_scenario("scenarios/toy.toml"), devices=8)
    >>> found.best.candidate.name, found.why, found.frame()
    """
    size = max(scenario.file.run.devices) if devices is None else devices
    here = scenario.at(size)
    table = here.file.tune
    _refuse_unsearchable(here)
    held = Pins({**pins_of(table.pin).values, **pins_of(pins or {}, ("pins",)).values})
    bound = table.max_error if max_error is None else max_error
    if bound is not None and not 0.0 <= bound < 1.0:
        raise InputError(f"max_error: got {bound:g}; allowed: 0 to below 1")
    loss = LossyPolicy(table.lossy if lossy is None else lossy, bound)
    loss.refuse(held)
    wanted = table.simulate if simulate is None else simulate
    batch = batch_of(scenario, size)
    prepared = with_batch(scenario, size, batch)
    wrong = prepared.file.perturbation  # what no plan can be simulated with is no fault of a plan's
    try:
        refuse_unknown(
            prepared.file.run.fidelity, len(wrong.states(0)), wrong.calls_differ, neighbour_of(prepared, size)
        )
    except InputError as error:
        raise error.within(scenario.where) from None
    space = Space(prepared, size, batch, held, loss)
    digest = _digest(prepared, scenario, size, held, loss)
    with _resumed(folder, digest) as store:
        with Workers(place) as workers:
            runner = Runner(PerProcess(PlanEvaluator, prepared, scenario, size), workers, store, progress)
            outcome = _searched(scenario, space, wanted, runner)
        finish(outcome)
    return outcome


def _searched(scenario: Scenario, space: Space, wanted: int | None, runner: Runner) -> TuningOutcome:
    """Search a space: first one plan of each grid, of which two are simulated, so that their times rule out other
    plans.
    """
    candidates = list(space.candidates())
    outlines = runner.first_outlines(candidates)
    first = 0 if wanted is not None and wanted <= FIRST_SIMULATED else FIRST_SIMULATED
    ahead, misfits = runner.best(fitting_of(outlines), first, [])
    fastest = min((plan.nominal_s for plan in ahead), default=math.inf)
    passed_over = runner.rest_of_outlines(candidates, outlines, fastest)
    fitting = fitting_of(outlines)
    count = wanted or min(MOST_SIMULATED, max(FEWEST_SIMULATED, int(SHARE_SIMULATED * len(fitting))))
    kept, more = runner.best(without(fitting, [*ahead, *misfits]), count, ahead)
    misfits = (*misfits, *more)
    if not kept:
        refuse_empty(space, outlines, misfits, runner.faults)
    running = [plan for plan in fitting if plan.candidate not in runner.faults]
    plans = ordered(kept, running, misfits)
    own = runner.own(scenario, space.size, space.batch)
    spent, why = runner.why(plans)
    return TuningOutcome(
        scenario=scenario,
        devices=space.size,
        batch=space.batch,
        pins=space.pins,
        loss=space.loss,
        plans=plans,
        passed_over=passed_over,
        own=own,
        total=len(candidates),
        too_big=sum(outline.is_too_big(candidate.capacity_bytes) for candidate, outline in outlines.items()),
        faulty=sum(bool(outline.fault) for outline in outlines.values()) + len(runner.faults),
        misfits=misfits,
        why=why,
        time=spent,
    )


@contextmanager
def _resumed(folder: Path | None, digest: str) -> Iterator[ResultStore]:
    """Open the store of a search. It stays in the folder if the search is interrupted, and is removed when the search
    ends with its best plans or with the result that there are none.
    """
    with store_in(folder, f"search {digest[:12]}") as store:
        try:
            yield store
        except LostError as error:
            raise type(error)(f"{error}; {STORE} has what is done: the same command resumes") from None
        except NothingFitsError:
            store.is_done_with = True
            raise
        store.is_done_with = True


def _refuse_unsearchable(here: Scenario) -> None:
    """Raise InputError for a model that allows only one plan, and for a fidelity that searches do not support."""
    if here.shape.families:
        families = " or ".join(here.shape.families)
        raise InputError(
            f"{here.where}: model {here.shape.name}: is trained by {families} only, so there is nothing to search; "
            "allowed in a search: a GPT or an MLP"
        )
    if here.file.run.fidelity == "chunk":
        raise InputError(f"{here.where}: run.fidelity: got 'chunk'; allowed in a search: flow, analytic")


def batch_of(scenario: Scenario, size: int) -> int:
    """Return the sequences per step over all devices, as the scenario states or as they follow from its first plan that
    can run.
    """
    here = scenario.at(size)
    training = here.file.training
    if training.sequences is not None:
        return training.sequences
    for plan in scenario.plans:
        if plan not in here.searches:
            try:
                return scenario.case(plan, size).samples
            except InputError:
                continue
    return training.about(here.sequence) or training.micro_batch * training.grad_accum * size


def with_batch(scenario: Scenario, size: int, batch: int) -> Scenario:
    """Return the scenario with the given batch at a size, with plans that state how they divide the batch."""
    settings = {"training.batch": batch, "training.micro_batch": 1, "training.grad_accum": 1}
    return scenario_of(scenario.document, scenario.where, settings, devices=(size,), laid_out=False)


def _digest(prepared: Scenario, original: Scenario, size: int, pins: Pins, loss: LossyPolicy) -> str:
    """Return the digest of all inputs on which the results of a search depend."""
    digests = Digests()
    scenarios = (Setting(document=each.document, where=each.where, changes={}) for each in (prepared, original))
    held = [dict(pins.values), loss.lossy, loss.max_error]
    return digest_of([*map(digests.of, scenarios), size, *held])
