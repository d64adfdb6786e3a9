"""Reading the trace of one rank: one pass over its events, of which only those of kernels, launches and waits stay."""

from __future__ import annotations

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
    own_numbers,
    ranks_of,
    refuse_many,
    seconds,
    whole,
)
from simfrontier.limits import KINETO_KEPT
from simfrontier.trace import kineto as form

_MOST_RANK: Final = 1 << 21
_TICK_S: Final = 1e-9  # of the profiler's clock: ends are rounded to it
_GLOO: Final = "gloo:"  # events of gloo's own threads
_KEPT: Final = (form.OWN, form.WAIT_STREAM, form.WAIT_RECORD)  # args of events that are no calls
_ON_HOST: Final = frozenset({form.CPU_OP, form.ANNOTATION})


@dataclass(frozen=True, slots=True)
class _Event:
    """What stays of an event: the correlation is -1 where it has none."""

    name: str
    place: str
    begin_s: float
    end_s: float
    correlation: int
    args: Mapping[str, Any]


@dataclass(slots=True)
class _Read:
    """All of a file that counts."""

    where: str
    device: list[_Event] = field(default_factory=list)
    host: list[_Event] = field(default_factory=list)
    launches: dict[int, tuple[float, str]] = field(default_factory=dict)  # when, and by which thread
    records: set[int] = field(default_factory=set)
    waits: list[_Event] = field(default_factory=list)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    steps_on_device: dict[str, tuple[float, float]] = field(default_factory=dict)
    backward_threads: set[str] = field(default_factory=set)

    def take(self, number: int, event: Mapping[str, Any]) -> None:
        """Take in an event, if it is one that counts."""
        category = event.get("cat")
        if event.get("ph") != "X" or not isinstance(category, str):
            return
        category, where = category.lower(), f"{self.where}: event {number}"
        if category in form.ON_STREAMS:
            self.device.append(_event(event, where, "stream"))
            self.host.clear()  # work of the host counts only where there is no device
            if fault := KINETO_KEPT.fault(len(self.device)):
                raise InputError(fault, where=self.where)
        elif category in form.RUNTIME:
            self._take_call(_event(event, where, "tid"))
        elif category == form.STREAM_SYNC:
            if event.get("name") == form.STREAM_WAIT:
                self.waits.append(_event(event, where, "stream"))
        elif category in (form.ANNOTATION, form.GPU_ANNOTATION, form.CPU_OP):
            self._take_annotation(category, _event(event, where, "tid"))

    def _take_call(self, call: _Event) -> None:
        if call.name in form.EVENT_RECORDS:
            self.records.add(call.correlation)
        elif call.correlation >= 0:
            self.launches[call.correlation] = call.begin_s, call.place

    def _take_annotation(self, category: str, event: _Event) -> None:
        if event.name.startswith(form.STEP_PREFIX):
            steps = self.steps_on_device if category == form.GPU_ANNOTATION else self.steps
            steps.setdefault(event.name, (event.begin_s, event.end_s))
        elif category in _ON_HOST:
            if event.name.startswith(form.BACKWARD_PREFIX):
                self.backward_threads.add(event.place)
            if not self.device and not KINETO_KEPT.fault(len(self.host)):
                self.host.append(event)


def read_rank(path: Path, step: str | None = None) -> RankTrace:
    """The step of that name (`ProfilerStep#3`) of a rank's trace; without a name, that of median length, or the whole
    trace where it has no steps. Raises InputError: file, event, what was got and what is allowed."""
    file = KinetoFile(path)
    read = _Read(str(path))
    for number, event in enumerate(file.events(), 1):
        read.take(number, event)
    rank, num_ranks, groups, stands_for = _head(file)
    begin_end, name = _step(read, step)
    kernels = _kernels(read, begin_end, name, groups, rank)
    refuse_many(kernels, str(path))
    begin_s = min([kernel.start_s for kernel in kernels])
    on_device = read.steps_on_device.get(name, (begin_s, begin_s)) if read.device else begin_end
    return RankTrace(
        where=str(path),
        step_name=name,
        rank=rank,
        num_ranks=num_ranks,
        stands_for=stands_for,
        kernels=kernels,
        waits=_waits(read),
        begin_s=min(begin_s, (on_device or (begin_s, begin_s))[0]),
        end_s=max(kernel.end_s for kernel in kernels),
    )


