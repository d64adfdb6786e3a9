"""Function calls on workers, with results in order or as they complete, and values that each process constructs for
itself."""

from __future__ import annotations

import pickle
import sys
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from itertools import count
from queue import SimpleQueue
from typing import Any, Final, Generic, Self, TypeVar
from uuid import uuid4

from simfrontier.base.errors import SimfrontierError
from simfrontier.base.workers.local import SETTINGS, connected, local_cluster, resource_of, silence, without_stops
from simfrontier.base.workers.place import Local, Place, RunningScheduler, SlurmJobs
from simfrontier.base.workers.slurm import slurm_cluster

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


class LostError(SimfrontierError):
    """Raised when a worker or the scheduler is lost; results completed before then are kept."""


class Workers:
    """Context manager of workers at a place. At the end of the `with` block the workers are stopped even in the middle
    of a call, because after an error the remaining calls may take long and their results are not needed.

    `say` receives status messages: that workers are awaited (of a Slurm job), and the address of Dask's dashboard, if
    there is one; by default these are written to standard error.

    Functions, arguments and results must be picklable: functions of modules, immutable objects. A call whose worker is
    lost is repeated by another worker, as often as Dask allows (`distributed.scheduler.allowed-failures`).
    """

    def __init__(self, place: Place, say: Callable[[str], None] | None = None) -> None:
        self.place, self._say = place, say or on_stderr
        self._client: Any = None
        self._opened, self._numbers = ExitStack(), count()
        self._name = f"call-{uuid.uuid4().hex}"
        self._waiting = set[Future[Any]]()
        self._lost, self._is_closed = "", False
        self.num_workers = 1  # calls that are worked on at once; known once the workers are started
        self.dashboard = ""  # the address of Dask's pages, where there are some

    def __enter__(self) -> Self:
        if isinstance(self.place, Local) and self.place.is_here:
            return self
        with ExitStack() as opened:
            self._client = self._started(opened)
            opened.callback(self._cancel)
            if not isinstance(self.place, Local) or self.place.dashboard:
                self.dashboard = str(self._client.dashboard_link)
                self._say(f"Dask's pages of what the workers do: {self.dashboard}")
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers even in the middle of a call; whoever waits for the result of a call gets CancelledError."""
        self._is_closed = True
        self._opened.close()

    def submit(self, work: Callable[..., T], *given: Any, worker: int | None = None) -> Future[T]:
        """Submit a call and return its future, which may be cancelled. `worker`: number of the local worker that has to
        run the call."""
        if self._client is None:
            return _done_here(work, given)
        chosen = {} if worker is None else {"resources": {resource_of(worker): 1}}
        executor = self._client.get_executor(pure=False, **chosen)
        # Pickled here, so that Dask does not look through the arguments; a key of two parts is one group to it.
        call = pickle.dumps((work, given), protocol=pickle.HIGHEST_PROTOCOL)
        future: Future[T] = executor.submit(_called, call, key=(self._name, next(self._numbers)))
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

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

    def _started(self, opened: ExitStack) -> Any:
        """Start the workers at the place and return a Dask client of them; closing `opened` stops them."""
        import dask
        import distributed

        opened.enter_context(dask.config.set(SETTINGS))
        silence()
        match self.place:
            case RunningScheduler(address=address):
                client = connected(address)
                opened.callback(_close, client)
                self.num_workers = len(client.nthreads())
                return client
            case Local(jobs=jobs):
                self.num_workers = jobs
                cluster = opened.enter_context(local_cluster(self.place))
            case SlurmJobs(settings=settings):
                self.num_workers = settings.num_workers
                cluster = opened.enter_context(slurm_cluster(settings, self._say, self._give_up))
        client_of: Any = distributed.Client
        with without_stops():
            client = client_of(cluster, set_as_default=False)
            opened.callback(_close, client)
        while not client.nthreads():
            if self._lost:
                raise LostError(self._lost)
            time.sleep(0.1)
        return client

    def result(self, future: Future[T]) -> T:
        """Return the result of a call. Raises the error of the call, LostError if its workers are lost, and
        CancelledError after `close` or if the future was cancelled."""
        if self._client is None:
            return future.result()
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            raise LostError(
                "a worker process was ended from outside, again and again at the same call (out of memory?); allowed: "
                "fewer --jobs, if memory was short"
            ) from None
        except CancelledError:
            if self._is_closed or self._client.status == "running":
                raise
            raise LostError(self._lost or "the scheduler of the workers is gone") from None

    def _num_ahead(self) -> int:
        return 1 if self._client is None else AHEAD * self.num_workers

    def _next(self, done: SimpleQueue[tuple[int, Future[T]]]) -> tuple[int, T]:
        number, future = done.get()
        return number, self.result(future)

    def _give_up(self, why: str) -> None:
        """Make all waiting and all later calls fail with LostError, with the reason `why`."""
        self._lost = why
        _close(self._client)
        self._cancel()

    def _cancel(self) -> None:
        for future in tuple(self._waiting):
            future.cancel()


def _done_here(work: Callable[..., T], given: tuple[Any, ...]) -> Future[T]:
    """Call a function in this process and return its result as a completed future."""
    done: Future[T] = Future()
    try:
        done.set_result(work(*given))
    except Exception as error:
        done.set_exception(error)
    return done


def _called(pickled: bytes) -> Any:
    """Run a pickled call in a worker process."""
    work, given = pickle.loads(pickled)
    return work(*given)


def _close(client: Any) -> None:
    with suppress(Exception):
        client.close(timeout=2)


def on_stderr(text: str) -> None:
    """Write a status line to standard error."""
    sys.stderr.write(f"simfrontier: {text}\n")
    sys.stderr.flush()
