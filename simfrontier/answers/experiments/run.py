"""Simulate settings and return rows: the plans of each setting at its sizes, or the reasons why they were refused.
Settings that differ only in numbers of the machine or library may be answered by repricing (replaying) one simulated
step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np

from simfrontier.answers.search import GridSearcher, NothingFitsError
from simfrontier.answers.study import (
    Answers,
    PlanOutcome,
    ResultStore,
    ScheduleCache,
    WhatIfs,
    completed,
    outcome_of,
    run_case,
)
from simfrontier.answers.study.settings import Digests, Keyed, Setting, alike, batches_of, is_number
from simfrontier.base.errors import SimfrontierError
from simfrontier.base.io import frozen
from simfrontier.base.workers import HERE, PerProcess, Workers
from simfrontier.core.engine import REPLAY_LARGEST_ERROR, REPLAY_MEAN_ERROR, Fidelity
from simfrontier.inputs.scenario import COMPARING, Scenario

Row: TypeAlias = dict[str, Any]  # the columns of results, None where it has none; and `error`, why it was refused
MOST_SCHEDULES: Final = 256  # that a process keeps for the settings to come: those of many plans and candidates
MOST_OUTCOMES: Final = 512
NO_SAY: Final = ("title", "plans", *COMPARING, "goodput", "tune")  # tables that a plan's row does not depend on


@dataclass
class RowRunner:
    """Simulates settings one after the other, reusing what they share: schedules, and plans that a change does not
    affect.
    """

    searcher: GridSearcher = field(default_factory=GridSearcher)
    outcomes: dict[Hashable, PlanOutcome] = field(default_factory=dict)

    @property
    def schedule_cache(self) -> ScheduleCache:
        return self.searcher.schedule_cache

    def rows_of(self, setting: Setting) -> list[Row]:
        """Return the rows of a setting, in the order of its plans, then sizes. If the simulator refuses a plan at a
        size, or the whole setting, the row has the reason in `error`.
        """
        if len(self.schedule_cache.known) > MOST_SCHEDULES:
            self.schedule_cache.known.clear()
        try:
            scenario = setting.scenario()
        except SimfrontierError as error:
            return [{"scenario": str(setting.document.get("name")), "error": _told(error, setting.where)}]
        fidelity: Fidelity = setting.fidelity or scenario.file.run.fidelity  # type: ignore[assignment]
        outcomes: list[PlanOutcome] = []
        rows: list[Row] = []
        for plan in setting.plans or scenario.plans:
            for devices in scenario.file.run.devices:
                made = self._outcome(scenario, plan, devices, fidelity)
                if isinstance(made, PlanOutcome):
                    outcomes.append(made)
                    rows.append(made.row)
                else:
                    rows.append({"scenario": scenario.name, "plan": plan, "devices": devices, **made})
        completed(scenario, outcomes)  # which fills in the outcomes' rows
        return [{column: None if cell == "" else cell for column, cell in row.items()} for row in rows]

    def _outcome(self, scenario: Scenario, plan: str, devices: int, fidelity: Fidelity) -> PlanOutcome | Row:
        """Return the outcome of a plan at a size, whose row the caller may modify; or the row columns of a refused
        plan.
        """
        try:
            key = _key(scenario, plan, devices, fidelity)
            made = self.outcomes.get(key)
            if made is None:
                decided = self.searcher.resolved(scenario, (devices,), (plan,))
                made = run_case(decided, plan, devices, fidelity, False, False, self.schedule_cache)
                if len(self.outcomes) > MOST_OUTCOMES:
                    self.outcomes.clear()
                self.outcomes[key] = made
        except NothingFitsError as error:
            return {"fits": False, "note": _told(error, scenario.where)}
        except SimfrontierError as error:
            return {"error": _told(error, scenario.where)}
        return replace(made, row=dict(made.row))


def _key(scenario: Scenario, plan: str, devices: int, fidelity: Fidelity) -> Hashable:
    """Return all inputs that the outcome of a plan at a size may depend on."""
    here = scenario.at(devices)
    search = here.searches.get(plan)
    return (
        *(plan, devices, fidelity, here.plans[plan], here.shared_batch(devices)),
        None if search is None else frozen(search.model_dump()),
        frozen(here.file.model_dump(exclude={**dict.fromkeys(NO_SAY, True), "run": {"devices"}, "at": True})),
    )


def _told(error: SimfrontierError, where: str) -> str:
    """Return the text of an error without the path of the scenario's file, which differs between machines."""
    return str(error).replace(f"{where}: ", "")


