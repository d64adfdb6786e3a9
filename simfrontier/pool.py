"""The pool of worker processes of every command that has `--jobs`: workers leave Ctrl-C to the process that started
them, and end with it."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self, TypeVar

from simfrontier.errors import SimfrontierError
from simfrontier.parent import end_with_parent

T = TypeVar("T")


class WorkerLostError(SimfrontierError):
    """A worker process was ended from outside."""


class Pool:
    """`jobs` worker processes, each prepared by `begin(*given)`. To be used with `with`: after an error the workers are
    terminated, because their tasks may take long and their results are not needed."""

    def __init__(self, jobs: int, begin: Callable[..., None] | None = None, given: tuple[Any, ...] = ()) -> None:
        # A fresh process each: to fork one in which a progress bar's thread runs may lock up.
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(begin, given))
        self._workers: list[BaseProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is not None:
            self.terminate()
        self._executor.shutdown(cancel_futures=True)

    def terminate(self) -> None:
        """End the workers, whatever they do: who waits for a call gets BrokenProcessPool."""
        for worker in self._workers:
            worker.terminate()
        self._executor.shutdown(wait=False)

    def submit(self, work: Callable[..., T], *given: Any) -> Future[T]:
        """A call whose result is awaited by whoever asks for it."""
        return self._submitted(work, [given])[0]

    def in_order(self, work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        """What `work` gives for each call's arguments, in the order of the calls. Raises what a call raised, and
        WorkerLostError."""
        with _report_lost_worker():
            for future in self._submitted(work, calls):
                yield future.result()

    def as_done(self, work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, T]]:
        """The number of each call and what `work` gives for its arguments, as they are done. Raises as `in_order`."""
        with _report_lost_worker():
            numbers = {future: number for number, future in enumerate(self._submitted(work, calls))}
            for future in as_completed(numbers):
                yield numbers[future], future.result()

    def _submitted(self, work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> list[Future[T]]:
        with _started() as workers:
            futures = [self._executor.submit(work, *call) for call in calls]
        self._workers += workers
        return futures


@contextmanager
def _report_lost_worker() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise WorkerLostError(
            "a worker process was ended from outside (out of memory?); allowed: fewer --jobs, if memory was short"
        ) from None


@contextmanager
def _started() -> Iterator[list[BaseProcess]]:
    """Processes that are started meanwhile do not hear Ctrl-C; at the end they are in the list."""
    before = set(multiprocessing.active_children())
    mine: list[BaseProcess] = []
    is_main = threading.current_thread() is threading.main_thread()
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        yield mine
    finally:
        if is_main:
            signal.signal(signal.SIGINT, signal.SIG_DFL if heard is None else heard)
        mine += [child for child in multiprocessing.active_children() if child not in before]


def _begin(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"
    end_with_parent(parent.sentinel)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # also where another thread than the main one has started it
    if begin is not None:
        begin(*given)
