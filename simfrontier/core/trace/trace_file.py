"""Contents of a trace file: processes with their spans, arrows between spans, and counters over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from simfrontier.core.trace.table import Span, Trace

if TYPE_CHECKING:
    from simfrontier.base.arrays import Floats

Place = tuple[int, int]  # the number of a process, and of one of its spans


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process:
    """A rank, or several that stand for each other. `spans` say what each op is: processes that run one program may
    share the list, whose times are those of the first of them. Times in seconds are in the arrays [num_spans]."""

    name: str
    members: tuple[int, ...]
    spans: Sequence[Span]
    ready_s: Floats
    start_s: Floats
    end_s: Floats


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one span to another of the same call, in other processes."""

    source: Place
    target: Place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counter:
    """Named values over time [num_times], each from its time to the next; `process`: whose they are, None where they
    are those of the whole job."""

    name: str
    process: int | None
    times_s: Sequence[float]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An annotated moment of the whole job."""

    time_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceFile:
    """A trace (see `Trace`) as it is drawn: with arrows, counters and marks. `notes` also say what was left out."""

    digest: str
    title: str
    processes: Sequence[Process]
    arrows: Sequence[Arrow] = ()
    counters: Sequence[Counter] = ()
    marks: Sequence[Mark] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def first(self) -> Trace:
        """Trace of the first process alone, whose spans have its own times."""
        process = self.processes[0]
        return Trace(
            digest=self.digest,
            title=self.title,
            ranks=(process.name,),
            members=(process.members,),
            spans=(tuple(process.spans),),
            notes=self.notes,
        )


class Waiting(Protocol):
    """Ranks that wait in calls, and when they were ready for each op."""

    @property
    def members(self) -> tuple[int, ...]: ...

    @property
    def ready_s(self) -> Floats: ...


def arrows_from_last(ranks: Sequence[Waiting], places: Sequence[Place]) -> Iterator[Arrow]:
    """Yield arrows between the spans of one call: from the rank that was ready last (to the nanosecond; of equals the
    lowest) to the others, which waited for it."""

    def arrival(place: Place) -> tuple[int, int]:
        waiting = ranks[place[0]]
        return -round(float(waiting.ready_s[place[1]]) * 1e9), waiting.members[0]

    last = min(places, key=arrival)
    return (Arrow(last, place) for place in places if place != last)


def file_of(trace: Trace) -> TraceFile:
    """Return a trace as a file without arrows; its processes are numbered as the trace's ranks."""
    import numpy as np

    each = zip(trace.ranks, trace.members, trace.spans, strict=True)
    return TraceFile(
        digest=trace.digest,
        title=trace.title,
        processes=[
            Process(
                name=name,
                members=members,
                spans=spans,
                ready_s=np.array([span.ready_s for span in spans], float),
                start_s=np.array([span.start_s for span in spans], float),
                end_s=np.array([span.end_s for span in spans], float),
            )
            for name, members, spans in each
        ],
        notes=trace.notes,
    )
