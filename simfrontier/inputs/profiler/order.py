"""Dependencies of a rank's kernels: the kernel before each on its stream, and others.

Where the trace has the waits of streams for events, these say it. Where not, times do: a kernel that starts on an idle
stream waited for what ended last on another stream while its own was idle. What is left between the last end that it
waits for and its start is the host, which had not launched it: a pause that stays as long as it was.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from simfrontier.inputs.profiler.rank_trace import EventWait, Kernel, RankTrace

_LOOKED_AT: Final = 64  # kernels that ended before one starts; those of its own stream among them are passed over
END: Final = "end of the step"
Ahead = Literal["", "whole", "part"]
_Latest = dict[str, int]  # by stream, its last kernel that something waits for


@dataclass(frozen=True, slots=True)
class Placed:
    """A kernel in the order of launches: the kernels of other streams whose ends it waits for, and the pause before
    it, in seconds. `ahead`: launched so early that it runs, whole or in part, beside the previous step, and placed
    behind all others as the same work of the next step."""

    kernel: Kernel
    waits: tuple[int, ...]
    pause_s: float
    ahead: Ahead


def placed(trace: RankTrace, with_end: bool = False) -> list[Placed]:
    """The kernels of a rank with what they wait for; `with_end`: and one without length behind all of them, before
    which the host does what it does when the step's last kernel has ended."""
    kernels, ahead = _within(trace)
    first_ahead = len(kernels)
    kernels += [*(kernel for kernel, _ in ahead), *([_end(trace)] if with_end else [])]
    waits = _by_times(kernels, trace.tick_s) if trace.waits is None else _by_events(kernels, trace.waits)
    out, last = [], dict[str, int]()
    for index, (kernel, others) in enumerate(zip(kernels, waits, strict=True)):
        mine = [last[kernel.stream]] if kernel.stream in last else []
        if with_end and index == len(kernels) - 1:
            others = [other for stream, other in last.items() if stream != kernel.stream]
        others = [other for other in others if not _is_before(kernels[other], trace)]
        free_s = max([trace.begin_s, *(kernels[other].end_s for other in (*mine, *others))])
        pause_s = kernel.start_s - free_s
        how = ahead[index - first_ahead][1] if first_ahead <= index < first_ahead + len(ahead) else ""
        out.append(Placed(kernel, tuple(sorted(others)), pause_s if pause_s >= trace.tick_s else 0.0, how))
        last[kernel.stream] = index
    return out


def _within(trace: RankTrace) -> tuple[list[Kernel], list[tuple[Kernel, Ahead]]]:
    """The kernels of the time from the step's begin to its end: those of the step from its begin on, and, a period
    later, those that ran before it, which stand for the next step's; of one that runs then, a part is each. Calls stay
    as they are, in the order that all ranks of a group have in common, and so do kernels behind them on their
    stream."""
    inside: list[Kernel] = []
    before: list[tuple[Kernel, Ahead]] = []
    streams_with_calls, streams_cut = set[str](), set[str]()
    for kernel in trace.kernels:
        if kernel.call is not None:
            streams_with_calls.add(kernel.stream)
        elif _is_before(kernel, trace) and kernel.stream not in streams_with_calls:
            before.append((kernel, "whole"))
            continue
        elif kernel.start_s < trace.begin_s < kernel.end_s:
            if kernel.stream not in streams_cut:
                streams_cut.add(kernel.stream)
                before.append((replace(kernel, end_s=trace.begin_s), "part"))
            kernel = replace(kernel, start_s=trace.begin_s)
        inside.append(kernel)
    free = {kernel.stream: kernel.end_s for kernel in inside}
    ahead: list[tuple[Kernel, Ahead]] = []
    for number, (kernel, how) in enumerate(before, 1):
        start_s = max(kernel.start_s + trace.step_s, free.get(kernel.stream, trace.begin_s))
        end_s = free[kernel.stream] = start_s + kernel.end_s - kernel.start_s
        order = inside[-1].order + number / (len(before) + 1)  # before all calls of the host in the next step
        ahead.append((replace(kernel, start_s=start_s, end_s=end_s, order=order), how))
    return inside, ahead


def _is_before(kernel: Kernel, trace: RankTrace) -> bool:
    return kernel.start_s < trace.begin_s and kernel.end_s <= trace.begin_s


def _end(trace: RankTrace) -> Kernel:
    """Return a kernel without length that marks the end of a step, on the stream of its first kernel."""
    last = trace.kernels[-1].order
    return Kernel(name=END, stream=trace.kernels[0].stream, start_s=trace.end_s, end_s=trace.end_s, order=last + 1.0)


def _by_events(kernels: Sequence[Kernel], waits: Sequence[EventWait]) -> list[list[int]]:
    """An event is behind all that its stream was given before it was recorded: the last kernel, and what the stream
    itself waits for without a kernel since. All calls of the host are gone through in their order."""
    records = {wait.record: wait.on_stream for wait in waits}
    calls: list[tuple[float, int, int | str | EventWait]] = [(kernel.order, 1, i) for i, kernel in enumerate(kernels)]
    calls += [(order, 0, stream) for order, stream in records.items()]
    calls += [(wait.order, 0, wait) for wait in waits]
    out: list[list[int]] = [[] for _ in kernels]
    behind: dict[str, _Latest] = {}  # of a stream, what a next event on it is behind
    pending: dict[str, _Latest] = {}  # and what its next kernel waits for
    recorded: dict[float, _Latest] = {}
    for order, _, call in sorted(calls, key=lambda each: each[:2]):
        match call:
            case int():
                stream = kernels[call].stream
                out[call] = [index for other, index in pending.pop(stream, {}).items() if other != stream]
                behind[stream] = {stream: call}
            case str():
                recorded[order] = dict(behind.get(call, {}))
            case EventWait():
                found = recorded.get(call.record, {})
                _merge(behind.setdefault(call.stream, {}), found)
                _merge(pending.setdefault(call.stream, {}), found)
    return out


def _merge(known: _Latest, found: _Latest) -> None:
    for stream, index in found.items():
        known[stream] = max(index, known.get(stream, -1))


def _by_times(kernels: Sequence[Kernel], tick_s: float) -> list[list[int]]:
    by_end = sorted(range(len(kernels)), key=lambda index: kernels[index].end_s)
    ends = [kernels[index].end_s for index in by_end]
    out: list[list[int]] = []
    free: dict[str, float] = {}
    for index, kernel in enumerate(kernels):
        place = bisect_left(ends, kernel.start_s + tick_s) - 1
        since = free.get(kernel.stream, float("-inf"))
        found: list[int] = []
        for back in range(place, max(-1, place - _LOOKED_AT), -1):
            other = by_end[back]
            if ends[back] <= since + tick_s:
                break
            if kernels[other].stream != kernel.stream and other < index:
                found.append(other)
                break
        out.append(found)
        free[kernel.stream] = kernel.end_s
    return out
