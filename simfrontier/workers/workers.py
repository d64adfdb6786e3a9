"""Calls of functions on workers: in order, or as they are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from simfrontier.workers.garbage import Garbage
from simfrontier.workers.place import Local, Place

if TYPE_CHECKING:
    from simfrontier.workers.dask_client import DaskClient

T = TypeVar("T")
AHEAD = 3  # calls for each worker that are handed out before their results are asked for


class Workers:
    """Workers at a place, each prepared by `begin(*given)`. To be used with `with`: at its end they are ended, whatever
    they do, because after an error their calls may take long and their results are not needed.

    `say` hears what is waited for (a job of Slurm), and the address of Dask's pages where there are some; otherwise
    these are lines on standard error.

    Functions, what they are called with and what they give have to be picklable: functions of modules, frozen values.
    A call whose worker is lost is done again by another, which is prepared as well."""

    def __init__(
        self,
        place: Place,
        begin: Callable[..., None] | None = None,
        given: tuple[Any, ...] = (),
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.place, self._begin, self._given, self._say = place, begin, given, say
        self._client: DaskClient | None = None
        self._opened, self._garbage = ExitStack(), Garbage()
        self.num_workers = 1  # how many calls are worked on at once; known once they are started
        self.dashboard = ""  # the address of Dask's pages, where there are some

    def __enter__(self) -> Self:
        if isinstance(self.place, Local) and self.place.is_here:
            if self._begin is not None:
                self._begin(*self._given)
            return self
        from simfrontier.workers.started import on_stderr, started

        say = self._say or on_stderr
        with ExitStack() as opened:
            self._client, self.num_workers, self.dashboard = started(self.place, self._begin, self._given, opened, say)
            if self.dashboard:
                say(f"Dask's pages of what the workers do: {self.dashboard}")
            self._opened = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, whatever they do: who waits for a call gets CancelledError."""
        self._opened.close()

    def submit(self, work: Callable[..., T], *given: Any, worker: int | None = None) -> Future[T]:
        """A call whose result is awaited by whoever asks for it, and which may be cancelled. `worker`: the number of
        the one, of those of this machine, that does it. The future raises what the call raised, and LostError. Raises
        ValueError for a worker that is none of this machine's."""
        if worker is not None and not (isinstance(self.place, Local) and 0 <= worker < self.place.jobs):
            raise ValueError(f"worker {worker} of {self.place}")  # the call would wait for it for ever
        if self._client is not None:
            return self._client.submit(work, given, worker)
        done: Future[T] = Future()
        try:
            done.set_result(work(*given))
        except Exception as error:
            done.set_exception(error)
        self._garbage.collect()
        return done

    def in_order(self, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """What `work` gives for each call's arguments, in the order of the calls, of which a few are taken ahead.
        Raises as futures of `submit`."""
        waiting: deque[Future[T]] = deque()
        for call in calls:
            waiting.append(self.submit(work, *call))
            if len(waiting) >= self._num_ahead():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def as_done(self, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, T]]:
        """The number of each call and what `work` gives for its arguments, as they are done; calls are taken a few
        ahead. Raises as `in_order`."""
        done: SimpleQueue[tuple[int, Future[T]]] = SimpleQueue()
        num_waiting = 0
        for number, call in enumerate(calls):
            future = self.submit(work, *call)
            future.add_done_callback(lambda each, number=number: done.put((number, each)))  # type: ignore[misc]
            num_waiting += 1
            if num_waiting >= self._num_ahead():
                num_waiting -= 1
                yield _result(done)
        for _ in range(num_waiting):
            yield _result(done)

    def _num_ahead(self) -> int:
        return 1 if self._client is None else AHEAD * self.num_workers


def _result(done: SimpleQueue[tuple[int, Future[T]]]) -> tuple[int, T]:
    number, future = done.get()
    return number, future.result()
