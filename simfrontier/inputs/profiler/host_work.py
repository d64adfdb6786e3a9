"""Work of the host's threads in a trace without a device: communication calls, and the outermost other events.

Plain PyTorch over gloo writes a call twice: as an op of torch.distributed on the thread that makes it, and as an event
of the thread of gloo that carries it out. Only the op tells a reduce-scatter from an all-reduce, by which gloo does it;
only the event lasts as long as the call. Neither names the group.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Final

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import checked
from simfrontier.core.trace import kineto as form
from simfrontier.inputs.profiler.trace_events import JOB, EventArgs, JobInfo, TraceEvent

_TICK_US: Final = 1e-3  # of the profiler's clock: ends are rounded to it
_OF_GLOO: Final = "gloo"  # the stream of all its calls, whose order the ranks share


def host_work(events: Sequence[TraceEvent], info: JobInfo, where: str) -> list[TraceEvent]:
    """Return the calls, and those other events that neither lie within another event nor contain a call. Raises
    InputError for a call whose message or group is not known."""
    carried = [event for event in events if event.name.startswith(form.GLOO)]
    if not carried or any(event.args.collective is not None for event in events):
        outer = _outermost(events, lambda event: event.args.collective is not None)
        return [event for event in outer if not event.name.startswith(form.GLOO)]
    own_threads = {event.thread for event in carried}
    ops = [event for event in events if event.category == form.CPU_OP and event.thread not in own_threads]
    calls = [event for event in events if event.name.startswith(form.HOST_CALL)]
    work = [event for event in _outermost(ops, _is_issued) if not _is_issued(event)]
    return work + _carried_out(calls, carried, _all_ranks(info, where), where)


def _outermost(events: Sequence[TraceEvent], is_call: Callable[[TraceEvent], bool]) -> list[TraceEvent]:
    """Return the calls, and those other events that neither lie within another event of their thread nor contain a
    call."""
    calls: dict[str, list[float]] = {}
    for event in filter(is_call, events):
        calls.setdefault(event.thread, []).append(event.begin_us)
    begins = {thread: sorted(each) for thread, each in calls.items()}
    out, until = [], dict[str, float]()
    for event in sorted(events, key=lambda each: (each.begin_us, -each.end_us)):
        if event.begin_us < until.get(event.thread, float("-inf")) - _TICK_US:
            continue
        if not is_call(event) and _holds(event, begins.get(event.thread, [])):
            continue
        until[event.thread] = event.end_us
        out.append(event)
    return out


def _holds(event: TraceEvent, begins: Sequence[float]) -> bool:
    """Return whether any of these begin times lies within an event."""
    place = bisect_left(begins, event.begin_us)
    return place < len(begins) and begins[place] < event.end_us


# ── plain PyTorch over gloo ──


def _is_issued(event: TraceEvent) -> bool:
    """Return whether an op of torch.distributed issues a call or waits for one: what the host does there is no work."""
    return event.name.startswith(form.HOST_CALL) or event.name == form.HOST_WAIT


def _all_ranks(info: JobInfo, where: str) -> int:
    """Return the number of ranks of the job. Raises InputError if it has groups of fewer, as a call does not say which
    is its own."""
    if info.num_ranks is None or not info.groups:
        text = "world_size or pg_config is missing; allowed: traces of plain PyTorch over gloo that name their groups"
        raise InputError(f"{JOB}: {text}", where=where)
    if other := [group for group in info.groups if group.size != info.num_ranks]:
        text = f"a group of {shown(other[0].size)} of {info.num_ranks:,} ranks, and gloo's events do not name theirs"
        raise InputError(f"{text}; allowed: groups of all ranks, or traces of NCCL or RCCL", where=where)
    return info.num_ranks


def _carried_out(
    calls: Sequence[TraceEvent], carried: Sequence[TraceEvent], num_ranks: int, where: str
) -> list[TraceEvent]:
    """Return gloo's events in the order of the calls that they carry out, with the keys of NCCL's calls. Raises
    InputError for a call without an event, and the other way round."""
    first_us = min((call.begin_us for call in calls), default=math.inf)
    left = sorted((event for event in carried if event.begin_us >= first_us), key=lambda event: event.begin_us)
    out = []
    for call in sorted(calls, key=lambda event: event.begin_us):
        if call.name not in form.HOST_CALLS:
            raise InputError(f"{call.name} over gloo: {nearest(call.name, form.HOST_CALLS)}", where=where)
        collective, by = form.HOST_CALLS[call.name]
        event = next((each for each in left if each.name == by and _fits(each, call)), None)
        if event is None:
            raise InputError(f"{call.name}: no event {by} of its size; allowed: traces of whole steps", where=where)
        left.remove(event)
        out.append(event.model_copy(update={"tid": _OF_GLOO, "args": _args(event, collective, num_ranks, where)}))
    if left:
        raise InputError(f"{left[0].name}: no call of its size; allowed: traces with the calls' thread", where=where)
    return _in_order(out)


def _in_order(calls: Sequence[TraceEvent]) -> list[TraceEvent]:
    """Return calls none of which begins after the next: two threads of gloo may record neighbours in the other
    order."""
    out: list[TraceEvent] = []
    for call in reversed(calls):
        begin_us = min(call.begin_us, out[-1].begin_us) if out else call.begin_us
        out.append(call.model_copy(update={"begin_us": begin_us, "lasts_us": call.end_us - begin_us}))
    return out[::-1]


def _fits(event: TraceEvent, call: TraceEvent) -> bool:
    """Return whether one operand of a call has the size of the event; true if either has no sizes."""
    if not event.args.dims or not call.args.dims:
        return True
    return _elements(event.args.dims) in map(_elements, call.args.dims)


def _elements(operand: Any) -> int:
    """Return the elements of a tensor, from its shape, or of a list of tensors."""
    shapes = [each for each in operand if isinstance(each, list)] or [operand] if isinstance(operand, list) else []
    return sum(math.prod(shape) for shape in shapes if all(isinstance(size, int) for size in shape))


def _args(event: TraceEvent, collective: str, num_ranks: int, where: str) -> EventArgs:
    """Return the keys of a collective of all ranks. Raises InputError if the profiler did not record its operand."""
    dims, types = event.args.dims, event.args.types
    if collective == form.BARRIER:
        dims, types = [[1]], ["unsigned char"]
    if not dims or not types:
        text = "no size of its message; allowed: traces of a profiler with record_shapes=True"
        raise InputError(f"{event.name}: {text}", where=where)
    if types[0] not in form.CPP_TYPES:
        text = f"{form.TYPES} {shown(types[0])}: {nearest(types[0], form.CPP_TYPES)}"
        raise InputError(f"{event.name}: {text}", where=where)
    gathers = form.COLLECTIVES[collective] == "all_gather" and collective not in form.LIKE
    values = {
        form.COLLECTIVE: collective,
        form.DTYPE: form.CPP_TYPES[types[0]],
        form.IN_ELEMENTS: _elements(dims),
        form.OUT_ELEMENTS: _elements(dims) * (num_ranks if gathers else 1),
        form.GROUP_SIZE: num_ranks,
        form.GROUP_NAME: _OF_GLOO,
        form.GROUP_RANKS: list(range(num_ranks)),
    }
    try:
        args: EventArgs = checked(values, EventArgs)
    except InputError as error:
        raise error.within(where) from None
    return args
