"""Explain a plan: the breakdown of its step time, the differences from other plans, and the simulation of every change
that might help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from math import inf
from typing import Any

from simfrontier.answers.accuracy import JobFacts, run_named
from simfrontier.answers.explain.changes import Change, setting_text, what_ifs
from simfrontier.answers.explain.explanation import (
    DoesNotFitError,
    Explanation,
    PlanComparison,
    RankedPlan,
    TriedChange,
    waits_of,
)
from simfrontier.answers.explain.job_groups import own_job_groups
from simfrontier.answers.explain.published import against_published, names_runs
from simfrontier.answers.search import GridSearcher, decided, only
from simfrontier.answers.step import critical_path, differences, time_spent, who_waited, why_faster
from simfrontier.answers.study import ScheduleCache, SimulatedCase, advice_on, shortage
from simfrontier.base.errors import InputError, SimfrontierError, wrong
from simfrontier.base.units import written
from simfrontier.base.workers import HERE, PerProcess, Place, Workers, for_calls
from simfrontier.core.engine import Fidelity, step_note
from simfrontier.inputs.scenario import Scenario, scenario_of

Progress = Callable[[str, int], None]


def explain(
    scenario: Scenario,
    plan: str | None = None,
    *,
    devices: int | None = None,
    against: str | None = None,
    measured: float | None = None,
    fidelity: Fidelity | None = None,
    what_if: bool = True,
    place: Place = HERE,
    progress: Progress = lambda _, __: None,
) -> Explanation:
    """Explain why a plan of a scenario takes as long as it does, and what would help, each answer a simulation of its
    own.

    `plan`: by default the fastest of the scenario, and then `ranking` has every plan against the next best. `devices`:
    a size (default: the scenario's largest). `against`: another plan of the scenario, or a family by its name; by
    default the best of the scenario's other plans; or "runs": the nearest published run, or a published run by its name
    ("end_to_end.csv line 2"), beside your own `measured` tokens per second and device, if you have them. `fidelity`: by
    default the scenario's. `what_if`: whether to simulate changes, at `place`. `progress` is called as each simulation
    ends, with a short text and how many there are in all.

    All times are in seconds, sizes in bytes. A plan that leaves options open is searched first, and what was found is
    kept in all changes. Plans that were not asked for by name and cannot run or do not fit are left out. Raises
    InputError for a plan, size or fidelity that cannot be, DoesNotFitError (or NothingFitsError of a search) where a
    plan does not fit into memory.
    """
    if plan is not None and against == plan:
        raise InputError(f"against: got {against!r}, the plan that is explained; allowed: another one")
    run = against if names_runs(against, scenario.plans) else None
    if run is not None:
        against = None
    elif measured is not None:
        raise InputError("measured: is compared with published runs; allowed: beside against = runs")
    if measured is not None and not 0.0 < measured < inf:
        raise InputError(wrong(measured, "tokens per second and device, above 0"), where="measured")
    size, chosen = devices or max(scenario.file.run.devices), fidelity or scenario.file.run.fidelity
    plans = _Plans(scenario, size, chosen)
    names = [name for name in scenario.plans if name != against] if plan is None else [plan]
    ours = plans.run_each(names, lambda name: progress(name, len(names)) if plan is None else None)
    if ours is None:
        raise plans.errors[names[0]]
    mine = plans.timed[ours.case.name]
    tries = list(_possible(ours)) if what_if else []
    rest = [name for name in scenario.plans if name not in names] if against is None and run is None else []
    total = len(names) + len({against, run} - {None}) + len(rest) + len(tries)

    def report_progress(text: str) -> None:
        progress(text, total)

    if plan is not None:
        report_progress(plan)
    if against is not None:
        plans.run(against)
        report_progress(against)
    published = None
    if run is not None:
        job = own_job_groups(ours.scenario, mine.plan, size)
        _refuse_above_peak(measured, ours.scenario, job.facts)
        published = against_published(job, run_named(run), measured)
        report_progress(published.run)
    plans.run_each(rest, report_progress)
    others = plans.others(mine.plan) if against is None else [plans.timed[against]]
    schedules = PerProcess(ScheduleCache, here=plans.searcher.schedule_cache)
    with Workers(for_calls(place, len(tries))) as workers:
        changes = _changes(ours, tries, chosen, workers, schedules, report_progress)
    return Explanation(
        title=scenario.file.title,
        scenario=scenario.name,
        plan=mine.plan,
        devices=size,
        fidelity=chosen,
        machine=scenario.machine.title,
        device_word=scenario.machine.device_word,
        step_s=ours.step.step_s,
        samples=mine.samples,
        time=mine.time,
        path=critical_path(ours.step),
        waits=waits_of(who_waited(ours.step), ours.step.pricing.fabric.device_of, scenario.machine),
        note=step_note(ours.step),
        changes=changes,
        against=_compared(mine, others[0]) if others else None,
        ranking=_ranking([mine, *others]) if plan is None and against is None else (),
        left_out=tuple((name, _reason(error)) for name, error in plans.errors.items()),
        given=scenario.settings,
        kept=tuple(setting_text(key, value) for key, value in plans.kept[mine.plan].items()),
        published=published,
    )


def _refuse_above_peak(measured: float | None, scenario: Scenario, job: JobFacts) -> None:
    """Raise InputError for measured tokens per second of a device that are more than its peak allows."""
    most = scenario.machine.matmul(job.precision).peak_flops_per_s / (job.token_gflops * 1e9)
    if measured is not None and measured > most:
        allowed = f"tokens per second and device, not of the job: at its peak a device reaches {most:,.0f}"
        raise InputError(wrong(measured, allowed), where="measured")


def _reason(error: SimfrontierError) -> str:
    """Return why a plan is left out."""
    return error.what if isinstance(error, InputError | DoesNotFitError) else str(error)


class _Plans:
    """Plans of a scenario at a size, each searched and simulated on demand: `timed`: the plans that ran; `kept`:
    settings that express the results of searches; `errors`: of plans that cannot run.
    """

    def __init__(self, scenario: Scenario, devices: int, fidelity: Fidelity) -> None:
        self.scenario, self.devices, self.fidelity = scenario, devices, fidelity
        self.searcher = GridSearcher()
        self.timed: dict[str, RankedPlan] = {}
        self.kept: dict[str, dict[str, Any]] = {}
        self.errors: dict[str, SimfrontierError] = {}

    def run_each(self, names: Sequence[str], done: Callable[[str], None]) -> SimulatedCase | None:
        """Simulate all of these plans that can run, and return the fastest of them."""
        best: SimulatedCase | None = None
        for name in names:
            try:
                ran = self.run(name)
            except SimfrontierError as error:
                self.errors[name] = error
            else:
                if best is None or self.timed[name].samples_per_s > self.timed[best.case.name].samples_per_s:
                    best = ran
            done(name)
        return best

    def others(self, plan: str) -> list[RankedPlan]:
        """Return all plans that ran, except the given one, the fastest first."""
        known = [each for name, each in self.timed.items() if name != plan]
        return sorted(known, key=lambda each: -each.samples_per_s)

    def run(self, plan: str) -> SimulatedCase:
        """Decide the search of a plan and simulate it. Raises InputError, and DoesNotFitError or NothingFitsError if it
        does not fit into memory.
        """
        alone = only(self.scenario, (plan,), self.devices)
        scenario, kept = decided(alone, plan, self.devices, self.searcher)
        ran = SimulatedCase.of(scenario, plan, self.devices, self.fidelity, self.searcher.schedule_cache)
        if not ran.fits:
            raise _does_not_fit(ran)
        self.kept[plan] = kept
        self.timed[plan] = RankedPlan(plan=plan, time=time_spent(ran.step), samples=ran.case.samples)
        return ran


def _does_not_fit(ran: SimulatedCase) -> DoesNotFitError:
    need, at_peak = ran.memory.peak_bytes, ran.memory.at_peak
    why = shortage(need, ran.capacity_bytes, at_peak)
    return DoesNotFitError(
        "; ".join((f"does not fit into memory: {why}", *advice_on(ran.scenario, ran.case, need, at_peak))),
        where=f"{ran.scenario.where}: plans.{ran.case.name}: at {ran.case.devices} devices",
    )


def _compared(ours: RankedPlan, theirs: RankedPlan) -> PlanComparison:
    sentence = why_faster(ours.time, theirs.time, theirs.plan)
    if ours.samples != theirs.samples:
        sentence += f" (a step of {theirs.plan} has {theirs.samples:,} sequences, not {ours.samples:,})"
    return PlanComparison(
        plan=theirs.plan,
        time=theirs.time,
        differences=differences(ours.time, theirs.time),
        sentence=sentence,
        samples=theirs.samples,
    )


def _ranking(plans: Sequence[RankedPlan]) -> tuple[RankedPlan, ...]:
    """Rank the plans, the fastest first, each compared with the next."""
    return tuple(
        each if after is None else replace(each, next=_compared(each, after))
        for each, after in zip_longest(plans, plans[1:])
    )


# ── what would help ──


def _possible(ours: SimulatedCase) -> Iterator[tuple[Change, Scenario]]:
    """Yield each change that gives a valid scenario, with that scenario; changes of things that the library, machine or
    plan does not have are left out.
    """
    base, plan, devices = ours.scenario, ours.case.name, ours.case.devices
    for each in what_ifs(ours.here, plan, ours.step):
        with suppress(InputError):
            yield each, scenario_of(base.document, base.where, each.settings, (plan,), (devices,))


def _changes(
    ours: SimulatedCase,
    tries: Sequence[tuple[Change, Scenario]],
    fidelity: Fidelity,
    workers: Workers,
    schedules: PerProcess[ScheduleCache],
    done: Callable[[str], None],
) -> tuple[TriedChange, ...]:
    """Simulate each change and return the results, the largest saving first. Changes that cannot be run, and schedule
    changes that leave the schedule as it is, are left out.
    """
    changes = []
    seen = {ours.built.digest}
    calls = ((scenario, ours.case.name, ours.case.devices, fidelity, schedules) for _, scenario in tries)
    for (each, _), ran in zip(tries, workers.in_order(_with_change, calls), strict=True):
        done(each.label)
        if ran is not None and not (each.is_of_schedule and ran[2] in seen):
            seen.add(ran[2])
            changes.append(_change(each, ran[0], ran[1], ours))
    return tuple(sorted(changes, key=lambda change: -change.saved_s))


def _with_change(
    scenario: Scenario,
    plan: str,
    devices: int,
    fidelity: Fidelity,
    schedules: PerProcess[ScheduleCache],
) -> tuple[float, int, str] | None:
    """Return, for the changed scenario, the seconds of the nominal step, bytes on the fullest rank and the schedule's
    digest; None if the plan cannot be built or the machine cannot run it.
    """
    try:
        ran = SimulatedCase.of(scenario, plan, devices, fidelity, schedules.here)
    except SimfrontierError:
        return None
    return ran.step.step_s, ran.memory.peak_bytes, ran.built.digest


def _change(each: Change, step_s: float, peak_bytes: int, ours: SimulatedCase) -> TriedChange:
    before_s, capacity = ours.step.step_s, ours.capacity_bytes
    fits = peak_bytes <= capacity
    big = "" if fits else f"does not fit: {written(peak_bytes, 'bytes')} of {written(int(capacity), 'bytes')}"
    return TriedChange(
        label=each.label,
        kind=each.kind,
        settings=tuple(setting_text(key, value) for key, value in each.settings.items()),
        step_s=step_s,
        saved_s=before_s - step_s,
        share=(before_s - step_s) / before_s,
        peak_bytes=peak_bytes,
        fits=fits,
        note="; ".join(part for part in (each.note, big) if part),
    )
