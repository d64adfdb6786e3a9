"""What each kernel of a rank waits for: the one before it on its stream, and others.

Where the trace has the waits of streams for events, these say it. Where not, times do: a kernel that starts on an idle
stream waited for what ended last on another stream while its own was idle. What is left between the last end that it
waits for and its start is the host, which had not launched it: a pause that stays as long as it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from simfrontier.kineto.rank_trace import EventWait, Kernel, RankTrace
from simfrontier.records import dataclass

_LEAST_S: Final = 1e-9  # the profiler's clock ticks in nanoseconds: a shorter pause is none
_LOOKED_AT: Final = 64  # kernels that ended before one starts; those of its own stream among them are passed over


@dataclass(frozen=True, slots=True)
class Placed:
    """A kernel in the order of launches: the kernels of other streams whose ends it waits for, and the pause before
    it, in seconds."""

    kernel: Kernel
    waits: tuple[int, ...]
    pause_s: float


def placed(trace: RankTrace) -> list[Placed]:
    """The kernels of a rank with what they wait for."""
    kernels = trace.kernels
    waits = _by_times(kernels) if trace.waits is None else _by_events(kernels, trace.waits)
    out, last = [], dict[str, int]()
    for index, (kernel, others) in enumerate(zip(kernels, waits, strict=True)):
        mine = [last[kernel.stream]] if kernel.stream in last else []
        free_s = max([kernels[other].end_s for other in (*mine, *others)], default=trace.begin_s)
        pause_s = kernel.start_s - free_s
        out.append(Placed(kernel, tuple(sorted(others)), pause_s if pause_s >= _LEAST_S else 0.0))
        last[kernel.stream] = index
    return out


def _by_events(kernels: Sequence[Kernel], waits: Sequence[EventWait]) -> list[list[int]]:
    """An event is behind all that its stream was given before it was recorded: the last kernel, and what the stream
    itself waits for without a kernel since."""
    on: dict[str, list[int]] = {}
    for index, kernel in enumerate(kernels):
        on.setdefault(kernel.stream, []).append(index)
    orders = {stream: [kernels[index].order for index in own] for stream, own in on.items()}
    out: list[list[int]] = [[] for _ in kernels]
    pending: dict[str, list[tuple[float, list[int]]]] = {}  # of a stream, its waits so far: order, kernels
    for wait in sorted(waits, key=lambda each: each.order):
        found: list[int] = []
        before = bisect_left(orders.get(wait.on_stream, []), wait.record)
        if before:
            found.append(on[wait.on_stream][before - 1])
        since = orders[wait.on_stream][before - 1] if before else float("-inf")
        for order, indices in pending.get(wait.on_stream, []):
            if since < order < wait.record:
                found += indices
        if not found:
            continue
        pending.setdefault(wait.stream, []).append((wait.order, found))
        after = bisect_left(orders.get(wait.stream, []), wait.order)
        if after < len(on.get(wait.stream, [])):
            out[on[wait.stream][after]] += [index for index in found if kernels[index].stream != wait.stream]
    return [_latest(kernels, index, others) for index, others in enumerate(out)]


def _latest(kernels: Sequence[Kernel], index: int, others: Sequence[int]) -> list[int]:
    """Of each other stream the last, of those that were launched before."""
    last: dict[str, int] = {}
    for other in others:
        if other < index:
            last[kernels[other].stream] = max(other, last.get(kernels[other].stream, -1))
    return list(last.values())


def _by_times(kernels: Sequence[Kernel]) -> list[list[int]]:
    by_end = sorted(range(len(kernels)), key=lambda index: kernels[index].end_s)
    ends = [kernels[index].end_s for index in by_end]
    out: list[list[int]] = []
    free: dict[str, float] = {}
    for index, kernel in enumerate(kernels):
        place = bisect_left(ends, kernel.start_s + _LEAST_S) - 1
        since = free.get(kernel.stream, float("-inf"))
        found: list[int] = []
        for back in range(place, max(-1, place - _LOOKED_AT), -1):
            other = by_end[back]
            if ends[back] <= since + _LEAST_S:
                break
            if kernels[other].stream != kernel.stream and other < index:
                found.append(other)
                break
        out.append(found)
        free[kernel.stream] = kernel.end_s
    return out
