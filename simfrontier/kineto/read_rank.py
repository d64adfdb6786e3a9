"""Reading the trace of one rank: one pass over its events, of which only those of kernels, launches and waits stay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from simfrontier.errors import InputError, wrong
from simfrontier.kineto.event_stream import KinetoFile
from simfrontier.kineto.rank_trace import (
    DeviceModel,
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
from simfrontier.kineto.steps import TraceEvent, steps_of
from simfrontier.limits import KINETO_HEAD, KINETO_KEPT
from simfrontier.trace import kineto as form

_MOST_RANK: Final = 1 << 21
_MOST_BYTES: Final = 1 << 60  # of a device
_TICK_US: Final = 1e-3  # of the profiler's clock: ends are rounded to it
_GLOO: Final = "gloo:"  # events of gloo's own threads
_LONGEST: Final = 128  # characters of a name, or of a value that is kept as often as it stands there
_KEPT: Final = (
    *(form.COLLECTIVE, form.DTYPE, form.IN_ELEMENTS, form.OUT_ELEMENTS, form.GROUP_SIZE, form.GROUP_NAME),
    *(form.GROUP_RANKS, form.SEQUENCE, form.SOURCE_RANK, form.TARGET_RANK),
    *(form.OWN, form.WAIT_STREAM, form.WAIT_RECORD),
)
_ON_HOST: Final = frozenset({form.CPU_OP, form.ANNOTATION})


@dataclass(slots=True)
class _Read:
    """All of a file that counts."""

    where: str
    device: list[TraceEvent] = field(default_factory=list)
    host: list[TraceEvent] = field(default_factory=list)
    launches: dict[int, tuple[float, str]] = field(default_factory=dict)  # when, and by which thread
    waits: list[TraceEvent] = field(default_factory=list)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    steps_on_device: dict[str, tuple[float, float]] = field(default_factory=dict)
    backward_threads: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # lists of ranks, which many calls share
    num_characters: int = 0  # of these
    launches_kernels: bool = False  # whether the host puts any on a device

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
            self.launches_kernels = self.launches_kernels or "launch" in call.name.lower()
            if call.correlation >= 0:
                self.launches[call.correlation] = call.begin_us, call.place
        elif category == form.STREAM_SYNC:
            if event.get("name") == form.STREAM_WAIT:
                self.waits.append(self._event(event, where, "stream"))
        elif category in (form.ANNOTATION, form.GPU_ANNOTATION, form.CPU_OP):
            self._take_annotation(category, self._event(event, where, "tid"))
        if fault := KINETO_KEPT.fault(len(self.device) + len(self.launches) + len(self.waits)):
            raise InputError(fault, where=self.where)

    def _take_annotation(self, category: str, event: TraceEvent) -> None:
        if event.name.startswith(form.STEP_PREFIX):
            steps = self.steps_on_device if category == form.GPU_ANNOTATION else self.steps
            steps.setdefault(event.name, (event.begin_us, event.end_us))
        elif category in _ON_HOST:
            if event.name.startswith(form.BACKWARD_PREFIX):
                self.backward_threads.add(event.place)
            if not self.device and not KINETO_KEPT.fault(len(self.host)):
                self.host.append(event)

    def _event(self, event: Mapping[str, Any], where: str, place: str) -> TraceEvent:
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
        return TraceEvent(
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
    """The step of that name (`ProfilerStep#3`) of a rank's trace; without a name the last complete one, or the whole
    trace where it has no steps. Raises InputError: file, event, what was got and what is allowed."""
    file = KinetoFile(path)
    read = _Read(str(path))
    for number, event in enumerate(file.events(), 1):
        read.take(number, event)
    rank, num_ranks, groups, stands_for = _head(file)
    on_device = bool(read.device)
    if not on_device and (job := _job_on_devices(file.head, read)):
        text = f"no event of a device in the trace of a job on devices ({job}); allowed: traces with their kernels"
        raise InputError(f"{text} (activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA])", where=str(path))
    steps = steps_of(read.steps or read.steps_on_device, _launched(read), str(path))
    chosen = steps.taken(step)
    refuse_many(chosen.events, str(path))
    window = steps.window(chosen, on_device)
    base_us = min(window.begin_us, min(event.begin_us for event in chosen.events))
    has_order = on_device and all(event.correlation >= 0 for event in chosen.events)
    making = _Making(read, base_us, has_order, groups, rank, num_ranks)
    return RankTrace(
        where=str(path),
        step_name=chosen.name,
        rank=rank,
        num_ranks=num_ranks,
        stands_for=stands_for,
        device=_device(file.head) if on_device else None,
        kernels=sorted(map(making.kernel, chosen.events), key=lambda kernel: (kernel.order, kernel.start_s)),
        waits=_waits(read) if has_order else None,
        begin_s=making.seconds(window.begin_us),
        end_s=making.seconds(window.end_us),
        measured_by=window.measured_by,
        tick_s=tick_s(chosen.last_end_us),
    )


def _launched(read: _Read) -> Iterator[tuple[float, TraceEvent]]:
    """The kernels of a trace with the time of their launch; with that of their start where only the device has steps,
    and for kernels whose launch is not in the trace."""
    for event in read.device or _outermost(read.host, read.where):
        launched_us, _ = read.launches.get(event.correlation, (event.begin_us, ""))
        yield launched_us if read.steps or not read.steps_on_device else event.begin_us, event


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

    def kernel(self, event: TraceEvent) -> Kernel:
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
    for each in _listed(info.get("pg_config")):
        ranks = ranks_of(each.get("ranks"), where)
        if ranks is not None:
            groups[str(each.get("pg_name", ""))] = ranks
    own = file.head.get(form.OWN, {})
    stands_for = own.get("stands_for", "") if isinstance(own, dict) else ""
    return rank, num_ranks, groups, stands_for if isinstance(stands_for, str) else ""


def _job_on_devices(head: Mapping[str, Any], read: _Read) -> str:
    """Why the trace is one of a job on devices; empty for a job of the host (gloo, MPI), which may run beside devices
    that it does not use."""
    if read.launches_kernels:
        return "its host launches kernels"
    if any(event.name.startswith(form.NCCL_CALLS) for event in read.host):
        return "its host calls NCCL or RCCL"
    info = head.get("distributedInfo", {})
    configs = [each.get("backend_config") for each in _listed(info.get("pg_config"))]
    backends = " ".join(map(str, [info.get("backend"), *configs])).lower()
    has_devices = bool(head.get("deviceProperties"))
    is_of_host = any(name in backends for name in form.HOST_BACKENDS)
    if any(name in backends for name in form.DEVICE_BACKENDS) and (has_devices or not is_of_host):
        return "it communicates by NCCL or RCCL"
    return "it has deviceProperties" if has_devices and not is_of_host else ""


def _device(head: Mapping[str, Any]) -> DeviceModel | None:
    """The first device of the trace's node."""
    first = next(iter(_listed(head.get("deviceProperties"))), {})
    name, *sizes = map(first.get, ("name", "totalGlobalMem", "numSms"))
    memory, units = (size if isinstance(size, int) and 0 < size < _MOST_BYTES else None for size in sizes)
    return DeviceModel(" ".join(name.split())[:_LONGEST], memory, units) if isinstance(name, str) else None


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; empty for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _outermost(events: Sequence[TraceEvent], where: str) -> list[TraceEvent]:
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


def _holds(event: TraceEvent, begins: Sequence[float]) -> bool:
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
