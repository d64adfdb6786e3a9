"""The workers of a search, the same from its beginning to its end, each with an evaluator of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from simfrontier.scenario import Scenario
from simfrontier.tuning.evaluator import PlanEvaluator
from simfrontier.workers import PerProcess, Place, Workers

Task = tuple[str, Sequence[tuple[Any, ...]]]  # a method of PlanEvaluator, with the arguments of each call


class TuneWorkers:
    """Does tasks on the workers of a place. To be used with `with`."""

    def __init__(self, scenario: Scenario, original: Scenario, size: int, place: Place) -> None:
        self._evaluator = PerProcess(PlanEvaluator, scenario, original, size)
        self._collects = gc.isenabled()
        self._workers = Workers(place)

    def __enter__(self) -> Self:
        self._workers.__enter__()
        gc.disable()  # work makes few cycles; collecting would take a quarter of its time
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._collects:
            gc.enable()
        self._workers.__exit__(kind, error, trace)

    def do(self, tasks: Sequence[Task], report: Callable[[int, list[Any]], None]) -> None:
        """Do tasks; `report` is called with each one's number and results as it ends. Raises LostError."""
        for number, results in self._workers.as_done(_done, ((self._evaluator, task) for task in tasks)):
            report(number, results)


def _done(evaluator: PerProcess[PlanEvaluator], task: Task) -> list[Any]:
    what, calls = task
    return [getattr(evaluator.here, what)(*arguments) for arguments in calls]
