"""Jobs read from the profiler traces of their ranks: schedule, kernel times, and measured times of step and
collectives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simfrontier.base.errors import InputError
from simfrontier.base.units import counted
from simfrontier.core.machine import MeasuredKernel
from simfrontier.core.program import Schedule, check_calls
from simfrontier.core.trace import kineto as form, ranks_of_text
from simfrontier.inputs.profiler.common_kernels import with_common_kernels
from simfrontier.inputs.profiler.job_schedule import JobSchedule
from simfrontier.inputs.profiler.mesh import mesh_of
from simfrontier.inputs.profiler.programs import RankProgram, Roles, placed, program_of, roles_of
from simfrontier.inputs.profiler.rank_trace import DeviceModel, RankTrace
from simfrontier.inputs.profiler.read_rank import read_rank


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A job read from traces. `places`: for each role, the op index of each kernel in the role's program. `times`: for
    each rank with a trace of its own, the times of its kernels and pauses relative to the mean of its role, by op
    index; empty if all times are equal. `step_name` and `measured_s`: name of the step, and step time of the slowest
    rank. `call_s`: for each role, the minimum time of each collective over the ranks of its group, by index of the
    kernel. `partial_groups`: groups in which some ranks have no trace, so that these minima may include waiting for
    these ranks. `devices`: the devices that the traces name. `notes`: sentences on assumptions, and on parts that are
    left out."""

    schedule: Schedule
    roles: Roles
    kernels: Mapping[str, MeasuredKernel]
    places: Sequence[Sequence[int]]
    times: Mapping[int, Mapping[int, float]]
    step_name: str
    measured_s: float
    call_s: Sequence[Mapping[int, float]]
    partial_groups: frozenset[tuple[int, ...]]
    devices: tuple[DeviceModel, ...]
    notes: tuple[str, ...]


def read_job(
    paths: Sequence[Path],
    step: int | None = None,
    stand_in: bool = False,
    devices_per_node: int | None = None,
    read: Callable[[], None] = lambda: None,
) -> Job:
    """Return the job of these traces. They must be the traces of all ranks, or name the ranks for which they stand;
    with `stand_in`, the traces of some ranks stand for all ranks. `step` is the number of the step (default: the last
    complete step of the first trace). `devices_per_node`: groups within nodes get a mesh axis of their own, where
    possible. `read` is called after each trace is read. Raises InputError."""
    name = None if step is None else f"{form.STEP_PREFIX}{step}"
    traces: list[RankTrace] = []
    for path in paths:
        traces.append(read_rank(path, name))
        name = name or traces[0].step_name or None
        read()
    traces.sort(key=lambda trace: trace.rank)
    _refuse_unfit(traces, stand_in)
    bounds = (devices_per_node,) if devices_per_node else ()
    on = mesh_of(traces[0].num_ranks, _groups(traces), bounds)
    with_end = any(trace.ends_idle for trace in traces)
    programs = [program_of(trace, placed(trace, with_end), on) for trace in traces]
    roles = roles_of(programs, on)
    common = [trace for several in roles.programs for trace in with_common_kernels(several)]
    lacking = sum(len(trace.kernels) for trace in traces) - sum(len(trace.kernels) for trace in common)
    if lacking:
        traces = sorted(common, key=lambda trace: trace.rank)
        programs = [program_of(trace, placed(trace, with_end), on) for trace in traces]
        roles = roles_of(programs, on)
    alike = [[each for each in several if each.is_like(several[0])] for several in roles.programs]
    making = JobSchedule(roles.axis, alike, on)
    schedule = making.made()
    if findings := check_calls(schedule).findings:
        raise InputError(f"the ranks' calls do not fit together: {findings[0]}", where=traces[0].where)
    partial = _partial_groups(traces)
    left_out = [each.rank for each in programs if not any(each in several for several in alike)]
    return Job(
        schedule=schedule,
        roles=roles,
        kernels=making.kernels,
        places=making.places,
        times=making.times,
        step_name=traces[0].step_name,
        measured_s=_measured(traces),
        call_s=_least(roles),
        partial_groups=partial,
        devices=tuple(dict.fromkeys(trace.device for trace in traces if trace.device is not None)),
        notes=(*_notes(traces, lacking, left_out), *_waiting(partial, len(traces))),
    )


def _measured(traces: Sequence[RankTrace]) -> float:
    """Return the step time of the slowest rank; if the period between steps is known for some ranks, only of these."""
    periods = [trace for trace in traces if trace.measured_by == "period"]
    longest = max(periods or traces, key=lambda trace: trace.step_s)
    if not longest.step_s > 0.0:
        raise InputError("a step that takes no time; allowed: kernels with a length", where=longest.where)
    return longest.step_s


def _refuse_unfit(traces: Sequence[RankTrace], stand_in: bool) -> None:
    """Raise InputError if the traces belong to several jobs, if two belong to one rank, or if ranks are missing."""
    first, seen = traces[0], dict[int, RankTrace]()
    stood_for: set[int] = set()
    for trace in traces:
        if trace.num_ranks != first.num_ranks:
            text = f"of a job of {trace.num_ranks} ranks, but {first.where} of {first.num_ranks}; allowed: one job"
            raise InputError(text, where=trace.where)
        if trace.rank in seen:
            text = f"of rank {trace.rank}, as {seen[trace.rank].where}; allowed: one trace of each rank of one job"
            raise InputError(text, where=trace.where)
        seen[trace.rank] = trace
        stood_for |= _stood_for(trace)
    if len(stood_for & set(range(first.num_ranks))) < first.num_ranks and not stand_in:
        text = (
            f"traces of {len(stood_for)} of {first.num_ranks:,} ranks; allowed: of all, or --stand-in, where these "
            "stand for all others"
        )
        raise InputError(text, where=first.where)


