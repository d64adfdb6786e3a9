"""Data model of traces: one span for each op and rank (or class of equivalent ranks), with the digest of the executed
schedule; and of their display: processes with spans, arrows between spans, and counters over time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.base.io import NotNegative, read_json, typed
from simfrontier.base.wholefile import write_json

_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


def ranges_text(ranks: Sequence[int]) -> str:
    """Return ascending ranks as text, written as ranges of constant stride."""
    parts, at = [], 0
    while at < len(ranks):
        first, last, stride, stop = ranks[at], ranks[at], 1, at + 1
        if stop < len(ranks):
            stride = ranks[stop] - first
            while stop < len(ranks) and ranks[stop] - last == stride:
                last = ranks[stop]
                stop += 1
        if stop - at == 2 and stride > 1:  # two separate ranks, not a range
            last, stop = first, at + 1
        parts.append(f"{first}" if last == first else f"{first}-{last}" + (f":{stride}" if stride > 1 else ""))
        at = stop
    return ",".join(parts)


def ranks_of_text(text: str) -> tuple[int, ...]:
    """Parse a text written by `ranges_text`. Raises ValueError unless the ranks are ascending."""
    results: list[int] = []
    for part in text.split(",") if text else ():
        matched = _RANGE.fullmatch(part)
        if matched is None:
            raise ValueError(f"{part!r} is not a rank or a range of ranks, such as 0-7 or 0-28:4")
        first, last, stride = int(matched[1]), int(matched[2] or matched[1]), int(matched[3] or 1)
        if last < first or stride < 1 or (results and first <= results[-1]):
            raise ValueError(f"{part!r}: ranks do not ascend")
        results += range(first, last + 1, stride)
    return tuple(results)


SHOWN_DIGITS: Final = 16  # of a digest
CALIBRATION: Final = "calibration"  # note of a simulated trace: the file that its scenario names
OTHERS_SHARE: Final = "others_share"  # note of a real trace: share of the processors used by other programs
CALIBRATION_RESIDUAL: Final = "calibration_residual"  # note of a simulated trace: relative difference
# (median) between two measurements of the calibration's times
SIMULATED: Final = "simulated"  # the mode of a simulated trace, in its notes
HELD_RANKS: Final = "held_ranks"  # note of a real trace with the ops of some ranks only: these ranks, as text


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One op on one rank. Times are in seconds from the start of the step: when the rank was ready for the op, when the
    op started (all ranks of its group were ready), and when it ended.

    `op` is the index of the op in the rank's expanded program. `level` is the coarsest boundary that a collective
    crosses: package, intra_node or inter_node; "" for local work. `num_bytes` is the number of bytes that the rank
    sends, or the memory traffic of local work. `message_bytes` is the size of the call's messages, scales included,
    which does not depend on the algorithm; 0 for local work.
    """

    op: int
    lane: str
    kind: str
    name: str
    axes: str
    level: str
    call: str
    layer: int
    micro: int
    num_bytes: float
    message_bytes: float
    ready_s: float
    start_s: float
    end_s: float


def rank_text(members: Sequence[int], num_ranks: int) -> str:
    """Return a text for equivalent ranks: the lowest rank, and the number of ranks."""
    return f"rank {members[0]} (stands for {len(members):,} of {num_ranks:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All spans of a run, one list for each rank or class of equivalent ranks. `ranks`: a text for each list;
    `members`: the ranks of each list, ascending. `notes`: origin of the times (machine, backend, iterations …)."""

    digest: str
    title: str
    ranks: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[Span, ...], ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def step_s(self) -> float:
        """Time at which the last op of any rank ends, in seconds."""
        return max((span.end_s for spans in self.spans for span in spans), default=0.0)


# ── display ──

Place = tuple[int, int]  # the number of a process, and of one of its spans


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process:
    """One rank or several equivalent ranks, displayed as one process. `spans` describe the process's ops. Processes
    that run the same program may share one list of spans, whose times are those of the first of these processes; the
    process's own times, in seconds, are in the arrays [num_spans]."""

    name: str
    members: tuple[int, ...]
    spans: Sequence[Span]
    ready_s: Floats
    start_s: Floats
    end_s: Floats


@dataclass(frozen=True, slots=True)
class Arrow:
    """Arrow from one span to another span of the same collective call, in another process."""

    source: Place
    target: Place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counter:
    """Named values over time [num_times]; each value is valid from its time to the next time. `process`: the process to
    which the values belong, None for the whole job."""

    name: str
    process: int | None
    times_s: Sequence[float]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A labelled instant of the whole job."""

    time_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceFile:
    """A trace for display (see `Trace`), with arrows, counters and marks. `notes` also list omissions."""

    digest: str
    title: str
    processes: Sequence[Process]
    arrows: Sequence[Arrow] = ()
    counters: Sequence[Counter] = ()
    marks: Sequence[Mark] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def first(self) -> Trace:
        """Trace of the first process only; the spans have this process's own times."""
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
    """Equivalent ranks that wait for others in collective calls, and the times at which they were ready for each op."""

    @property
    def members(self) -> tuple[int, ...]: ...

    @property
    def ready_s(self) -> Floats: ...


def arrows_from_last(ranks: Sequence[Waiting], places: Sequence[Place]) -> Iterator[Arrow]:
    """Yield arrows between the spans of one collective call: from the rank that was ready last (compared to the
    nanosecond; if several were, the lowest) to the other ranks, which waited for it."""

    def arrival(place: Place) -> tuple[int, int]:
        waiting = ranks[place[0]]
        return -round(float(waiting.ready_s[place[1]]) * 1e9), waiting.members[0]

    last = min(places, key=arrival)
    return (Arrow(last, place) for place in places if place != last)


def file_of(trace: Trace) -> TraceFile:
    """Return a trace as a `TraceFile` without arrows; its processes have the numbers of the trace's lists of spans."""
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


# ── links ──


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBytes:
    """Bytes that one direction of a link carries in a step, between two named components ("node 0 gcd 1", "node 0
    nic0", "net").

    `name` is the simulator's name of the link, e.g. "node 0 xgmi 0>1"; measured bytes are a mean over steps.
    """

    name: str
    link_class: str
    src: str
    dst: str
    num_bytes: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTable:
    """Bytes carried by every link of a job in one step of the schedule with digest `digest`; `title`: the source of the
    bytes."""

    digest: str
    title: str
    links: tuple[LinkBytes, ...]


def save_links(table: LinkTable, path: Path) -> None:
    """Write the table to a file as JSON, atomically. Raises InputError if the file cannot be written."""
    write_json(asdict(table), path)


def load_links(path: Path) -> LinkTable:
    """Read a table written by `save_links`. Raises InputError for an invalid file."""
    return typed(read_json(path, "table of links"), LinkTable, str(path))
