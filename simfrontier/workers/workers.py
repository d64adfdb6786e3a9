"""Calls of functions on workers: in order, or as they are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from simfrontier.errors import SimfrontierError
from simfrontier.workers.place import Place

T = TypeVar("T")
AHEAD = 3  # calls for each worker that are handed out before their results are asked for


class WorkerLostError(SimfrontierError):
    """A worker process was ended from outside, and so were those that did its call after it."""


class Workers:
    """Workers at a place, each prepared by `begin(*given)`. To be used with `with`: after an error they are ended,
    because their calls may take long and their results are not needed.

    Functions and what they are called with have to be importable, and picklable, by the workers: functions of modules,
    frozen values. A call whose worker is lost is done again by another."""

    def __init__(self, place: Place, begin: Callable[..., None] | None = None, given: tuple[Any, ...] = ()) -> None:
        self.place, self._begin, self._given = place, begin, given
        self._client: Any = None

    @property
    def num_workers(self) -> int:
        """How many calls are worked on at once."""
        return self.place.jobs

    def __enter__(self) -> Self:
        if self.num_workers > 1:
            from simfrontier.workers.dask_client import started

            self._client = started(self.place, self._begin, self._given)
        elif self._begin is not None:
            self._begin(*self._given)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if self._client is not None:
            self._client.close()

    def close(self) -> None:
        """End the workers, whatever they do: who waits for a call gets CancelledError."""
        if self._client is not None:
            self._client.end()

    def submit(self, work: Callable[..., T], *given: Any, worker: int | None = None) -> Future[T]:
        """A call whose result is awaited by whoever asks for it: as long as somebody holds the future, the call is
        done. `worker`: the number of the one that does it."""
        if self._client is not None:
            return self._client.submit(work, *given, on=worker)  # type: ignore[no-any-return]
        done: Future[T] = Future()
        try:
            done.set_result(work(*given))
        except Exception as error:
            done.set_exception(error)
        return done

    def in_order(self, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """What `work` gives for each call's arguments, in the order of the calls, of which a few are taken ahead.
        Raises what a call raised, and WorkerLostError."""
        waiting: deque[Future[T]] = deque()
        for call in calls:
            waiting.append(self.submit(work, *call))
            if len(waiting) >= AHEAD * self.num_workers or self._client is None:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def as_done(self, work: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, T]]:
        """The number of each call and what `work` gives for its arguments, as they are done; calls are taken a few
        ahead. Raises as `in_order`."""
        yield from enumerate(self.in_order(work, calls))  # for the time being