def _stood_for(trace: RankTrace) -> set[int]:
    """Return the ranks for which a trace stands: its own rank, and the ranks whose steps are the same according to a
    simulation."""
    try:
        return {trace.rank, *ranks_of_text(trace.stands_for)}
    except ValueError as error:
        raise InputError(f"{form.OWN}.stands_for: {error}", where=trace.where) from None


def _partial_groups(traces: Sequence[RankTrace]) -> frozenset[tuple[int, ...]]:
    """Return the groups of collectives in which some ranks have no trace."""
    members = {trace.rank: _stood_for(trace) for trace in traces}
    calls = (kernel.call for trace in traces for kernel in trace.kernels if kernel.call is not None)
    groups = {call.ranks for call in calls if call.peer is None}
    known = {group: set[int]().union(*(members[rank] for rank in group if rank in members)) for group in groups}
    return frozenset(group for group, ranks in known.items() if not ranks.issuperset(group))


def _waiting(partial: Collection[tuple[int, ...]], num_traces: int) -> Iterator[str]:
    if partial:
        count = "a trace of 1 rank" if num_traces == 1 else f"traces of {num_traces:,} ranks"
        yield (
            f"{count}, of groups of up to {max(map(len, partial)):,}: where the rank that came last is missing, "
            "measured times of calls, and the step with them, hold waiting for it"
        )


def _groups(traces: Sequence[RankTrace]) -> Iterator[tuple[Sequence[int], str]]:
    for trace in traces:
        seen: set[tuple[int, ...]] = set()
        for kernel in trace.kernels:
            if kernel.call is None:
                continue
            beyond = [rank for rank in kernel.call.ranks if rank >= trace.num_ranks]
            if beyond:
                text = f"{kernel.call.name}: rank {beyond[0]} in a job of {trace.num_ranks}; allowed: ranks of the job"
                raise InputError(text, where=trace.where)
            if kernel.call.ranks not in seen:
                seen.add(kernel.call.ranks)
                yield kernel.call.ranks, trace.where


def _least(roles: Roles) -> list[dict[int, float]]:
    """Return, for the first rank of each role, the minimum time of each collective over the ranks of its group, by
    index of the kernel: the rank with the shortest time waits least for the others. Calls of different ranks are
    matched by their number in the group, or, if they have none, by their order."""
    numbered = [[list(_numbered(program)) for program in several] for several in roles.programs]
    least: dict[tuple[object, ...], float] = {}
    for _, key, took_s in (each for several in numbered for calls in several for each in calls):
        least[key] = min(took_s, least.get(key, took_s))
    return [{index: least[key] for index, key, _ in several[0]} for several in numbered]


def _numbered(program: RankProgram) -> Iterator[tuple[int, tuple[object, ...], float]]:
    """Yield (kernel, key of the call that all ranks of the group share, seconds) of every collective. Calls issued
    together may have the same number; such calls are numbered on from it."""
    count: dict[tuple[object, ...], int] = {}
    for index, op in enumerate(program.ops):
        call = op.kernel.call
        if call is None or op.ends is not None:
            continue
        order = call.ranks, call.group, call.sequence if call.sequence is not None else op.lane
        count[order] = count.get(order, 0) + 1
        yield index, (*order, count[order]), op.kernel.seconds


def _notes(traces: Sequence[RankTrace], lacking: int, left_out: Sequence[int]) -> Iterator[str]:
    names = {kernel.call.name for trace in traces for kernel in trace.kernels if kernel.call is not None}
    yield from (form.LIKE[name] for name in sorted(names & set(form.LIKE)))
    measured = {trace.measured_by for trace in traces}
    name = traces[0].step_name
    if "period" not in measured and "period of the next" in measured:
        yield f"no step before {name} in the trace: it is taken to last as long as the next step"
    elif "period" not in measured and "kernels" in measured:
        yield f"no step beside {name} in the trace: its time is the span of its kernels, which other steps may overlap"
    if any(trace.waits is None for trace in traces):
        yield "no waits of streams in the traces: what a kernel waits for is told from times"
    if lacking:
        yield f"{counted(lacking, 'kernel')} that not all ranks run: replayed as pauses of those that do"
    if left_out:
        yield f"{len(left_out)} ranks run other kernels than the first of their program (rank {left_out[0]} ...)"
    bare = sum(kernel.is_bare_call for trace in traces for kernel in trace.kernels)
    if bare:
        yield f"{bare:,} kernels of NCCL or RCCL do not say what they move: they are taken for computation"
    overlaps = sum(_overlaps(trace) for trace in traces)
    if overlaps:
        yield f"{overlaps:,} kernels begin before the one before them on their stream ends: they are replayed in turn"


def _overlaps(trace: RankTrace) -> int:
    ended: dict[str, float] = {}
    count = 0
    for kernel in trace.kernels:
        count += kernel.start_s < ended.get(kernel.stream, float("-inf")) - trace.tick_s
        ended[kernel.stream] = kernel.end_s
    return count
