"""The worker processes of a search, the same from its beginning to its end; none where this process does it all."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from simfrontier.pool import Pool, WorkerLostError
from simfrontier.scenario import Scenario
from simfrontier.tuning.evaluator import PlanEvaluator

Task = tuple[str, Sequence[tuple[Any, ...]]]  # a method of PlanEvaluator, with the arguments of each call
_mine: list[PlanEvaluator] = []  # of a worker process


class TuneWorkersLostError(WorkerLostError):
    """A process of a search was ended from outside."""


class TuneWorkers:
    """Does tasks in `jobs` processes, each with a PlanEvaluator of its own. To be used with `with`."""

    def __init__(self, scenario: Scenario, original: Scenario, size: int, jobs: int) -> None:
        self.made_of = scenario, original, size
        self.jobs = jobs
        self.pool: Pool | None = None
        self.evaluator = PlanEvaluator(*self.made_of)
        self.collects = gc.isenabled()

    def __enter__(self) -> Self:
        if self.jobs > 1:
            self.pool = Pool(self.jobs, _begin, self.made_of)
        gc.disable()  # work makes few cycles; collecting would take a quarter of its time
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.collects:
            gc.enable()
        if self.pool is not None:
            self.pool.__exit__(kind, error, trace)

    def do(self, tasks: Sequence[Task], report: Callable[[int, list[Any]], None]) -> None:
        """Do tasks; `report` is called with each one's number and results as it ends."""
        if self.pool is None or len(tasks) < 2:
            for number, task in enumerate(tasks):
                report(number, _done(self.evaluator, task))
            return
        try:
            for number, results in self.pool.as_done(_do, [(task,) for task in tasks]):
                report(number, results)
        except WorkerLostError:
            raise TuneWorkersLostError(
                "a process of the search was ended from outside (out of memory?); the same command goes on from there, "
                "with fewer --jobs if memory was short"
            ) from None


def _begin(scenario: Scenario, original: Scenario, size: int) -> None:
    gc.disable()
    _mine[:] = [PlanEvaluator(scenario, original, size)]


def _do(task: Task) -> list[Any]:
    return _done(_mine[0], task)


def _done(evaluator: PlanEvaluator, task: Task) -> list[Any]:
    what, calls = task
    return [getattr(evaluator, what)(*arguments) for arguments in calls]
