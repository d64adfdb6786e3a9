"""Calls of functions on workers: in order, or as they are done; values that each process makes for itself."""

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
    """A value among a call's arguments that is not sent: `make(*given)`, made by each process when a call there first
    asks for it, and kept for the calls that follow. `here`: what this process has already.

    Results must not depend on what is kept: it is a matter of time alone.
    """

    def __init__(self, make: Callable[..., T], *given: Any, here: T | None = None, name: str = "") -> None:
        self._make, self._given, self._here = make, given, here
        self._name = name or uuid4().hex

    @property
    def here(self) -> T:
        """The value of this process."""
        if self._here is None:
            self._here = self._make(*self._given)
        return self._here

    def __reduce__(self) -> tuple[Callable[..., PerProcess[T]], tuple[Any, ...]]:
        return _arrived, (self._name, self._make, *self._given)


def _arrived(name: str, make: Callable[..., T], *given: Any) -> PerProcess[T]:
    """Return, in a worker, the value that came with an earlier call, or a new one."""
    known = _kept.get(name)
    if known is None:
        known = _kept[name] = PerProcess(make, *given, name=name)
    _kept.move_to_end(name)
    if len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return known


class LostError(SimfrontierError):
    """Raised when a worker or the scheduler is lost; what was completed by then stays."""


class Workers:
    """Workers at a place. To be used with `with`: at its end they are ended, whatever they do, because after an error
    their calls may take long and their results are not needed.

    `say` hears what is waited for (a job of Slurm), and the address of Dask's pages where there are some; by default
    these are lines on standard error.

    Functions, their arguments and results have to be picklable: functions of modules, frozen values. A call whose
    worker is lost is done again by another, as often as Dask tries (`distributed.scheduler.allowed-failures`)."""

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
        """End the workers, whatever they do: who waits for a call gets CancelledError."""
        self._is_closed = True
        self._opened.close()

    def submit(self, work: Callable[..., T], *given: Any, worker: int | None = None) -> Future[T]:
        """Return the future of a call, which may be cancelled. `worker`: the number of the one, of those of this
        machine, that does it."""
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
        """Yield what `work` gives for each call's arguments, in the order of the calls, of which a few are taken ahead.
        Raises what the call raised, and LostError."""
        waiting: deque[Future[T]] = deque()
        for call in calls:
            waiting.append(self.submit(work, *call))
            if len(waiting) >= self._num_ahead():
                yield self.result(waiting.popleft())
        while waiting:
            yield self.result(waiting.popleft())

    def as_done(self, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, T]]:
        """Yield the number of each call and what `work` gives for its arguments, as they are done; calls are taken a
        few ahead. Raises as `in_order`."""
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
        """Return a client of the workers at the place, which end with `opened`."""
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
        """Return what a call gave. Raises what it raised, LostError where its workers are gone, and CancelledError
        after `close` or where the future was cancelled."""
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
        """Let all calls that wait, and those to come, end with this error."""
        self._lost = why
        _close(self._client)
        self._cancel()

    def _cancel(self) -> None:
        for future in tuple(self._waiting):
            future.cancel()


def _done_here(work: Callable[..., T], given: tuple[Any, ...]) -> Future[T]:
    """Return the future of a call that this process has done."""
    done: Future[T] = Future()
    try:
        done.set_result(work(*given))
    except Exception as error:
        done.set_exception(error)
    return done


def _called(pickled: bytes) -> Any:
    """Do a call in a worker."""
    work, given = pickle.loads(pickled)
    return work(*given)


def _close(client: Any) -> None:
    with suppress(Exception):
        client.close(timeout=2)


def on_stderr(text: str) -> None:
    """Write a line for whoever waits."""
    sys.stderr.write(f"simfrontier: {text}\n")
    sys.stderr.flush()
