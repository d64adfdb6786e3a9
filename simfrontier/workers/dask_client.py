"""Calls handed to a scheduler of Dask, whose results are awaited."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any

from simfrontier import __version__
from simfrontier.workers.garbage import Garbage
from simfrontier.workers.in_worker import do
from simfrontier.workers.lost import LostError, SchedulerLostError, WorkerLostError

LOST = (
    "a worker process was ended from outside, again and again at the same call (out of memory?); allowed: fewer "
    "--jobs, if memory was short"
)


def resource_of(worker: int) -> str:
    """What the worker of this number alone has, by which calls are left to it; it survives its processes."""
    return f"worker-{worker}"


class DaskClient:
    """A client of Dask (`distributed.Client`, connected). Calls and results are pickled here: to Dask they are bytes,
    which it neither looks through nor changes."""

    def __init__(self, client: Any, begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
        self.client = client
        self._name = uuid.uuid4().hex
        self._preparation = None if begin is None else pickle.dumps((begin, given))
        self._prepared = "" if begin is None else self._name
        self._number = count()
        self._awaited: set[Future[Any]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()  # which wait for results
        self._error: LostError | None = None
        self._garbage = Garbage()

    def submit(self, work: Callable[..., Any], given: tuple[Any, ...], worker: int | None) -> Future[Any]:
        """A call; `worker`: the number of the only one that may do it."""
        call = pickle.dumps((work, given), protocol=pickle.HIGHEST_PROTOCOL)
        options: dict[str, Any] = {} if worker is None else {"resources": {resource_of(worker): 1}}
        first = self._handed_out(work, None, call, options)
        future = asyncio.run_coroutine_threadsafe(
            self._result(first, work, call, options), self.client.loop.asyncio_loop
        )
        self._awaited.add(future)
        future.add_done_callback(self._awaited.discard)
        return future

    def drop(self) -> None:
        """Ask for no result any more: who waits for one gets CancelledError."""
        for future in tuple(self._awaited):
            future.cancel()

    def fail(self, error: LostError) -> None:
        """Let all calls that wait, and all to come, raise this. To be called in the client's loop."""
        self._error = error
        for task in tuple(self._tasks):
            task.cancel()

    def _handed_out(
        self, work: Callable[..., Any], preparation: bytes | None, call: bytes, options: dict[str, Any]
    ) -> Any:
        from dask._task_spec import Task

        key = f"{getattr(work, '__name__', 'call')}-{self._name}", next(self._number)
        # A "data producer" is sent to a worker when that one is free, so that no call waits behind a long one, or where
        # another ends the process.
        task = Task(key, do, __version__, self._prepared, preparation, call, _data_producer=True)
        return self.client.get({key: task}, key, sync=False, fifo_timeout=0, **options)

    async def _result(self, first: Any, work: Callable[..., Any], call: bytes, options: dict[str, Any]) -> Any:
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        task = asyncio.current_task()
        assert task is not None, "this is a coroutine of the client's loop"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        waiting = first
        if self._error is not None:
            raise self._error
        try:
            pickled = await waiting
            if pickled is None:  # a worker that does not know this preparation
                waiting = self._handed_out(work, self._preparation, call, options)
                pickled = await waiting
        except KilledWorker:
            raise WorkerLostError(LOST) from None
        except FutureCancelledError as error:
            if error.reason == "scheduler-connection-lost":
                raise SchedulerLostError(f"the scheduler at {self.client.scheduler.address} is gone") from None
            raise
        except asyncio.CancelledError:
            await self.client.cancel([waiting])
            if self._error is not None:
                raise self._error from None
            raise
        # Not in the main thread: a signal that comes meanwhile would be raised, and lost, in Dask's callback of `gc`.
        self._garbage.collect()
        return pickle.loads(pickled)
