"""Reading the trace of one rank in one pass over its events; only kernels, launches and waits are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError, wrong
from simfrontier.base.limits import KINETO_OPS
from simfrontier.core.trace import kineto as form
from simfrontier.inputs.profiler.host_work import host_work
from simfrontier.inputs.profiler.rank_trace import (
    DeviceModel,
    EventWait,
    Kernel,
    RankTrace,
    SimulatedKernel,
    call_of,
    own_of,
    ranks_of,
)
from simfrontier.inputs.profiler.trace_events import (
    JOB,
    JobInfo,
    TraceEvent,
    event_of,
    events_of,
    head_of,
    job_of,
    steps_of,
)

_TICK_S: Final = 1e-9
_LONGEST_NAME: Final = 128  # characters


@dataclass(slots=True)
class _Read:
    """The events of a trace file that are kept. `launches`: by correlation number, the time and the thread of a
    launch."""

    where: str
    device: list[TraceEvent] = field(default_factory=list)
    host: list[TraceEvent] = field(default_factory=list)
    launches: dict[int, tuple[float, str]] = field(default_factory=dict)
    waits: list[TraceEvent] = field(default_factory=list)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    steps_on_device: dict[str, tuple[float, float]] = field(default_factory=dict)
    backward_threads: set[str] = field(default_factory=set)
    launches_kernels: bool = False  # whether the host puts any on a device

    def take(self, raw: Mapping[str, Any], where: str) -> None:
        """Record an event if it is a kernel, a launch or a wait."""
        category = str(raw.get("cat")).lower()
        if raw.get("ph") != "X" or category not in form.READ:
            return
        event = event_of(dict(raw), where)
        if category in form.ON_STREAMS:
            self.device.append(event)
            self.host.clear()  # work of the host counts only where there is no device
        elif category in form.RUNTIME:
            self.launches_kernels = self.launches_kernels or "launch" in event.name.lower()
            if event.correlation is not None:
                self.launches[event.correlation] = event.begin_us, event.thread
        elif category == form.STREAM_SYNC:
            if event.name == form.STREAM_WAIT:
                self.waits.append(event)
        elif event.name.startswith(form.STEP_PREFIX):
            steps = self.steps_on_device if category == form.GPU_ANNOTATION else self.steps
            steps.setdefault(event.name, (event.begin_us, event.end_us))
        elif category != form.GPU_ANNOTATION:
            if event.name.startswith(form.BACKWARD_PREFIX):
                self.backward_threads.add(event.thread)
            if not self.device:
                self.host.append(event)


def read_rank(path: Path, step: str | None = None) -> RankTrace:
    """Read the step with this name (`ProfilerStep#3`) from a rank's trace; without a name, the last complete step, or
    the whole trace if it has no steps. Raises InputError."""
    where, read = str(path), _Read(str(path))
    head = head_of(path)
    info = job_of(head, where)
    num_ranks = info.num_ranks or info.rank + 1
    if info.rank >= num_ranks:
        raise InputError(f"{JOB}: {wrong(info.rank, f'ranks below world_size {num_ranks}')}", where=where)
    for number, event in enumerate(events_of(path), 1):
        read.take(event, f"{where}: event {number}")
    on_device = bool(read.device)
    if not on_device and (job := _job_on_devices(info, bool(head.get("deviceProperties")), read)):
        text = f"no event of a device in the trace of a job on devices ({job}); allowed: traces with their kernels"
        raise InputError(f"{text} (activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA])", where=where)
    steps = steps_of(read.steps or read.steps_on_device, _launched(read, info), where)
    chosen = steps.taken(step)
    if not chosen.events:
        raise InputError("no kernel, and no collective of the host, in this step", where=where)
    if fault := KINETO_OPS.fault(len(chosen.events)):
        raise InputError(fault, where=where)
    window = steps.window(chosen, on_device)
    base_us = min(window.begin_us, min(event.begin_us for event in chosen.events))
    has_order = on_device and all(event.correlation is not None for event in chosen.events)
    making = _Making(read, base_us, has_order, _groups(info, where), info.rank, num_ranks)
    return RankTrace(
        where=where,
        step_name=chosen.name,
        rank=info.rank,
        num_ranks=num_ranks,
        stands_for=head.get(form.OWN, {}).get("stands_for", ""),
        device=_device(head) if on_device else None,
        kernels=sorted(map(making.kernel, chosen.events), key=lambda kernel: (kernel.order, kernel.start_s)),
        waits=_waits(read) if has_order else None,
        begin_s=making.seconds(window.begin_us),
        end_s=making.seconds(window.end_us),
        measured_by=window.measured_by,
        # A float of microseconds since 1970 has quarters of one.
        tick_s=max(_TICK_S, 4 * math.ulp(chosen.last_end_us) * form.MICROSECOND),
    )


def _launched(read: _Read, info: JobInfo) -> Iterator[tuple[float, TraceEvent]]:
    """Yield the kernels of a trace with their launch times. The start time takes the place of the launch time if only
    the device has annotated steps, and for kernels whose launch is not in the trace."""
    for event in read.device or host_work(read.host, info, read.where):
        launched_us, _ = _launch_of(read, event)
        yield launched_us if read.steps or not read.steps_on_device else event.begin_us, event


def _launch_of(read: _Read, event: TraceEvent) -> tuple[float, str]:
    """Return time and thread of a kernel's launch; the kernel's start time and "" if the launch is not in the trace."""
    without = event.begin_us, ""
    return without if event.correlation is None else read.launches.get(event.correlation, without)


@dataclass(frozen=True, slots=True)
class _Making:
    """Facts about a step that are shared by all of its kernels."""

    read: _Read
    base_us: float
    has_order: bool
    groups: Mapping[str, tuple[int, ...]]
    rank: int
    num_ranks: int

    def seconds(self, time_us: float) -> float:
        """Return the time since the first moment of the step."""
        return (time_us - self.base_us) * form.MICROSECOND

    def kernel(self, event: TraceEvent) -> Kernel:
        where, rank, call = self.read.where, self.rank, None
        if event.args.collective is not None:
            call = call_of(event.args, self.groups, rank, self.num_ranks, where)
            if rank not in call.ranks:
                raise InputError(f"{call.name}: rank {rank} is not in its group {list(call.ranks)[:8]}", where=where)
        _, thread = _launch_of(self.read, event)
        order = event.correlation if self.has_order else None
        return Kernel(
            name=event.name[:_LONGEST_NAME],
            stream=event.stream if self.read.device else event.thread,
            start_s=self.seconds(event.begin_us),
            end_s=self.seconds(event.end_us),
            order=self.seconds(event.begin_us) if order is None else float(order),
            call=None if call is not None and len(call.ranks) == 1 else call,
            own=own_of(event.args.own, SimulatedKernel, where) if call is None else None,
            is_backward=thread in self.read.backward_threads,
        )


def _groups(info: JobInfo, where: str) -> dict[str, tuple[int, ...]]:
    """Return the ranks of process groups by name, of those whose ranks are all listed."""
    ranks = {str(group.name): ranks_of(group.ranks, where) for group in info.groups or ()}
    return {name: each for name, each in ranks.items() if each is not None}


def _job_on_devices(info: JobInfo, has_devices: bool, read: _Read) -> str:
    """Return the reason why the trace belongs to a job on devices; empty for a job on the host (gloo, MPI), whose node
    may have devices that the job does not use."""
    if read.launches_kernels:
        return "its host launches kernels"
    if any(event.name.startswith(form.NCCL_CALLS) for event in read.host):
        return "its host calls NCCL or RCCL"
    backends = " ".join(filter(None, [info.backend, *(group.backend for group in info.groups or ())])).lower()
    is_of_host = any(name in backends for name in form.HOST_BACKENDS)
    if any(name in backends for name in form.DEVICE_BACKENDS) and (has_devices or not is_of_host):
        return "it communicates by NCCL or RCCL"
    return "it has deviceProperties" if has_devices and not is_of_host else ""


def _device(head: Mapping[str, Any]) -> DeviceModel | None:
    """Return the first device of the trace's node."""
    first = next(iter(_listed(head.get("deviceProperties"))), {})
    name, *sizes = map(first.get, ("name", "totalGlobalMem", "numSms"))
    memory, units = (size if isinstance(size, int) and size > 0 else None for size in sizes)
    return DeviceModel(" ".join(name.split()), memory, units) if isinstance(name, str) else None


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; empty for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _waits(read: _Read) -> list[EventWait] | None:
    """Return the waits of streams for events; None if the profiler did not record any."""
    out = []
    for wait in read.waits:
        on_stream, record = wait.args.wait_stream, wait.args.wait_record
        if on_stream is None or record in (None, -1) or wait.correlation is None:
            continue  # an event that was recorded before the profiler began
        out.append(EventWait(wait.stream, str(on_stream), float(record), float(wait.correlation)))
    return out if out and read.device else None
