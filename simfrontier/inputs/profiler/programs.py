"""Programs of a traced job's ranks: the ops by lane, the waits between ops, and the sets of ranks that run the same
program."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, NamedTuple

from simfrontier.base.errors import InputError
from simfrontier.inputs.profiler.mesh import GroupAxes
from simfrontier.inputs.profiler.rank_trace import EventWait, GroupCall, Kernel, RankTrace, SimulatedExchange

_LOOKED_AT: Final = 64  # kernels that ended before one starts; those of its own stream among them are passed over
END: Final = "end of the step"
COMPUTE: Final = "compute"
Ahead = Literal["", "whole", "part"]
_Latest = dict[str, int]  # by stream, its last kernel that something waits for


class CallKey(NamedTuple):
    """Facts on which all ranks of a communication call agree: its kind, its axes, the coordinates of sender and
    receiver of a message, the bytes of the whole message, and its data type, or facts that a simulation recorded."""

    meaning: str
    axes: tuple[str, ...]
    ends: tuple[int, int] | None
    num_bytes: int
    how: str

    def __str__(self) -> str:
        return f"{self.meaning} of {self.num_bytes:,} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOp:
    """A kernel in the order of launches, with the kernels of other streams for whose ends it waits, and the pause
    before it in seconds. `ahead` says whether the kernel was launched so early that it overlaps with the previous step,
    in whole or in part; such a kernel is placed after all others, as the same work for the next step.

    On a mesh the op also has its lane; a communication call has the axes that it spans; and a message has the
    coordinates of sender and receiver (`ends`) and that of the rank itself (`seat`).
    """

    kernel: Kernel
    waits: tuple[int, ...]
    pause_s: float
    ahead: Ahead
    lane: str = ""
    axes: tuple[str, ...] = ()
    ends: tuple[int, int] | None = None
    seat: int | None = None

    @property
    def call_key(self) -> CallKey:
        """Facts on which all ranks of the communication call agree."""
        call = self.kernel.call
        assert call is not None, "a kernel without communication has no key"
        if self.ends is not None:
            return CallKey("message", self.axes, self.ends, call.num_bytes, "")
        return CallKey(
            call.meaning, self.axes, None, call.num_bytes, call.dtype if call.own is None else repr(call.own)
        )


# ── waits ──


def placed(trace: RankTrace, with_end: bool = False) -> list[ProgramOp]:
    """Return the kernels of a rank with the kernels for which they wait. With `with_end`, a kernel of zero length
    follows behind all others; the host's work after the end of the step's last kernel comes before it."""
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
        pause_s = pause_s if pause_s >= trace.tick_s else 0.0
        out.append(ProgramOp(kernel=kernel, waits=tuple(sorted(others)), pause_s=pause_s, ahead=how))
        last[kernel.stream] = index
    return out


def _within(trace: RankTrace) -> tuple[list[Kernel], list[tuple[Kernel, Ahead]]]:
    """Return the kernels between the begin and the end of the step. Kernels that ran before the begin are moved one
    period later, where they stand for those of the next step; a kernel that runs at the begin is split into two parts.
    Communication calls stay where they are, in the order that all ranks of a group share, and so do the kernels behind
    them on their stream."""
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
    """Return a kernel of zero length that marks the end of a step, on the stream of the step's first kernel."""
    last = trace.kernels[-1].order
    return Kernel(name=END, stream=trace.kernels[0].stream, start_s=trace.end_s, end_s=trace.end_s, order=last + 1.0)


def _by_events(kernels: Sequence[Kernel], waits: Sequence[EventWait]) -> list[list[int]]:
    """Return the dependencies of kernels that follow from events. An event covers all work issued to its stream before
    the event was recorded: the last kernel, and the waits of the stream since that kernel. All calls of the host are
    processed in order."""
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
                for latest in (behind.setdefault(call.stream, {}), pending.setdefault(call.stream, {})):
                    for stream, index in recorded.get(call.record, {}).items():
                        latest[stream] = max(index, latest.get(stream, -1))
    return out


def _by_times(kernels: Sequence[Kernel], tick_s: float) -> list[list[int]]:
    """Return the probable dependencies of kernels, inferred from times: a kernel waits for the kernel that ended last
    on another stream while its own stream was idle."""
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


# ── programs ──

_Calls = tuple[tuple[CallKey, int | None], ...]  # keys of calls, with the rank's own coordinate at messages


@dataclass(frozen=True, eq=False)
class RankProgram:
    """Ops of one rank in one step, in the order of launches."""

    trace: RankTrace
    ops: Sequence[ProgramOp]

    @property
    def rank(self) -> int:
        return self.trace.rank

    @cached_property
    def calls(self) -> dict[str, _Calls]:
        """Communication calls of each lane; they are the same on all ranks that run one program."""
        out: dict[str, _Calls] = {}
        for op in self.ops:
            if op.kernel.call is not None:
                out[op.lane] = (*out.get(op.lane, ()), (op.call_key, op.seat))
        return out

    @cached_property
    def indices_of_lanes(self) -> dict[str, list[int]]:
        """Indices of the kernels and calls of each lane, in launch order, without those in `parts`."""
        out: dict[str, list[int]] = {}
        for index in sorted(range(len(self.ops)), key=lambda each: self.ops[each].ahead != "whole"):
            if self.ops[index].ahead != "part":
                out.setdefault(self.ops[index].lane, []).append(index)
        return out

    @cached_property
    def parts(self) -> dict[str, int]:
        """By lane, the first part of that kernel of the next step that is running when the step ends."""
        return {op.lane: index for index, op in enumerate(self.ops) if op.ahead == "part"}

    def is_like(self, other: RankProgram) -> bool:
        """Return whether another rank has the same number of kernels and calls on each lane."""
        mine, its = self.indices_of_lanes, other.indices_of_lanes
        return mine.keys() == its.keys() and all(len(mine[lane]) == len(its[lane]) for lane in mine)


