"""Answers of the live page for a state: rates of all plans, and the step of one of them over time."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Final, Self

from simfrontier.answers.study import PlanOutcome, Study, completed
from simfrontier.base.workers import Local, LostError, PerProcess, Workers
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.live.state import Control, LiveState, controls_of, own_words, scenario_at, state_of
from simfrontier.interfaces.live.worker import Work, Worker, outcome, step_of
from simfrontier.interfaces.report import PARTS, StudyView, headline_of, result_row, verdict

MOST_WORKERS: Final = 8
MOST_ANSWERS: Final = 60  # that are kept: of some half a megabyte each


class Answerer:
    """Answers of one scenario, to be used with `with`. Plans are shared out to `jobs` workers (default: one for each
    core, at most eight), each always to the same one, which keeps its schedules. Answers are kept."""

    def __init__(self, scenario: Scenario, jobs: int | None = None) -> None:
        self.scenario = scenario
        self.controls: Sequence[Control] = controls_of(scenario)
        self.plans = tuple(scenario.plans)
        self._number = min(jobs or os.cpu_count() or 1, MOST_WORKERS, len(self.plans))
        self._workers = Workers(Local(jobs=max(2, self._number)))  # one alone would work in this process
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
        """Parse the query of a link. Raises InputError."""
        return state_of(query, self.controls, self.plans)

    def answer(self, state: LiveState) -> bytes:
        """Return what the page shows, as JSON. Raises SimfrontierError for a state that cannot be, and LostError
        at the end."""
        key = (state.plan, *sorted(state.places.items()))
        if key not in self._known:
            try:
                found = self._made(state)
            except CancelledError:
                raise LostError("the server is about to end") from None
            self._known[key] = json.dumps(found, allow_nan=False, separators=(",", ":")).encode()
        self._known.move_to_end(key)
        if len(self._known) > MOST_ANSWERS:
            self._known.popitem(last=False)
        return self._known[key]

    def _call(self, work: Work, plan: str, state: LiveState) -> Future[Any]:
        if not self._is_open:
            raise LostError("the server is about to end")
        return self._workers.submit(work, self._worker, plan, state, worker=self.plans.index(plan) % self._number)

    def _made(self, state: LiveState) -> dict[str, Any]:
        tasks = [self._call(outcome, plan, state) for plan in self.plans]
        likely = state.plan or self._likely
        step = self._call(step_of, likely, state) if likely else None
        scenario = scenario_at(self.scenario, self.controls, state)
        outcomes = completed(scenario, [self._workers.result(task) for task in tasks])
        view = StudyView(study=Study(scenario=scenario, fidelity=scenario.file.run.fidelity, outcomes=tuple(outcomes)))
        fitting = [each.plan for each in view.ranked]
        shown = state.plan if state.plan in fitting else next(iter(fitting), "")
        if shown != likely:
            step = self._call(step_of, shown, state) if shown else None
        self._likely = shown
        return {
            "verdict": verdict(headline_of(view)),
            "moved": [
                f"{each.label}: {each.words[state.places[each.key]]}"
                for each in self.controls
                if each.key in state.places
            ],
            "own": own_words(scenario),
            "unit": view.rate_unit.partition(" ")[0],
            "num_samples": scenario.file.uncertainty.samples,
            "parts": [{"name": part.short, "colour": part.colour} for part in PARTS.values()],
            "plans": [_rates(view, each) for each in [*view.ranked, *(o for o in view.drawn if not o.row["fits"])]],
            "step": None if step is None else step.result(),
        }


def _rates(view: StudyView, outcome: PlanOutcome) -> dict[str, Any]:
    """The rate of a plan with its band, and the parts of its step; why it does not fit, where it does not."""
    row = result_row(outcome)
    made: dict[str, Any] = {"plan": outcome.plan, "colour": view.marks[outcome.plan].colour, "fits": row["fits"]}
    if not row["fits"]:
        return made | {"note": row["note"]}
    rate, low, high, nominal = (row[f"tokens_per_s_per_device{end}"] for end in ("", "_p05", "_p95", "_nominal"))
    return made | {
        "rate": rate,
        "low": low or rate,
        "high": high or rate,
        "nominal": nominal,
        "step_s": row["step_time_s"],
        "parts": [row[part.column] / row["step_time_nominal_s"] for part in PARTS.values()],
        "peak_bytes": row["peak_memory_bytes"],
    }
