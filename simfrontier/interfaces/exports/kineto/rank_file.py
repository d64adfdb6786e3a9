"""Trace of one rank of a simulated step, event by event, in the format of PyTorch's profiler.

A kernel is on the stream of its lane from its start to its end. The kernel of a collective begins when its rank is
ready, as NCCL's does: it waits on the device for the other ranks. The host launches ops in program order, each op as
late as possible without delaying it or any later op.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from simfrontier.core.collectives import TracedCall, traced_call
from simfrontier.core.cost import Kernel
from simfrontier.core.engine import Walk
from simfrontier.core.program import (
    HOST,
    Collective,
    Communicator,
    CommunicatorGroups,
    Compute,
    ExpandedProgram,
    Op,
    Schedule,
    is_wait,
)
from simfrontier.core.trace import kineto as form


def facts_of(walk: Walk, op: Op) -> TracedCall:
    """Return the kernel name and arguments that the trace shows for an op on the ranks of a class; a compute kernel has
    no group."""
    pricing = walk.step.pricing
    if not isinstance(op, Compute):
        return traced_call(op, pricing.schedule, walk.at)
    kernel = Kernel.of(op, pricing.schedule, pricing.machine)
    speed = float(pricing.fabric.speed[walk.members[0]])
    took_s = pricing.work_of(op, walk.cls).alone_s
    own = {"seconds": took_s, "bytes": kernel.num_bytes, "arithmetic_s": kernel.arithmetic_s / speed}
    return TracedCall(f"{op.kind} {op.name}", {form.OWN: own}, (), "")


_COMPUTE: Final = "compute"
_FIRST_STREAM: Final = 7  # PyTorch's traces show the default stream under this number
_OTHERS_FROM: Final = 20


@dataclass(frozen=True, slots=True)
class Launched:
    """A host call with a correlation id that launches op `index` of the program on a stream."""

    index: int
    stream: int
    correlation: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """A host call with a correlation id that records an event on a stream, after all work launched on it before."""

    stream: int
    correlation: int


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait of a stream, from here on, for the event that the host call `record` recorded on another stream."""

    stream: int
    on_stream: int
    record: int
    correlation: int
    before: int


StreamCall = Launched | Recorded | Waited


def streams_of(lanes: Sequence[str]) -> dict[int, int]:
    """Return the stream number of each lane, by lane number; the host's lane has none."""
    out: dict[int, int] = {}
    for number, lane in enumerate(lanes):
        if lane != HOST:
            out[number] = _FIRST_STREAM if lane == _COMPUTE else _OTHERS_FROM + number
    return out


def stream_calls(program: ExpandedProgram, takes_time: Sequence[bool]) -> Iterator[StreamCall]:
    """Yield the host's calls in program order; an op of zero duration is only a wait of its stream."""
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
    """Return the points that ops of other streams wait for, as (lane, number of ops on this lane before the point)."""
    return {
        wait
        for lane, waits in zip(program.lane, program.waits, strict=True)
        if lane in streams
        for wait in waits
        if wait[0] in streams
    }


_FORWARD_THREAD: Final = 1
_BACKWARD_THREAD: Final = 2  # PyTorch's autograd has a thread of its own
_CPU: Final = 1_000_000  # processes of hosts, beside those of devices
STEP: Final = f"{form.STEP_PREFIX}0"


@dataclass(eq=False)
class ClassTrace:
    """Common content of the traces of all ranks of a class of equal ranks: the host's calls, and the details of each
    op."""

    walk: Walk

    @cached_property
    def facts(self) -> list[TracedCall]:
        """Kernel name and `args` of each op in the trace."""
        return self.walk.of_ops(partial(facts_of, self.walk))

    @cached_property
    def begin_end_us(self) -> tuple[list[float], list[float]]:
        """Begin and end (µs) of the event of each op; the event of a collective begins when its rank is ready."""
        walk = self.walk
        calls = np.array([not isinstance(op, Compute) for op in walk.ops], bool)
        begin = np.where(calls, walk.ready_s, walk.start_s)
        return (begin / form.MICROSECOND).tolist(), (walk.end_s / form.MICROSECOND).tolist()

    @cached_property
    def calls(self) -> list[StreamCall]:
        """Host calls that submit work to the device's streams, in order."""
        begin, end = self.begin_end_us
        times = zip(self.walk.ops, begin, end, strict=True)
        takes_time = [not is_wait(op) or e > b for op, b, e in times]
        return list(stream_calls(self.walk.program, takes_time))

    @cached_property
    def launch_us(self) -> list[float]:
        """Time (µs) of each host call."""
        begin, latest = self.begin_end_us[0], np.inf
        out = []
        for call in reversed(self.calls):
            if isinstance(call, Launched):
                latest = min(latest, begin[call.index])
            out.append(latest)
        last = max((time for time in out if time < np.inf), default=0.0)
        return [min(time, last) for time in reversed(out)]

    @cached_property
    def thread(self) -> list[int]:
        """Host thread that launches each op: autograd's thread for weights that are gathered for the backward pass."""
        schedule = self.walk.step.schedule
        return self.walk.of_ops(lambda op: _BACKWARD_THREAD if is_of_backward(op, schedule) else _FORWARD_THREAD)


def is_of_backward(op: Op, schedule: Schedule) -> bool:
    """Return whether an op belongs to the backward pass, judged by its tensors and names."""
    if isinstance(op, Collective):
        return any(schedule.tensors[ref.name].stage in ("backward", "recompute") for ref in op.dst)
    return isinstance(op, Compute) and op.named.part is not None


