"""What the live page shows of a state: rates of all plans, and the step of one of them over time."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, Final, Self

from simfrontier.live.controls import Control, controls_of
from simfrontier.live.state import LiveState, scenario_at, state_of
from simfrontier.live.worker import begin, outcome, rest, step_of
from simfrontier.pool import Pool
from simfrontier.report import PARTS, StudyView, headline_of, median_rate, median_step_s, rate, sampled_tflops, verdict
from simfrontier.scenario import Scenario
from simfrontier.study import PlanOutcome, Study, completed

MOST_WORKERS: Final = 8
MOST_ANSWERS: Final = 200  # that are kept
LEAST_PRIORITY: Final = 19  # of what nobody has asked for (nice)


class Answerer:
    """Answers of one scenario, to be used with `with`. Every plan belongs to one of `jobs` worker processes (default:
    one for each core), which keeps the schedules that it built; one more, of low priority, makes answers that nobody
    has asked for yet. Answers are kept."""

    def __init__(self, scenario: Scenario, jobs: int | None = None) -> None:
        self.scenario = scenario
        self.controls: Sequence[Control] = controls_of(scenario)
        self.plans = tuple(scenario.plans)
        number = min(jobs or os.cpu_count() or 1, MOST_WORKERS, len(self.plans))
        self._pools = [Pool(1, begin, (scenario,)) for _ in range(number)]
        self._spare = [Pool(1, begin, (scenario, LEAST_PRIORITY))]
        self._open, self._shown = ExitStack(), ""
        self._known: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def __enter__(self) -> Self:
        for pool in (*self._pools, *self._spare):
            self._open.enter_context(pool)
            pool.submit(rest)  # processes are started by this thread, so that they leave Ctrl-C to it
        for plan in self.plans:  # what is asked first
            self._submit(self._pools, outcome, plan, LiveState(places={}))
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def state(self, query: Mapping[str, str]) -> LiveState:
        """What a link says. Raises InputError."""
        return state_of(query, self.controls, self.plans)

    def answer(self, state: LiveState) -> bytes:
        """What the page shows, as JSON. Raises InputError for a state that cannot be."""
        return self._answer(state, self._pools, lambda _: None)

    def answer_ahead(self, state: LiveState, started: Callable[[Future[Any]], None]) -> None:
        """Make an answer that nobody has asked for yet; `started` hears of every task, which may be cancelled. Raises
        CancelledError, and as `answer` does."""
        self._answer(state, self._spare, started)

    def rest(self) -> None:
        """While nobody asks: workers give back the memory that they no longer need."""
        for pool in self._pools:
            pool.submit(rest)

    def _answer(self, state: LiveState, pools: Sequence[Pool], started: Callable[[Future[Any]], None]) -> bytes:
        key = (state.plan, *sorted(state.places.items()))
        made = self._known.get(key)
        if made is None:
            made = json.dumps(self._made(state, pools, started), allow_nan=False, separators=(",", ":")).encode()
            self._known[key] = made
            if len(self._known) > MOST_ANSWERS:
                self._known.popitem(last=False)
        return made

    def _made(self, state: LiveState, pools: Sequence[Pool], started: Callable[[Future[Any]], None]) -> dict[str, Any]:
        tasks = [self._submit(pools, outcome, plan, state) for plan in self.plans]
        for task in tasks:
            started(task)
        likely = state.plan or self._shown
        step = self._submit(pools, step_of, likely, state) if likely else None
        scenario = scenario_at(self.scenario, self.controls, state)
        outcomes = completed(scenario, [task.result() for task in tasks])
        study = Study(scenario=scenario, fidelity=scenario.file.run.fidelity, outcomes=tuple(outcomes))
        view = StudyView(study=study)
        fitting = [each.plan for each in view.ranked]
        self._shown = state.plan if state.plan in fitting else next(iter(fitting), "")
        if self._shown not in ("", likely):
            step = self._submit(pools, step_of, self._shown, state)
        return {
            "verdict": verdict(headline_of(view)),
            "settings": list(scenario.settings),
            "parts": [{"name": part.short, "colour": part.colour} for part in PARTS.values()],
            "plans": [_rates(view, each) for each in [*view.ranked, *_misfits(view)]],
            "step": step.result() if step is not None and self._shown else None,
        }

    def _submit(
        self, pools: Sequence[Pool], work: Callable[[str, LiveState], Any], plan: str, state: LiveState
    ) -> Future[Any]:
        return pools[self.plans.index(plan) % len(pools)].submit(work, plan, state)


def _misfits(view: StudyView) -> list[PlanOutcome]:
    return [outcome for outcome in view.drawn if not outcome.row["fits"]]


def _rates(view: StudyView, outcome: PlanOutcome) -> dict[str, Any]:
    """The rate of a plan with its band, and the parts of its step; why it does not fit, where it does not."""
    made: dict[str, Any] = {"plan": outcome.plan, "colour": view.marks[outcome.plan].colour}
    if not outcome.row["fits"]:
        return made | {"fits": False, "note": str(outcome.row["note"])}
    parts, step_s = asdict(outcome.exposure), sum(asdict(outcome.exposure).values())
    tflops, band = median_rate(outcome), sampled_tflops(outcome)
    return made | {
        "fits": True,
        "tflops": tflops,
        "low": band.low if band else tflops,
        "high": band.high if band else tflops,
        "typical": rate(outcome),
        "step_s": median_step_s(outcome),
        "parts": [parts[part] / step_s for part in PARTS],
        "peak_bytes": float(outcome.row["peak_memory_bytes"]),
    }
