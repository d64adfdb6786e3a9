"""Function calls on workers, with results in order or as they complete, and values that each process constructs for
itself."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from uuid import uuid4

from simfrontier.base.workers.local import LocalProcesses
from simfrontier.base.workers.place import Local, Place

T = TypeVar("T")
MOST_KEPT: Final = 8  # of a worker, which may live longer than those that it works for
_kept: OrderedDict[str, PerProcess[Any]] = OrderedDict()  # of a worker process, by name
AHEAD = 3  # calls for each worker that are handed out before their results are asked for


class PerProcess(Generic[T]):
    """A call argument that is not sent to workers: each process constructs `make(*given)` when a call first needs it,
    and keeps it for later calls. `here`: the value, if this process already has it.

    Results must not depend on whether a value was kept: keeping it only saves time.
    """

    def __init__(self, make: Callable[..., T], *given: Any, here: T | None = None, name: str = "") -> None:
        self._make, self._given, self._here = make, given, here
        self._name = name or uuid4().hex

    @property
    def here(self) -> T:
        """The value in this process, constructed on first access."""
        if self._here is None:
            self._here = self._make(*self._given)
        return self._here

    def __reduce__(self) -> tuple[Callable[..., PerProcess[T]], tuple[Any, ...]]:
        return _arrived, (self._name, self._make, *self._given)


def _arrived(name: str, make: Callable[..., T], *given: Any) -> PerProcess[T]:
    """Return, in a worker, the `PerProcess` object that arrived with an earlier call, or a new one."""
    known = _kept.get(name)
    if known is None:
        known = _kept[name] = PerProcess(make, *given, name=name)
    _kept.move_to_end(name)
    if len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return known


class Pool(Protocol):
    """Worker processes at a place."""

    num_workers: int
    dashboard: str

    def submit(self, work: bytes, worker: int | None) -> Future[Any]: ...

    def result(self, future: Future[Any]) -> Any: ...

    def close(self) -> None: ...


class Workers:
    """Context manager of workers at a place. At the end of the `with` block the workers are stopped even in the middle
    of a call, because after an error the remaining calls may take long and their results are not needed.

    `say` receives status messages: that workers are awaited (of a Slurm job), and the address of Dask's dashboard, if
    there is one; by default these are written to standard error.

    Functions, arguments and results must be picklable: functions of modules, immutable objects. A call whose worker is
    lost is repeated by another worker, a few times.
    """

    def __init__(self, place: Place, say: Callable[[str], None] | None = None) -> None:
        self.place, self._say = place, say or on_stderr
        self._pool: Pool | None = None
        self.num_workers = 1  # calls that are worked on at once; known once the workers are started

    def __enter__(self) -> Self:
        if not (isinstance(self.place, Local) and self.place.is_here):
            self._pool = self._started()
            self.num_workers = self._pool.num_workers
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers even in the middle of a call; whoever waits for the result of a call gets CancelledError."""
        if self._pool is not None:
            self._pool.close()

    def submit(self, work: Callable[..., T], *given: Any, worker: int | None = None) -> Future[T]:
        """Submit a call and return its future, which may be cancelled. `worker`: number of the local worker that has to
        run the call."""
        if self._pool is None:
            return _done_here(work, given)
        return self._pool.submit(pickle.dumps((work, given), protocol=pickle.HIGHEST_PROTOCOL), worker)

    def in_order(self, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """Yield the result of `work` for the arguments of each call, in the order of `calls`; a few calls are submitted
        ahead. Raises the error of a call, and LostError."""
        waiting: deque[Future[T]] = deque()
        for call in calls:
            waiting.append(self.submit(work, *call))
            if len(waiting) >= self._num_ahead():
                yield self.result(waiting.popleft())
        while waiting:
            yield self.result(waiting.popleft())

    def as_done(self, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, T]]:
        """Yield the index of each call and the result of `work` for its arguments, as the calls complete; a few calls
        are submitted ahead. Raises as `in_order`."""
        done: SimpleQueue[tuple[int, Future[T]]] = SimpleQueue()
        num_waiting = 0
        for number, call in enumerate(calls):
            future = self.submit(work, *call)
            future.add_done_callback(lambda each, number=number: done.put((number, each)))  # type: ignore[misc]
            num_waiting += 1
            if num_waiting >= self._num_ahead():
                num_waiting -= 1
                yield self._next(done)
        for _ in range(num_waiting):
            yield self._next(done)

    def result(self, future: Future[T]) -> T:
        """Return the result of a call. Raises the error of the call, LostError if its workers are lost, and
        CancelledError after `close` or if the future was cancelled."""
        found: T = future.result() if self._pool is None else self._pool.result(future)
        return found

    def _started(self) -> Pool:
        """Start the workers at the place."""
        if isinstance(self.place, Local) and not self.place.dashboard:
            return LocalProcesses(self.place.jobs)
        from simfrontier.base.workers.cluster import DaskWorkers

        pool = DaskWorkers(self.place, self._say)
        self._say(f"Dask's pages of what the workers do: {pool.dashboard}")
        return pool

    def _num_ahead(self) -> int:
        return 1 if self._pool is None else AHEAD * self.num_workers

    def _next(self, done: SimpleQueue[tuple[int, Future[T]]]) -> tuple[int, T]:
        number, future = done.get()
        return number, self.result(future)


def _done_here(work: Callable[..., T], given: tuple[Any, ...]) -> Future[T]:
    """Call a function in this process and return its result as a completed future."""
    done: Future[T] = Future()
    try:
        done.set_result(work(*given))
    except Exception as error:
        done.set_exception(error)
    return done


def on_stderr(text: str) -> None:
    """Write a status line to standard error."""
    sys.stderr.write(f"simfrontier: {text}\n")
    sys.stderr.flush()
