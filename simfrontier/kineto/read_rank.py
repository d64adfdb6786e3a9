"""Reading the trace of one rank: one pass over its events, of which only those of kernels, launches and waits stay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Any, Final

from simfrontier.errors import InputError, nearest, shown, wrong
from simfrontier.kineto.event_stream import KinetoFile
from simfrontier.kineto.rank_trace import (
    EventWait,
    Kernel,
    RankTrace,
    call_of,
    microseconds,
    own_numbers,
    ranks_of,
    refuse_many,
    refuse_nested,
    tick_s,
    whole,
)
from simfrontier.limits import KINETO_HEAD, KINETO_KEPT
from simfrontier.trace import kineto as form

_MOST_RANK: Final = 1 << 21
_TICK_US: Final = 1e-3  # of the profiler's clock: ends are rounded to it
_GLOO: Final = "gloo:"  # events of gloo's own threads
_LONGEST: Final = 128  # characters of a name, or of a value that is kept as often as it stands there
_KEPT: Final = (
    *(form.COLLECTIVE, form.DTYPE, form.IN_ELEMENTS, form.OUT_ELEMENTS, form.GROUP_SIZE, form.GROUP_NAME),
    *(form.GROUP_RANKS, form.SEQUENCE, form.SOURCE_RANK, form.TARGET_RANK),
    *(form.OWN, form.WAIT_STREAM, form.WAIT_RECORD),
)
_ON_HOST: Final = frozenset({form.CPU_OP, form.ANNOTATION})


@dataclass(frozen=True, slots=True)
class _Event:
    """What stays of an event, in microseconds: the correlation is -1 where it has none."""

    name: str
    place: str
    begin_us: float
    end_us: float
    correlation: int
    args: Mapping[str, Any]


@dataclass(slots=True)
class _Read:
    """All of a file that counts."""

    where: str
    device: list[_Event] = field(default_factory=list)
    host: list[_Event] = field(default_factory=list)
    launches: dict[int, tuple[float, str]] = field(default_factory=dict)  # when, and by which thread
    waits: list[_Event] = field(default_factory=list)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    steps_on_device: dict[str, tuple[float, float]] = field(default_factory=dict)
    backward_threads: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # lists of ranks, which many calls share
    num_characters: int = 0  # of these

    def take(self, number: int, event: Mapping[str, Any]) -> None:
        """Take in an event, if it is one that counts."""
        category = event.get("cat")
        if event.get("ph") != "X" or not isinstance(category, str):
            return
        category, where = category.lower(), f"{self.where}: event {number}"
        if category in form.ON_STREAMS:
            self.device.append(self._event(event, where, "stream"))
            self.host.clear()  # work of the host counts only where there is no device
        elif category in form.RUNTIME:
            call = self._event(event, where, "tid")
            if call.correlation >= 0:
                self.launches[call.correlation] = call.begin_us, call.place
        elif category == form.STREAM_SYNC:
            if event.get("name") == form.STREAM_WAIT:
                self.waits.append(self._event(event, where, "stream"))
        elif category in (form.ANNOTATION, form.GPU_ANNOTATION, form.CPU_OP):
            self._take_annotation(category, self._event(event, where, "tid"))
        if fault := KINETO_KEPT.fault(len(self.device) + len(self.launches) + len(self.waits)):
            raise InputError(fault, where=self.where)

    def _take_annotation(self, category: str, event: _Event) -> None:
        if event.name.startswith(form.STEP_PREFIX):
            steps = self.steps_on_device if category == form.GPU_ANNOTATION else self.steps
            steps.setdefault(event.name, (event.begin_us, event.end_us))
        elif category in _ON_HOST:
            if event.name.startswith(form.BACKWARD_PREFIX):
                self.backward_threads.add(event.place)
            if not self.device and not KINETO_KEPT.fault(len(self.host)):
                self.host.append(event)

    def _event(self, event: Mapping[str, Any], where: str, place: str) -> _Event:
        args = event.get("args", {})
        if not isinstance(args, dict):
            raise InputError(f"args: {wrong(args, 'an object')}", where=where)
        name = event.get("name")
        if not isinstance(name, str):
            raise InputError(f"name: {wrong(name, 'a text')}", where=where)
        begin_us = microseconds(event.get("ts"), "ts", where)
        lasts_us = microseconds(event.get("dur", 0), "dur", where)
        if lasts_us < 0:
            raise InputError(f"dur: {wrong(event.get('dur'), '0 or more')}", where=where)
        correlation = args.get("correlation", -1)
        on = args.get("stream", event.get("tid")) if place == "stream" else f"{event.get('pid')}/{event.get('tid')}"
        return _Event(
            name=name[:_LONGEST],
            place=str(on)[:_LONGEST],
            begin_us=begin_us,
            end_us=begin_us + lasts_us,
            correlation=-1 if correlation in (-1, 0, None) else whole(correlation, "correlation", where),
            args={key: self._kept(key, args[key], where) for key in _KEPT if key in args},
        )

    def _kept(self, key: str, value: Any, where: str) -> Any:
        """What stays of a value: short ones as they are, lists of ranks once however often they stand there."""
        if key == form.OWN:
            return refuse_nested(value, where)
        if isinstance(value, list):
            value = str(value)
        if isinstance(value, dict):
            raise InputError(f"{key}: {wrong(value, 'a number, a text or a list')}", where=where)
        if not isinstance(value, str) or len(value) <= _LONGEST:
            return value
        if value not in self.texts:
            self.num_characters += len(value)
            if fault := KINETO_HEAD.fault(self.num_characters):
                raise InputError(f"lists of ranks: {fault}", where=where)
            self.texts[value] = value
        return self.texts[value]


def read_rank(path: Path, step: str | None = None) -> RankTrace:
    """The step of that name (`ProfilerStep#3`) of a rank's trace; without a name, that of median length, or the whole
    trace where it has no steps. Raises InputError: file, event, what was got and what is allowed."""
    file = KinetoFile(path)
    read = _Read(str(path))
    for number, event in enumerate(file.events(), 1):
        read.take(number, event)
    rank, num_ranks, groups, stands_for = _head(file)
    begin_end, name = _step(read, step)
    chosen = _chosen(read, begin_end, name)
    refuse_many(chosen, str(path))
    base_us = min(event.begin_us for event in chosen)
    if begin_end is not None:
        base_us = min(base_us, begin_end[0])
    has_order = bool(read.device) and all(event.correlation >= 0 for event in chosen)
    making = _Making(read, base_us, has_order, groups, rank, num_ranks)
    kernels = sorted(map(making.kernel, chosen), key=lambda kernel: (kernel.order, kernel.start_s))
    begin_s, end_s = _window(kernels, None if begin_end is None else [making.seconds(edge) for edge in begin_end])
    return RankTrace(
        where=str(path),
        step_name=name,
        rank=rank,
        num_ranks=num_ranks,
        stands_for=stands_for,
        kernels=kernels,
        waits=_waits(read) if has_order else None,
        begin_s=begin_s,
        end_s=end_s,
        tick_s=tick_s(max(event.end_us for event in chosen)),
    )


def _chosen(read: _Read, begin_end: tuple[float, float] | None, name: str) -> list[_Event]:
    """The kernels of a step: those that the host launched in it."""
    events = read.device or _outermost(read.host, read.where)
    if begin_end is None:
        return list(events)
    out = []
    for event in events:
        launched_us, _ = read.launches.get(event.correlation, (event.begin_us, ""))
        at_us = launched_us if name in read.steps or not read.device else event.begin_us
        if begin_end[0] <= at_us <= begin_end[1]:
            out.append(event)
    return out


def _window(kernels: Sequence[Kernel], step: Sequence[float] | None) -> tuple[float, float]:
    """When a step begins and ends on the device. It is as long as the host takes for it, if that is longer than its
    kernels, which may lag behind the host by what it has launched ahead."""
    first, last = min(kernel.start_s for kernel in kernels), max(kernel.end_s for kernel in kernels)
    if step is None:
        return first, last
    begin, end = step
    if first >= begin and last <= end:
        return begin, end
    return min(first, last - (end - begin)), last


@dataclass(frozen=True, slots=True)
class _Making:
    """What is known of a step when its kernels are made of events."""

    read: _Read
    base_us: float
    has_order: bool
    groups: Mapping[str, tuple[int, ...]]
    rank: int
    num_ranks: int

    def seconds(self, time_us: float) -> float:
        """From the first moment of the step."""
        return (time_us - self.base_us) * form.MICROSECOND

    def kernel(self, event: _Event) -> Kernel:
        where, rank, call = self.read.where, self.rank, None
        if form.COLLECTIVE in event.args:
            call = call_of(event.args, self.groups, rank, self.num_ranks, where)
            if rank not in call.ranks:
                raise InputError(f"{call.name}: rank {rank} is not in its group {list(call.ranks)[:8]}", where=where)
        _, thread = self.read.launches.get(event.correlation, (0.0, ""))
        return Kernel(
            name=event.name,
            stream=event.place,
            start_s=self.seconds(event.begin_us),
            end_s=self.seconds(event.end_us),
            order=float(event.correlation) if self.has_order else self.seconds(event.begin_us),
            call=None if call is not None and len(call.ranks) == 1 else call,
            own=own_numbers(event.args, where) if call is None else {},
            is_backward=thread in self.read.backward_threads,
        )


def _head(file: KinetoFile) -> tuple[int, int, dict[str, tuple[int, ...]], str]:
    """(rank, number of ranks, ranks of groups by name, ranks that the trace stands for)."""
    where, info = str(file.path), file.head.get("distributedInfo", {})
    if not isinstance(info, dict):
        raise InputError(f"distributedInfo: {wrong(info, 'an object')}", where=where)
    rank = whole(info.get("rank", 0), "distributedInfo.rank", where)
    num_ranks = whole(info.get("world_size", rank + 1), "distributedInfo.world_size", where)
    if not rank < num_ranks <= _MOST_RANK:
        text = f"rank {rank} of world_size {num_ranks}; allowed: ranks below it, and up to {_MOST_RANK:,} of them"
        raise InputError(f"distributedInfo: {text}", where=where)
    groups: dict[str, tuple[int, ...]] = {}
    listed = info.get("pg_config", [])
    for each in listed if isinstance(listed, list) else []:
        ranks = ranks_of(each.get("ranks"), where) if isinstance(each, dict) else None
        if ranks is not None:
            groups[str(each.get("pg_name", ""))] = ranks
    own = file.head.get(form.OWN, {})
    stands_for = own.get("stands_for", "") if isinstance(own, dict) else ""
    return rank, num_ranks, groups, stands_for if isinstance(stands_for, str) else ""


def _step(read: _Read, name: str | None) -> tuple[tuple[float, float] | None, str]:
    """When the host begins and ends the step, and its name; None where the trace has no steps."""
    steps = read.steps or read.steps_on_device
    if name is None:
        if not steps:
            return None, ""
        lengths = {each: end - begin for each, (begin, end) in steps.items()}
        name = next(each for each, length in lengths.items() if length == median_low(lengths.values()))
    if name not in steps:
        text = nearest(name, steps) if steps else "allowed: none, as the trace has no steps (ProfilerStep#0 ...)"
        raise InputError(f"step {shown(name)}: {text}", where=read.where)
    return steps[name], name


def _outermost(events: Sequence[_Event], where: str) -> list[_Event]:
    """Of the host's threads the calls, and the events that lie in no other and hold no call; those of gloo's own
    threads lie in calls of others."""
    calls: dict[str, list[float]] = {}
    for event in events:
        if form.COLLECTIVE in event.args:
            calls.setdefault(event.place, []).append(event.begin_us)
    if not calls and any(event.name.startswith(_GLOO) for event in events):
        text = "gloo's events do not say the ranks of their groups; allowed: traces of NCCL, RCCL, or of our real runs"
        raise InputError(text, where=where)
    begins = {place: sorted(each) for place, each in calls.items()}
    out, until = [], dict[str, float]()
    for event in sorted(events, key=lambda each: (each.begin_us, -each.end_us)):
        if event.begin_us < until.get(event.place, float("-inf")) - _TICK_US:
            continue
        if form.COLLECTIVE not in event.args and _holds(event, begins.get(event.place, [])):
            continue
        until[event.place] = event.end_us
        if not event.name.startswith(_GLOO):
            out.append(event)
    return out


def _holds(event: _Event, begins: Sequence[float]) -> bool:
    """Whether any of these times lies in an event."""
    place = bisect_left(begins, event.begin_us)
    return place < len(begins) and begins[place] < event.end_us


def _waits(read: _Read) -> list[EventWait] | None:
    """The waits of streams for events; None where the profiler has not recorded any."""
    out = []
    for wait in read.waits:
        on_stream, record = wait.args.get(form.WAIT_STREAM), wait.args.get(form.WAIT_RECORD)
        if on_stream is None or record in (None, -1) or wait.correlation < 0:
            continue  # an event that was recorded before the profiler began
        number = float(whole(record, form.WAIT_RECORD, read.where))
        out.append(EventWait(wait.place, str(on_stream)[:64], number, float(wait.correlation)))
    return out if out and read.device else None