FEWEST: Final = 24  # settings of a question: fewer take no time worth an error
MOST: Final = 4096  # settings of a question
MOST_CONFIRMED: Final = 8  # settings of a question that are simulated because they seem to be the fastest of a plan
NOT_REPLAYED: Final = ("machine.overrides.device.hbm_bytes",)  # which decides what fits
REPLAY: Final = "replay"  # the fidelity of a row that was not simulated
OFF_BY: Final = (
    f"off by {100 * REPLAY_MEAN_ERROR:.1f} % on average and {100 * REPLAY_LARGEST_ERROR:.0f} % at most "
    "where that was measured"
)
STEP: Final = "step_time_s"
PER_STEP: Final = ("tflops_per_device", "tokens_per_s", "tokens_per_s_per_device")
KEPT: Final = (
    *("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "fits", "schedule_digest", "mesh", "stack"),
)
REPLAYED: Final = (*KEPT, STEP, *PER_STEP)  # columns that a replayed row has; all else takes a simulated step


def is_varied(key: str, value: Any) -> bool:
    """Return whether settings that differ only in this key may be answered together, from one simulated step."""
    return is_number(key, value) and key not in NOT_REPLAYED


def questions(settings: Iterable[Keyed]) -> list[tuple[Keyed, ...]]:
    """Return groups of settings that differ only in numbers of the machine or library, in order, with at most `MOST`
    settings per group.
    """
    groups = alike(settings, is_varied)
    return [tuple(group[first : first + MOST]) for group in groups for first in range(0, len(group), MOST)]


def question_digests(settings: Sequence[Keyed]) -> list[str]:
    """Return the digests of replayed settings: each depends on all settings of the group that is answered together."""
    digests: dict[str, str] = {}
    for asked in questions(dict(settings).items()):
        whole = "".join(digest for digest, _ in asked)
        digests |= {digest: sha256(f"{digest}{whole}".encode()).hexdigest() for digest, _ in asked}
    return [digests[digest] for digest, _ in settings]


def replayed_rows(simulator: RowRunner, settings: Sequence[Setting]) -> list[list[Row]]:
    """Return the rows of each setting of a group, as `RowRunner.rows_of` does. Replayed rows have only the step time
    and columns derived from it, with `fidelity` "replay". The fastest setting of each plan at each size is simulated,
    so that the displayed best is exact, unless many settings are equally fast.
    """
    answered = _answers(simulator, settings) if len(settings) >= FEWEST else []
    if not answered:
        return [simulator.rows_of(setting) for setting in settings]
    simulated: dict[int, list[Row]] = {}
    for place, setting in enumerate(settings):
        if any(each.answers.is_unlike[place] for each in answered):
            simulated[place] = simulator.rows_of(setting)
    for each in answered:
        for place in each.fastest(simulated):
            simulated[place] = simulator.rows_of(settings[place])
    return [
        simulated[place] if place in simulated else [each.row(place) for each in answered]
        for place in range(len(settings))
    ]


def _answers(simulator: RowRunner, settings: Sequence[Setting]) -> list[_Answered]:
    """Return the replayed step times of each plan at each size; empty if all settings have to be simulated."""
    first = settings[0].changes
    varied = [key for key in first if is_varied(key, first[key]) and len({s.changes[key] for s in settings}) > 1]
    axes = {key: np.array([float(setting.changes[key]) for setting in settings]) for key in varied}
    others = {key: value for key, value in first.items() if key not in varied}
    answered: list[_Answered] = []
    try:
        scenario = replace(settings[0], changes=others).scenario()
        fidelity: Fidelity = settings[0].fidelity or scenario.file.run.fidelity  # type: ignore[assignment]
        for plan, devices in product(scenario.plans, scenario.file.run.devices):
            if not axes or plan in scenario.at(devices).searches:
                return []
            asked = WhatIfs.of(scenario, plan, devices, fidelity, simulator.schedule_cache)
            row = outcome_of(scenario, scenario.case(plan, devices), asked.built, asked.step).row
            if not row["fits"]:
                return []
            answered.append(_Answered(dict(row), asked.step_s(axes)))
    except SimfrontierError:
        return []
    return answered


@dataclass(frozen=True, eq=False)
class _Answered:
    """The row of a plan at a size in the unchanged scenario, and its replayed step times at all points."""

    base: Row
    answers: Answers

    def fastest(self, simulated: Mapping[int, Sequence[Row]]) -> Iterator[int]:
        """Yield the apparently fastest points, one after the other, until the fastest is among the simulated ones or
        the limit is reached. The caller adds the rows of each point to `simulated` before it asks for the next.
        """
        steps = self.answers.step_s.copy()
        for _ in range(MOST_CONFIRMED):
            for place, rows in simulated.items():
                steps[place] = _step_s(rows, self.base["plan"], self.base["devices"])
            place = int(np.argmin(steps))
            if place in simulated:
                return
            yield place

    def row(self, place: int) -> Row:
        """Return the replayed row of a point."""
        base, step_s = self.base, float(self.answers.step_s[place])
        row = {column: base[column] for column in KEPT}
        row |= {column: base[column] * base[STEP] / step_s for column in PER_STEP}
        return row | {
            STEP: step_s,
            "fidelity": REPLAY,
            "note": "; ".join(filter(None, (f"replayed from one simulated step; replays are {OFF_BY}", base["note"]))),
        }


def _step_s(rows: Sequence[Row], plan: str, devices: int) -> float:
    """Return the step time of a plan at a size; infinite if it has none."""
    times = [row[STEP] for row in rows if row.get("plan") == plan and row.get("devices") == devices and row.get(STEP)]
    return times[0] if times else math.inf


def run(
    settings: Sequence[Setting], workers: Workers | None = None, runner: PerProcess[RowRunner] | None = None
) -> list[list[Row]]:
    """Simulate settings, each distinct one once, and return the rows of each. `workers`: simulate in parallel, with one
    `runner` per worker (None: in this process).
    """
    digests, store = Digests(), ResultStore()
    keyed = [(digests.of(setting), setting) for setting in settings]
    simulate(dict(keyed).items(), len(keyed), store, workers, runner)
    return [store.get(key) or [] for key, _ in keyed]


def simulate(
    settings: Iterable[Keyed],
    count: int,
    store: ResultStore,
    workers: Workers | None = None,
    runner: PerProcess[RowRunner] | None = None,
    done: Callable[[Mapping[str, Sequence[Row]]], None] = lambda _: None,
    replay: bool = False,
) -> None:
    """Simulate `count` different settings, and add the rows of each to the store under its digest. `replay`: settings
    that differ only in numbers of machine or library are answered from one simulated step; their digests are those of
    `question_digests`. `done` is called with the rows of each batch, by digest."""
    workers, runner = workers or Workers(HERE), runner or PerProcess(RowRunner)
    batches = questions(settings) if replay else batches_of(settings, count, workers.num_workers)
    calls = ((runner, batch) for batch in batches)
    for _, rows in workers.as_done(_replayed if replay else _rows_of, calls):
        store.add(rows)
        done(rows)


def _rows_of(runner: PerProcess[RowRunner], batch: Sequence[Keyed]) -> dict[str, list[Row]]:
    return {digest: runner.here.rows_of(setting) for digest, setting in batch}


def _replayed(runner: PerProcess[RowRunner], asked: Sequence[Keyed]) -> dict[str, list[Row]]:
    rows = replayed_rows(runner.here, [setting for _, setting in asked])
    return {digest: mine for (digest, _), mine in zip(asked, rows, strict=True)}