def program_of(trace: RankTrace, ops: Sequence[ProgramOp], on: GroupAxes) -> RankProgram:
    """Return the program of a rank on a mesh. Raises InputError for a message between ranks whose coordinates differ on
    several axes."""
    known: dict[tuple[int, ...], tuple[str, ...]] = {}
    laid: list[ProgramOp] = []
    for op in ops:
        call = op.kernel.call
        if call is not None and call.peer is None:
            if call.ranks not in known:
                known[call.ranks] = on.axes(call.ranks, trace.where)
            op = replace(op, axes=known[call.ranks])
        elif call is not None:
            axis, *places = on.between(*_ends(trace.rank, call), trace.where)
            op = replace(op, axes=(axis,), ends=(places[0], places[1]), seat=on.coordinate(axis, trace.rank))
        laid.append(op)
    lanes = _lanes(laid)
    return RankProgram(trace, [replace(op, lane=lanes[op.kernel.stream]) for op in laid])


def _ends(rank: int, call: GroupCall) -> tuple[int, int]:
    """Return the sending and the receiving rank of a message; for a simulated exchange in both directions, the two
    ranks that the simulation recorded."""
    if isinstance(call.own, SimulatedExchange):
        first, second = (call.ranks[end] for end in call.own.ends)
        return first, second
    assert call.peer is not None, f"{call.name}: a message to nobody"
    return (rank, call.peer) if call.meaning == "send" else (call.peer, rank)


def _lanes(ops: Sequence[ProgramOp]) -> dict[str, str]:
    """Return the lane of each stream. The stream with the most kernels (if several have as many, the one whose kernels
    take longest) is the compute lane; other lanes are named after the axes that their calls span, so that ranks with
    different programs use the same names."""
    num_kernels: dict[str, int] = {}
    seconds: dict[str, float] = {}
    over: dict[str, set[str]] = {}
    for op in ops:
        kernel = op.kernel
        computes = kernel.call is None and not kernel.is_bare_call
        num_kernels[kernel.stream] = num_kernels.get(kernel.stream, 0) + computes
        seconds[kernel.stream] = seconds.get(kernel.stream, 0.0) + computes * kernel.seconds
        over.setdefault(kernel.stream, set()).update(op.axes)
    most = max(num_kernels, key=lambda stream: (num_kernels[stream], seconds[stream]))
    out, count = {most: COMPUTE}, dict[str, int]()
    for stream in num_kernels:
        if stream != most:
            title = f"over {'+'.join(sorted(over[stream]))}" if over[stream] else "kernels"
            count[title] = count.get(title, 0) + 1
            out[stream] = title if count[title] == 1 else f"{title} {count[title]}"
    return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roles:
    """The different programs of a job: a single one, or one for each coordinate of an axis. For each program, the ranks
    that have traces, lowest rank first; the launch order of this rank is used for all."""

    axis: str | None
    programs: tuple[tuple[RankProgram, ...], ...]


def roles_of(programs: Sequence[RankProgram], on: GroupAxes) -> Roles:
    """Return the sets of ranks that run the same program: all ranks, or those with the same coordinate on one axis
    (pipeline stages). Raises InputError if programs differ in another way."""
    if _is_one(programs):
        if any(op.ends is not None for op in programs[0].ops):
            text = "one program that sends messages to other ranks; allowed: traces of all stages of a pipeline"
            raise InputError(text, where=programs[0].trace.where)
        return Roles(axis=None, programs=(tuple(programs),))
    for axis in on.mesh.names:
        grouped: dict[int, list[RankProgram]] = {}
        for program in programs:
            grouped.setdefault(on.coordinate(axis, program.rank), []).append(program)
        if len(grouped) == on.mesh[axis] and all(map(_is_one, grouped.values())):
            return Roles(axis=axis, programs=tuple(tuple(grouped[place]) for place in range(on.mesh[axis])))
    raise _differs(programs)


def _is_one(programs: Sequence[RankProgram]) -> bool:
    return all(program.calls == programs[0].calls for program in programs)


def _differs(programs: Sequence[RankProgram]) -> InputError:
    """Return the error for the first position at which two programs differ."""
    first = programs[0]
    other = next(each for each in programs if each.calls != first.calls)
    lane = next(lane for lane in sorted({*first.calls, *other.calls}) if first.calls.get(lane) != other.calls.get(lane))
    a, b = first.calls.get(lane, ()), other.calls.get(lane, ())
    place = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    said = [str(keys[place][0]) if place < len(keys) else "nothing" for keys in (a, b)]
    text = (
        f"call {place + 1} of {lane}: rank {first.rank} makes {said[0]}, rank {other.rank} {said[1]}; allowed: one "
        "program for all ranks, or one for each coordinate of one axis of the mesh"
    )
    return InputError(text, where=other.trace.where)
