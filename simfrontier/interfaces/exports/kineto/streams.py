"""Lanes of a simulated program as streams of a device: launches, records of events, and waits for them.

A wait of an op for those of another lane is CUDA's: an event is recorded behind what is waited for, and the stream
waits for the event. Waits for the host's lane, and its own ops, are no stream's: there a kernel is launched late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from simfrontier.core.program import HOST, ExpandedProgram

_COMPUTE: Final = "compute"
_FIRST_STREAM: Final = 7  # PyTorch's traces show the default stream under this number
_OTHERS_FROM: Final = 20


@dataclass(frozen=True, slots=True)
class Launched:
    """Op `index` of the program, put on a stream by the host's call of that correlation."""

    index: int
    stream: int
    correlation: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event recorded on a stream, behind all that was put on it before; by the host's call of that correlation."""

    stream: int
    correlation: int


@dataclass(frozen=True, slots=True)
class Waited:
    """From here on a stream waits for the event that the call `record` records on another."""

    stream: int
    on_stream: int
    record: int
    correlation: int
    before: int


StreamCall = Launched | Recorded | Waited


def streams_of(lanes: Sequence[str]) -> dict[int, int]:
    """Return the stream of each lane, by the lane's number; none for the host's."""
    out: dict[int, int] = {}
    for number, lane in enumerate(lanes):
        if lane != HOST:
            out[number] = _FIRST_STREAM if lane == _COMPUTE else _OTHERS_FROM + number
    return out


def stream_calls(program: ExpandedProgram, takes_time: Sequence[bool]) -> Iterator[StreamCall]:
    """Yield the host's calls, in the order of the program; an op that takes no time is only a wait of its stream."""
    streams = streams_of(program.lanes)
    targets = _targets(program, streams)
    records: dict[tuple[int, int], int] = {}
    waited: dict[int, dict[int, int]] = {lane: {} for lane in streams}  # the most that a stream waits for already
    correlation = 0
    for index, lane in enumerate(program.lane):
        if lane not in streams:
            continue
        for other, count in program.waits[index]:
            if other in streams and waited[lane].get(other, 0) < count:
                waited[lane][other] = count
                correlation += 1
                record = records[other, count]
                yield Waited(streams[lane], streams[other], record, correlation, index)
        if takes_time[index]:
            correlation += 1
            yield Launched(index, streams[lane], correlation)
        if (place := (lane, program.position[index] + 1)) in targets:
            correlation += 1
            records[place] = correlation
            yield Recorded(streams[lane], correlation)


def _targets(program: ExpandedProgram, streams: dict[int, int]) -> set[tuple[int, int]]:
    """(lane, number of its ops) that some op of another stream waits for."""
    return {
        wait
        for lane, waits in zip(program.lane, program.waits, strict=True)
        if lane in streams
        for wait in waits
        if wait[0] in streams
    }