def _event(event: Mapping[str, Any], where: str, place: str) -> _Event:
    args = event.get("args", {})
    if not isinstance(args, dict):
        raise InputError(f"args: {wrong(args, 'an object')}", where=where)
    name = event.get("name")
    if not isinstance(name, str):
        raise InputError(f"name: {wrong(name, 'a text')}", where=where)
    begin_s = seconds(event.get("ts"), "ts", where)
    lasts_s = seconds(event.get("dur", 0), "dur", where)
    if lasts_s < 0:
        raise InputError(f"dur: {wrong(event.get('dur'), '0 or more')}", where=where)
    correlation = args.get("correlation", -1)
    kept = {key: args[key] for key in _KEPT if key in args}
    if form.COLLECTIVE in args:
        kept = args
    on = args.get("stream", event.get("tid")) if place == "stream" else f"{event.get('pid')}/{event.get('tid')}"
    return _Event(
        name=name,
        place=str(on)[:64],
        begin_s=begin_s,
        end_s=begin_s + lasts_s,
        correlation=-1 if correlation in (-1, 0, None) else whole(correlation, "correlation", where),
        args=kept,
    )


def _head(file: KinetoFile) -> tuple[int, int, dict[str, tuple[int, ...]], str]:
    """(rank, number of ranks, ranks of groups by name, ranks that the trace stands for)."""
    where, info = str(file.path), file.head.get("distributedInfo", {})
    if not isinstance(info, dict):
        raise InputError(f"distributedInfo: {wrong(info, 'an object')}", where=where)
    rank = whole(info.get("rank", 0), "distributedInfo.rank", where)
    num_ranks = whole(info.get("world_size", rank + 1), "distributedInfo.world_size", where)
    if not rank < num_ranks <= _MOST_RANK:
        text = f"rank {rank} of {num_ranks}; allowed: a rank of up to {_MOST_RANK:,}"
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


def _kernels(
    read: _Read,
    begin_end: tuple[float, float] | None,
    name: str,
    groups: Mapping[str, tuple[int, ...]],
    rank: int,
) -> list[Kernel]:
    """The kernels of a step in the order of their launch."""
    events = read.device or _outermost(read.host, read.where)
    has_order = bool(read.device) and all(event.correlation >= 0 for event in events)
    out = []
    for event in events:
        launched_s, thread = read.launches.get(event.correlation, (event.begin_s, ""))
        at_s = launched_s if name in read.steps or not read.device else event.begin_s
        if begin_end is not None and not begin_end[0] <= at_s <= begin_end[1]:
            continue
        call = call_of(event.args, groups, rank, read.where) if form.COLLECTIVE in event.args else None
        if call is not None and len(call.ranks) > 1 and rank not in call.ranks:
            raise InputError(f"{call.name}: rank {rank} is not in its group {list(call.ranks)[:8]}", where=read.where)
        out.append(
            Kernel(
                name=event.name[:128],
                stream=event.place,
                start_s=event.begin_s,
                end_s=event.end_s,
                order=float(event.correlation) if has_order else event.begin_s,
                call=None if call is not None and len(call.ranks) == 1 else call,
                own=own_numbers(event.args, read.where) if call is None else {},
                is_backward=thread in read.backward_threads,
            )
        )
    return sorted(out, key=lambda kernel: (kernel.order, kernel.start_s))


def _outermost(events: Sequence[_Event], where: str) -> list[_Event]:
    """Of the host's threads the events that lie in no other; those of gloo's own threads lie in calls of others."""
    if not any(form.COLLECTIVE in event.args for event in events) and any(
        event.name.startswith(_GLOO) for event in events
    ):
        text = (
            "gloo's events do not say the ranks of their groups; allowed: traces of NCCL or RCCL, or of our real runs"
        )
        raise InputError(text, where=where)
    out, until = [], dict[str, float]()
    for event in sorted(events, key=lambda each: (each.begin_s, -each.end_s)):
        is_behind = event.begin_s >= until.get(event.place, float("-inf")) - _TICK_S
        if is_behind:
            until[event.place] = event.end_s
            if not event.name.startswith(_GLOO):
                out.append(event)
    return out


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
