"""Explaining a plan: where the time of its step goes, what makes it differ from others, and the simulation of every
change that might help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from simfrontier.analysis import TimeSpent, critical_path, differences, time_spent, who_waited, why_faster
from simfrontier.errors import InputError, SimfrontierError
from simfrontier.explanation.changes import RESCHEDULED, WhatIf, what_ifs
from simfrontier.explanation.explanation import DoesNotFitError, Explanation, PlanComparison, RankedPlan, TriedChange
from simfrontier.explanation.settings_text import setting_text
from simfrontier.explanation.waits import Waits, waits_of
from simfrontier.machine import Machine
from simfrontier.records import dataclass
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.schedule import digest
from simfrontier.simulation import Fidelity, SimulatedStep, fullest, step_note
from simfrontier.study import ScheduleCache, advice_on, shortage, simulated
from simfrontier.tuning import GridSearcher, decided, only
from simfrontier.units import written
from simfrontier.workers import HERE, PerProcess, Place, Workers, for_calls

Progress = Callable[[str, int], None]
_Try = tuple[WhatIf, Scenario]


def explain(
    scenario: Scenario,
    plan: str | None = None,
    *,
    devices: int | None = None,
    against: str | None = None,
    fidelity: Fidelity | None = None,
    what_if: bool = True,
    place: Place = HERE,
    progress: Progress = lambda _, __: None,
) -> Explanation:
    """Why a plan of a scenario takes as long as it does, and what would help, each answer a simulation of its own.

    Example, for a notebook::

        from simfrontier.explanation import explain
        from simfrontier.scenario import load_scenario

        scenario = load_scenario("scenarios/frontier-20b.toml")
        found = explain(scenario, "zero-topo", devices=384, against="zero3")
        found.frame()          # where the time goes by kind of op, axes and level; its seconds sum to found.step_s
        found.changes_frame()  # links twice as fast, overlaps, codecs: seconds saved by each
        found.against.sentence
        [(each.plan, each.next and each.next.sentence) for each in explain(scenario, devices=384).ranking]

    `plan`: by default the fastest of the scenario, and then `ranking` has every plan against the next best. `devices`:
    a size (default: the scenario's largest). `against`: another plan of the scenario, or a family by its name; by
    default the best of the scenario's other plans. `fidelity`: by default the scenario's. `what_if`: whether to
    simulate changes, at `place`. `progress` is called as each simulation ends, with a short text and how many
    there are in all.

    All times are in seconds, sizes in bytes. A plan that leaves options open is searched first, and what was found is
    kept in all changes. Plans that were not asked for by name and cannot run or do not fit are left out. Raises
    InputError for a plan, size or fidelity that cannot be, DoesNotFitError (or NothingFitsError of a search) where a
    plan does not fit into memory.
    """
    if plan is not None and against == plan:
        raise InputError(f"against: got {against!r}, the plan that is explained; allowed: another one")
    size, chosen = devices or max(scenario.file.run.devices), fidelity or scenario.file.run.fidelity
    runner = _Runner(scenario, size, chosen)
    names = [name for name in scenario.plans if name != against] if plan is None else [plan]
    ours = runner.fastest(names, lambda name: progress(name, len(names)) if plan is None else None)
    base, kept = runner.decided(ours.plan)
    tries = (
        _possible(base, ours.plan, size, what_ifs(base.of(ours.plan, size), ours.plan, ours.step)) if what_if else []
    )
    rest = [name for name in scenario.plans if name not in (*names, against)] if against is None else []
    total = len(names) + (against is not None) + len(rest) + len(tries)

    def report_progress(text: str) -> None:
        progress(text, total)

    if plan is not None:
        report_progress(plan)
    if against is not None:
        runner.run(against)
        report_progress(against)
    runner.each(rest, report_progress)
    others = runner.others(ours.plan) if against is None else [runner.timed[against]]
    mine = runner.timed[ours.plan]
    schedules = PerProcess(ScheduleCache, here=runner.searcher.schedule_cache)
    with Workers(for_calls(place, len(tries))) as workers:
        changes = _changes(ours, tries, workers, schedules, report_progress)
    return Explanation(
        title=scenario.file.title,
        scenario=scenario.name,
        plan=ours.plan,
        devices=size,
        fidelity=chosen,
        machine=scenario.machine.title,
        device_word=scenario.machine.device_word,
        step_s=ours.step.step_s,
        samples=ours.samples,
        time=mine.time,
        path=critical_path(ours.step),
        waits=_waits(ours.step, scenario.machine),
        note=step_note(ours.step),
        changes=changes,
        against=_compared(mine, others[0]) if others else None,
        ranking=_ranking([mine, *others]) if plan is None and against is None else (),
        left_out=tuple(runner.left_out.items()),
        given=scenario.settings,
        kept=tuple(setting_text(key, value) for key, value in kept.items()),
    )


def _waits(step: SimulatedStep, machine: Machine) -> Waits:
    device_of = step.cluster.fabric.device_of
    return waits_of(who_waited(step), device_of, machine.devices_per_node, machine.device_word)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SimulatedPlan:
    """A plan that was simulated at a size, with the digest of its schedule and what its fullest rank holds."""

    plan: str
    devices: int
    fidelity: Fidelity
    step: SimulatedStep
    digest: str
    peak_bytes: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimedPlan:
    """What is kept of a plan that is compared."""

    plan: str
    time: TimeSpent
    samples: int

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.time.step_s


class _Runner:
    """Plans of a scenario at a size, each searched and simulated when it is asked for; those that are only compared are
    `left_out` where they cannot run."""

    def __init__(self, scenario: Scenario, devices: int, fidelity: Fidelity) -> None:
        self.scenario, self.devices, self.fidelity = scenario, devices, fidelity
        self.searcher = GridSearcher()
        self.timed: dict[str, _TimedPlan] = {}
        self.left_out: dict[str, str] = {}

    def fastest(self, names: Sequence[str], done: Callable[[str], None]) -> _SimulatedPlan:
        """Of these plans; of one alone, that one. Raises the error of the first where none can run."""
        best: _SimulatedPlan | None = None
        errors = []
        for name in names:
            try:
                ran = self.run(name)
            except SimfrontierError as error:
                errors.append(error)
                self._leave_out(name, error)
            else:
                if best is None or self.timed[name].samples_per_s > self.timed[best.plan].samples_per_s:
                    best = ran
            done(name)
        if best is None:
            raise errors[0]
        return best

    def each(self, names: Sequence[str], done: Callable[[str], None]) -> None:
        """All of these plans that can run."""
        for name in names:
            try:
                self.run(name)
            except SimfrontierError as error:
                self._leave_out(name, error)
            done(name)

    def others(self, plan: str) -> list[_TimedPlan]:
        """All plans that ran but one, the fastest first."""
        known = [each for name, each in self.timed.items() if name != plan]
        return sorted(known, key=lambda each: -each.samples_per_s)

    def run(self, plan: str) -> _SimulatedPlan:
        """One plan. Raises InputError, and DoesNotFitError or NothingFitsError where it does not fit."""
        scenario, _ = self.decided(plan)
        ran = _run(scenario, plan, self.devices, self.fidelity, self.searcher.schedule_cache)
        self.timed[plan] = _TimedPlan(plan=plan, time=time_spent(ran.step), samples=ran.samples)
        return ran

    def decided(self, plan: str) -> tuple[Scenario, dict[str, Any]]:
        """The scenario with this plan alone, its search decided, and the setting that says so."""
        return decided(only(self.scenario, (plan,), self.devices), plan, self.devices, self.searcher)

    def _leave_out(self, plan: str, error: SimfrontierError) -> None:
        self.left_out[plan] = error.what if isinstance(error, InputError | DoesNotFitError) else str(error)


def _run(
    scenario: Scenario, plan: str, devices: int, fidelity: Fidelity, schedule_cache: ScheduleCache
) -> _SimulatedPlan:
    """Raises DoesNotFitError, too."""
    case = scenario.case(plan, devices)
    built = schedule_cache.of_case(scenario, case)
    step = simulated(scenario.of(plan, devices), built, fidelity)
    memory, capacity = fullest(step, built.peaks), int(step.cluster.machine.device.hbm_bytes)
    if memory.peak_bytes > capacity:
        need = shortage(memory.peak_bytes, capacity, memory.at_peak)
        parts = (f"does not fit into memory: {need}", *advice_on(scenario, case, memory.peak_bytes, memory.at_peak))
        raise DoesNotFitError(
            "; ".join(parts),
            where=f"{scenario.where}: plans.{plan}: at {devices} devices",
        )
    return _SimulatedPlan(
        plan=plan,
        devices=devices,
        fidelity=fidelity,
        step=step,
        digest=digest(built.schedule),
        peak_bytes=memory.peak_bytes,
        samples=case.samples,
    )


def _compared(ours: _TimedPlan, theirs: _TimedPlan) -> PlanComparison:
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


def _ranking(plans: Sequence[_TimedPlan]) -> tuple[RankedPlan, ...]:
    """Plans, the fastest first, each against the next."""
    return tuple(
        RankedPlan(
            plan=each.plan,
            time=each.time,
            samples=each.samples,
            next=None if after is None else _compared(each, after),
        )
        for each, after in zip_longest(plans, plans[1:])
    )


# ── what would help ──


def _possible(base: Scenario, plan: str, devices: int, tries: Iterator[WhatIf]) -> list[_Try]:
    """Those that make a scenario; what a library, machine or plan does not have is left out."""
    possible = []
    for each in tries:
        with suppress(InputError):
            possible.append((each, scenario_of(base.document, base.where, each.settings, (plan,), (devices,))))
    return possible


def _changes(
    ours: _SimulatedPlan,
    tries: Sequence[_Try],
    workers: Workers,
    schedules: PerProcess[ScheduleCache],
    text: Callable[[str], None],
) -> tuple[TriedChange, ...]:
    """What each change comes to; those that cannot be run, or leave the schedule as it is where they are to change it,
    are left out. What saves most comes first."""
    changes = []
    seen = set[str]()
    capacity = ours.step.cluster.machine.device.hbm_bytes
    given = (ours.plan, ours.devices, ours.fidelity, ours.digest)
    calls = ((given, each, scenario, schedules) for each, scenario in tries)
    for (each, _), ran in zip(tries, workers.in_order(_try, calls), strict=True):
        text(each.label)
        if ran is None or (each.kind in RESCHEDULED and ran[2] in seen):
            continue
        step_s, peak_bytes, digested = ran
        seen.add(digested)
        changes.append(_change(each, step_s, peak_bytes, ours.step.step_s, capacity))
    return tuple(sorted(changes, key=lambda change: -change.saved_s))


def _change(each: WhatIf, step_s: float, peak_bytes: int, before_s: float, capacity: float) -> TriedChange:
    saved_s = before_s - step_s
    fits = peak_bytes <= capacity
    big = "" if fits else f"does not fit: {written(peak_bytes, 'bytes')} of {written(int(capacity), 'bytes')}"
    return TriedChange(
        label=each.label,
        kind=each.kind,
        settings=tuple(setting_text(key, value) for key, value in each.settings.items()),
        step_s=step_s,
        saved_s=saved_s,
        share=saved_s / before_s,
        peak_bytes=peak_bytes,
        fits=fits,
        note="; ".join(part for part in (each.note, big) if part),
    )


_Told = tuple[str, int, Fidelity, str]  # plan, devices, fidelity, digest of the schedule without a change
_Result = tuple[float, int, str]  # step in seconds, bytes on the fullest rank, digest of the schedule


def _try(given: _Told, change: WhatIf, scenario: Scenario, schedules: PerProcess[ScheduleCache]) -> _Result | None:
    """None where the plan cannot be built, or the machine cannot run it, with the change, or where the schedule stays
    as it is and the change is to one of it."""
    plan, devices, fidelity, before = given
    try:
        built = schedules.here.of_case(scenario, scenario.case(plan, devices))
        digested = digest(built.schedule)
        if change.kind in RESCHEDULED and digested == before:
            return None
        step = simulated(scenario.of(plan, devices), built, fidelity)
    except SimfrontierError:
        return None
    return step.step_s, fullest(step, built.peaks).peak_bytes, digested
