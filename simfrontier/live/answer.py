"""What the live page shows of a state: rates of all plans, and the step of one of them over time."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from typing import Any, Final, Self

from simfrontier.live.controls import Control, controls_of, own_words
from simfrontier.live.state import LiveState, scenario_at, state_of
from simfrontier.live.worker import begin, outcome, rest, sampled, step_of
from simfrontier.pool import Pool, WorkerLostError
from simfrontier.report import PARTS, StudyView, headline_of, median_rate, median_step_s, rate, sampled_tflops, verdict
from simfrontier.scenario import Scenario
from simfrontier.study import PlanOutcome, Study, completed

MOST_WORKERS: Final = 8
MOST_ANSWERS: Final = 60  # that are kept: of some half a megabyte each
LEAST_PRIORITY: Final = 19  # of what nobody has asked for (nice)


class Workers:
    """Processes that simulate the plans of a scenario, each always the same ones, whose schedules it keeps."""

    def __init__(self, scenario: Scenario, number: int, nice: int = 0) -> None:
        self._plans, self._given = tuple(scenario.plans), (scenario, nice)
        self._pools = [self._new() for _ in range(number)]
        self._is_open = True

    def submit(self, work: Callable[[str, LiveState], Any], plan: str, state: LiveState) -> Future[Any]:
        """A task of a plan. Raises WorkerLostError after the end."""
        if not self._is_open:
            raise WorkerLostError("the server is about to end")
        return self._pools[self._plans.index(plan) % len(self._pools)].submit(work, plan, state)

    def rest(self) -> None:
        """Give back the memory that is no longer needed, one task after the others."""
        for pool in self._pools:
            pool.submit(rest)

    def renew(self) -> None:
        """Processes in place of those of which one has ended."""
        if self._is_open:
            self._end()
            self._pools = [self._new() for _ in self._pools]

    def close(self) -> None:
        """End all, whatever they do: who waits for a task gets BrokenProcessPool."""
        self._is_open = False
        self._end()

    def _new(self) -> Pool:
        pool = Pool(1, begin, self._given)
        pool.submit(rest)  # starts the process
        return pool

    def _end(self) -> None:
        for pool in self._pools:
            pool.terminate()


class Answerer:
    """Answers of one scenario, to be used with `with`. Plans are shared out to `jobs` worker processes (default: one
    for each core, at most eight); one more, of low priority, makes answers that nobody has asked for yet. Answers are
    kept."""

    def __init__(self, scenario: Scenario, jobs: int | None = None) -> None:
        self.scenario = scenario
        self.controls: Sequence[Control] = controls_of(scenario)
        self.plans = tuple(scenario.plans)
        number = min(jobs or os.cpu_count() or 1, MOST_WORKERS, len(self.plans))
        self._asked, self._spare = Workers(scenario, number), Workers(scenario, 1, LEAST_PRIORITY)
        self._likely = ""  # the plan whose step was shown last
        self._known: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def __enter__(self) -> Self:
        for plan in self.plans:  # what is asked first
            self._asked.submit(outcome, plan, LiveState(places={}))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; questions that wait get WorkerLostError."""
        self._asked.close()
        self._spare.close()

    def state(self, query: Mapping[str, str]) -> LiveState:
        """What a link says. Raises InputError."""
        return state_of(query, self.controls, self.plans)

    def answer(self, state: LiveState) -> bytes:
        """What the page shows, as JSON. Raises SimfrontierError for a state that cannot be, and WorkerLostError, after
        which there are new processes."""
        return self._answer(state, self._asked, lambda _: None)

    def answer_ahead(self, state: LiveState, started: Callable[[Future[Any]], None]) -> None:
        """Make an answer that nobody has asked for yet; `started` hears of every task, which may be cancelled. Raises
        CancelledError, and as `answer` does."""
        self._answer(state, self._spare, started)

    def rest(self) -> None:
        """While nobody asks: give back memory."""
        self._asked.rest()

    def _answer(self, state: LiveState, workers: Workers, started: Callable[[Future[Any]], None]) -> bytes:
        key = (state.plan, *sorted(state.places.items()))
        made = self._known.get(key)
        if made is None:
            try:
                found = self._made(state, workers, started)
            except BrokenProcessPool:
                workers.renew()
                raise WorkerLostError(
                    "a process that simulates was ended from outside (out of memory?); there is a new one: ask again"
                ) from None
            made = json.dumps(found, allow_nan=False, separators=(",", ":")).encode()
        self._known[key] = made
        self._known.move_to_end(key)
        if len(self._known) > MOST_ANSWERS:
            self._known.popitem(last=False)
        return made

    def _made(self, state: LiveState, workers: Workers, started: Callable[[Future[Any]], None]) -> dict[str, Any]:
        def submit(work: Callable[[str, LiveState], Any], plan: str) -> Future[Any]:
            task = workers.submit(work, plan, state)
            started(task)
            return task

        tasks = [submit(outcome, plan) for plan in self.plans]
        likely = state.plan or self._likely
        step = submit(step_of, likely) if likely else None
        scenario = scenario_at(self.scenario, self.controls, state, sampled(self.scenario))
        outcomes = completed(scenario, [task.result() for task in tasks])
        view = StudyView(study=Study(scenario=scenario, fidelity=scenario.file.run.fidelity, outcomes=tuple(outcomes)))
        fitting = [each.plan for each in view.ranked]
        shown = state.plan if state.plan in fitting else next(iter(fitting), "")
        if shown != likely:
            step = submit(step_of, shown) if shown else None
        self._likely = shown
        return {
            "verdict": verdict(headline_of(view)),
            "moved": [control.label + ": " + control.words[place] for control, place in self._moved(state)],
            "own": own_words(scenario),
            "num_samples": scenario.file.uncertainty.samples,
            "parts": [{"name": part.short, "colour": part.colour} for part in PARTS.values()],
            "plans": [_rates(view, each) for each in [*view.ranked, *_misfits(view)]],
            "step": None if step is None else step.result(),
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
