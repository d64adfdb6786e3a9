"""What the live page shows of a state: rates of all plans, and the step of one of them over time."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import asdict
from typing import Any, Final, Self

from simfrontier.live.controls import Control, controls_of, own_words
from simfrontier.live.state import LiveState, scenario_at, state_of
from simfrontier.live.worker import Work, Worker, beside, outcome, step_of
from simfrontier.report import PARTS, StudyView, headline_of, nominal_step_s, rate, sampled_rate, step_s, verdict
from simfrontier.scenario import Scenario
from simfrontier.study import PlanOutcome, Study, completed
from simfrontier.workers import Local, LostError, PerProcess, Workers

MOST_WORKERS: Final = 8
MOST_ANSWERS: Final = 60  # that are kept: of some half a megabyte each
ENDING: Final = "the server is about to end"
Call = Callable[[Work, str, LiveState], Future[Any]]


class Answerer:
    """Answers of one scenario, to be used with `with`. Plans are shared out to `jobs` workers (default: one for each
    core, at most eight), each always to the same one, which keeps its schedules; one more makes answers that nobody has
    asked for yet, at low priority. Answers are kept."""

    def __init__(self, scenario: Scenario, jobs: int | None = None) -> None:
        self.scenario = scenario
        self.controls: Sequence[Control] = controls_of(scenario)
        self.plans = tuple(scenario.plans)
        self._number = min(jobs or os.cpu_count() or 1, MOST_WORKERS, len(self.plans))
        self._workers = Workers(Local(jobs=self._number + 1))
        self._worker, self._is_open = PerProcess(Worker, scenario), True
        self._likely = ""  # the plan whose step was shown last
        self._known: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def __enter__(self) -> Self:
        self._workers.__enter__()
        for plan in self.plans:  # what is asked first
            self._call(outcome, plan, LiveState(places={}))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, whatever they do; questions that wait get LostError."""
        if self._is_open:
            self._is_open = False
            self._workers.close()

    def state(self, query: Mapping[str, str]) -> LiveState:
        """What a link says. Raises InputError."""
        return state_of(query, self.controls, self.plans)

    def answer(self, state: LiveState) -> bytes:
        """What the page shows, as JSON. Raises SimfrontierError for a state that cannot be, and LostError at the
        end."""
        return self._answer(state, self._call)

    def answer_ahead(self, state: LiveState, started: Callable[[Future[Any]], None]) -> None:
        """Make an answer that nobody has asked for yet; `started` hears of every task, which may be cancelled. Raises
        CancelledError, and as `answer` does."""
        self._answer(state, self._call_beside(started))

    def _call_beside(self, started: Callable[[Future[Any]], None]) -> Call:
        def call(work: Work, plan: str, state: LiveState) -> Future[Any]:
            self._refuse_late()
            task = self._workers.submit(beside, work, self._worker, plan, state, worker=self._number)
            started(task)
            return task

        return call

    def _call(self, work: Work, plan: str, state: LiveState) -> Future[Any]:
        self._refuse_late()
        return self._workers.submit(work, self._worker, plan, state, worker=self.plans.index(plan) % self._number)

    def _refuse_late(self) -> None:
        if not self._is_open:
            raise LostError(ENDING)

    def _answer(self, state: LiveState, call: Call) -> bytes:
        key = (state.plan, *sorted(state.places.items()))
        made = self._known.get(key)
        if made is None:
            try:
                found = self._made(state, call)
            except CancelledError:
                self._refuse_late()
                raise
            made = json.dumps(found, allow_nan=False, separators=(",", ":")).encode()
        self._known[key] = made
        self._known.move_to_end(key)
        if len(self._known) > MOST_ANSWERS:
            self._known.popitem(last=False)
        return made

    def _made(self, state: LiveState, call: Call) -> dict[str, Any]:
        tasks = [call(outcome, plan, state) for plan in self.plans]
        likely = state.plan or self._likely
        step = call(step_of, likely, state) if likely else None
        scenario = scenario_at(self.scenario, self.controls, state)
        outcomes = completed(scenario, [self._workers.result(task) for task in tasks])
        view = StudyView(study=Study(scenario=scenario, fidelity=scenario.file.run.fidelity, outcomes=tuple(outcomes)))
        fitting = [each.plan for each in view.ranked]
        shown = state.plan if state.plan in fitting else next(iter(fitting), "")
        if shown != likely:
            step = call(step_of, shown, state) if shown else None
        self._likely = shown
        return {
            "verdict": verdict(headline_of(view)),
            "moved": [control.label + ": " + control.words[place] for control, place in self._moved(state)],
            "own": own_words(scenario),
            "unit": view.rate_unit.partition(" ")[0],
            "num_samples": scenario.file.uncertainty.samples,
            "parts": [{"name": part.short, "colour": part.colour} for part in PARTS.values()],
            "plans": [_rates(view, each) for each in [*view.ranked, *_misfits(view)]],
            "step": None if step is None else self._workers.result(step),
        }

    def _moved(self, state: LiveState) -> list[tuple[Control, int]]:
        return [(control, state.places[control.key]) for control in self.controls if control.key in state.places]


def _misfits(view: StudyView) -> list[PlanOutcome]:
    return [outcome for outcome in view.drawn if not outcome.row["fits"]]


def _rates(view: StudyView, outcome: PlanOutcome) -> dict[str, Any]:
    """The rate of a plan with its band, and the parts of its step; why it does not fit, where it does not."""
    made: dict[str, Any] = {"plan": outcome.plan, "colour": view.marks[outcome.plan].colour}
    if not outcome.row["fits"]:
        return made | {"fits": False, "note": str(outcome.row["note"])}
    parts, whole_s = asdict(outcome.exposure), sum(asdict(outcome.exposure).values())
    median, band = rate(outcome), sampled_rate(outcome)
    return made | {
        "fits": True,
        "rate": median,
        "low": band.low if band else median,
        "high": band.high if band else median,
        "nominal": median * step_s(outcome) / nominal_step_s(outcome),
        "step_s": step_s(outcome),
        "parts": [parts[part] / whole_s for part in PARTS],
        "peak_bytes": float(outcome.row["peak_memory_bytes"]),
    }