def groups_of(schedule: Schedule) -> CommunicatorGroups:
    """Return the process groups of all collective calls, in the order of the ops; the world group is number 0, as in
    PyTorch."""
    every = (op for op in schedule.ops if not isinstance(op, Compute))
    axes = (Communicator(op.comm, op.axes if isinstance(op, Collective) else (op.axis,)) for op in every)
    return CommunicatorGroups(schedule.mesh, list(dict.fromkeys(axes)))


def head_of(rank: int, num_ranks: int, groups: CommunicatorGroups, machine: dict[str, Any], stands_for: str) -> str:
    """Return the first keys of a rank's file, before its events, with spaces after colons and commas, which some
    readers require."""
    described = [_described(0, "default_pg", list(range(num_ranks)))]
    for communicator in groups.number_of:
        number = groups.of(communicator, rank)
        described.append(_described(number, communicator.title, groups.members[number]))
    head = {
        "schemaVersion": form.SCHEMA_VERSION,
        "deviceProperties": [machine],
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": num_ranks,
            "pg_count": len(described),
            "pg_config": described,
        },
        "displayTimeUnit": "ms",
        form.OWN: {"stands_for": stands_for},
    }
    return json.dumps(head)[:-1]


def _described(number: int, what: str, ranks: list[int]) -> dict[str, Any]:
    return {
        **{"pg_name": str(number), "pg_desc": what, "backend_config": "cuda:nccl"},
        **{"pg_size": len(ranks), "ranks": ranks},
    }


def events_of(trace: ClassTrace, rank: int, groups: CommunicatorGroups, process: int) -> Iterator[dict[str, Any]]:
    """Yield all events of a rank; `process`: the process id that stands for the device."""
    lanes, host = trace.walk.program.lanes, _CPU + process
    yield _named(process, 0, "process_name", f"rank {rank}")
    yield _named(host, 0, "process_name", f"rank {rank}: host")
    for lane, stream in streams_of(lanes).items():
        yield _named(process, stream, "thread_name", f"stream {stream} {lanes[lane]}")
    end_us = max(trace.begin_end_us[1], default=0.0)
    for category, pid, tid in ((form.ANNOTATION, host, _FORWARD_THREAD), (form.GPU_ANNOTATION, process, 7)):
        yield _whole(category, STEP, pid, tid, 0.0, end_us, {})
    if _BACKWARD_THREAD in trace.thread:
        yield _whole(form.CPU_OP, form.BACKWARD_PREFIX, host, _BACKWARD_THREAD, 0.0, end_us, {"Fwd thread id": 1})
    yield from _on_host(trace, host)
    yield from _on_device(trace, rank, groups, process)
    yield from _of_the_host(trace, host)


def _on_host(trace: ClassTrace, host: int) -> Iterator[dict[str, Any]]:
    for call, at_us in zip(trace.calls, trace.launch_us, strict=True):
        args: dict[str, Any] = {"correlation": call.correlation}
        thread = _FORWARD_THREAD
        match call:
            case Launched():
                name, thread = "cudaLaunchKernel", trace.thread[call.index]
            case Recorded():
                name = "cudaEventRecord"
                args["stream"] = call.stream
            case Waited():
                name = "cudaStreamWaitEvent"
                args["stream"] = call.stream
        yield _whole("cuda_runtime", name, host, thread, at_us, at_us, args)


def _on_device(trace: ClassTrace, rank: int, groups: CommunicatorGroups, process: int) -> Iterator[dict[str, Any]]:
    begin, end = trace.begin_end_us
    sequence = Counter[Communicator]()
    for call in trace.calls:
        args: dict[str, Any] = {
            "device": process,
            "stream": getattr(call, "stream", 0),
            "correlation": call.correlation,
        }
        if isinstance(call, Waited):
            args |= {form.WAIT_STREAM: call.on_stream, form.WAIT_RECORD: call.record}
            at = begin[call.before]
            yield _whole(form.STREAM_SYNC, form.STREAM_WAIT, process, call.stream, at, at, args)
        elif isinstance(call, Launched):
            facts, begin_us, end_us = trace.facts[call.index], begin[call.index], end[call.index]
            args |= facts.args
            if facts.axes:
                communicator = Communicator(facts.comm, facts.axes)
                sequence[communicator] += 1
                args |= _group(groups, communicator, rank) | {form.SEQUENCE: sequence[communicator]}
            yield _whole(form.KERNEL, facts.kernel, process, call.stream, begin_us, end_us, args)


def _group(groups: CommunicatorGroups, communicator: Communicator, rank: int) -> dict[str, Any]:
    number = groups.of(communicator, rank)
    return {
        form.GROUP_NAME: str(number),
        form.GROUP_WHAT: communicator.title,
        form.GROUP_RANKS: str(groups.members[number]),
    }


def _of_the_host(trace: ClassTrace, host: int) -> Iterator[dict[str, Any]]:
    """Yield the ops of the host's lane."""
    begin, end = trace.begin_end_us
    for index, op in enumerate(trace.walk.ops):
        if op.lane == HOST:
            yield _whole(form.CPU_OP, f"{op.kind} {op.name}", host, 0, begin[index], end[index], {})


def _whole(
    category: str, name: str, pid: int, tid: int, begin_us: float, end_us: float, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        **{"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid},
        **{"ts": begin_us, "dur": end_us - begin_us, "args": args},
    }


def _named(pid: int, tid: int, what: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def texts(events: Iterator[dict[str, Any]]) -> Sequence[str]:
    """Return the events as JSON texts."""
    encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
    return [encode(event) for event in events]
