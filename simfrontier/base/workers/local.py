"""Worker processes on this machine, without Dask."""

from __future__ import annotations

import pickle
import subprocess
from collections import deque
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Final

from simfrontier.base.errors import SimfrontierError
from simfrontier.base.workers.process import started, without_stops

MOST_LOST: Final = 3  # processes that a call may lose before it fails; as Dask's `allowed-failures`
KILLED: Final = (
    "a worker process was ended from outside, again and again at the same call (out of memory?); allowed: fewer --jobs,"
    " if memory was short"
)


class LostError(SimfrontierError):
    """Raised when a worker or the scheduler is lost; results completed before then are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A pickled call and its future; `worker`: number of the worker that has to run it, None for any."""

    work: bytes
    future: Future[Any]
    worker: int | None


class LocalProcesses:
    """`jobs` worker processes and for each a thread of this process, which hands it one call after another. A call
    whose process is lost is repeated by a new process."""

    dashboard = ""

    def __init__(self, jobs: int) -> None:
        self.num_workers = jobs
        self._calls: deque[_Call] = deque()
        self._changed, self._is_closed = Condition(), False
        with without_stops():
            self._processes = [started() for _ in range(jobs)]
            self._threads = [Thread(target=self._serve, args=(number,), daemon=True) for number in range(jobs)]
            for thread in self._threads:
                thread.start()

    def submit(self, work: bytes, worker: int | None) -> Future[Any]:
        """Queue a pickled call and return its future."""
        call = _Call(work, Future(), worker)
        with self._changed:
            if self._is_closed:
                call.future.cancel()
            else:
                self._calls.append(call)
                self._changed.notify_all()
        return call.future

    def result(self, future: Future[Any]) -> Any:
        """Return the result of a call, or raise its error."""
        return future.result()

    def close(self) -> None:
        """Kill all processes, even in the middle of a call; all calls without a result are cancelled."""
        with self._changed:
            self._is_closed = True
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            _end(process)
        for call in self._calls:
            call.future.cancel()

    def _serve(self, number: int) -> None:
        """Hand calls to a worker until the end."""
        while (call := self._next(number)) is not None:
            if call.future.set_running_or_notify_cancel():
                try:
                    result, error = self._answer(number, call.work)
                except Exception as lost:  # or an answer that cannot be read
                    result, error = None, lost
                if error is None:
                    call.future.set_result(result)
                else:
                    call.future.set_exception(error)

    def _next(self, number: int) -> _Call | None:
        """Wait for the next call that a worker may run, and take it; None at the end."""
        with self._changed:
            while not self._is_closed:
                for call in self._calls:
                    if call.worker in (None, number):
                        self._calls.remove(call)
                        return call
                self._changed.wait()
        return None

    def _answer(self, number: int, work: bytes) -> tuple[Any, Exception | None]:
        """Return the result and the error of a call; the call is repeated if its process is lost. Raises LostError, and
        CancelledError at the end."""
        for _ in range(MOST_LOST + 1):
            process = self._processes[number]
            assert process.stdin is not None and process.stdout is not None
            try:
                pickle.dump(work, process.stdin)
                process.stdin.flush()
                answer = pickle.load(process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError):
                self._replace(number)
            else:
                found: tuple[Any, Exception | None] = pickle.loads(answer)
                return found
        raise LostError(KILLED)

    def _replace(self, number: int) -> None:
        """Start a new process for one that is lost. Raises CancelledError at the end."""
        with self._changed:
            if self._is_closed:
                raise CancelledError
            _end(self._processes[number])
            self._processes[number] = started()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, wait for its end, and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # a call that was not sent whole
                pipe.close()
