"""A job read from the traces of its ranks: its schedule, how long its kernels took, and what its step and its calls
took when they were measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Final

from simfrontier.errors import InputError
from simfrontier.kineto.job_schedule import JobSchedule
from simfrontier.kineto.mesh import GroupAxes, mesh_of
from simfrontier.kineto.order import placed
from simfrontier.kineto.programs import RankProgram, Roles, program_of, roles_of
from simfrontier.kineto.rank_trace import RankTrace
from simfrontier.kineto.read_rank import read_rank
from simfrontier.machine import MeasuredKernel
from simfrontier.records import dataclass
from simfrontier.schedule import Schedule, check_calls
from simfrontier.trace import kineto as form, ranks_of_text

_SAME: Final = 1e-12  # kernels whose times differ by less, relative, took as long


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A job. `places`: of each role, the op of each kernel in its program; `times`: of each rank with a trace of its
    own, how many times as long its kernels took as the mean of its role, by number of the kernel; empty where all took
    as long. `measured_s`: the step, of the rank that took longest; `call_s`: of each role, by number of the kernel,
    what a collective took on the rank of its group that waited least; `notes`: what was taken for something else, or
    left out."""

    schedule: Schedule
    on: GroupAxes
    roles: Roles
    kernels: Mapping[str, MeasuredKernel]
    places: Sequence[Sequence[int]]
    times: Mapping[int, Mapping[int, float]]
    measured_s: float
    call_s: Sequence[Mapping[int, float]]
    notes: tuple[str, ...]


def read_job(
    paths: Sequence[Path],
    step: int | None = None,
    stand_in: bool = False,
    devices_per_node: int | None = None,
    read: Callable[[], None] = lambda: None,
) -> Job:
    """The job of these traces: of all its ranks, of ranks that say for whom they stand, or, where they `stand_in`, of
    some that stand for all. `step`: the number of the step (default: that of median length in the first trace);
    `devices_per_node`: so that groups within nodes have an axis of their own, where that fits; `read` is called after
    each trace. Raises InputError."""
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
    programs = [program_of(trace, placed(trace), on) for trace in traces]
    roles = roles_of(programs, on)
    making = JobSchedule(roles=roles, on=on)
    schedule = making.made()
    if findings := check_calls(schedule).findings:
        raise InputError(f"the ranks' calls do not fit together: {findings[0]}", where=traces[0].where)
    means, times, left_out = _times(roles, making)
    return Job(
        schedule=schedule,
        on=on,
        roles=roles,
        kernels=making.kernels | means,
        places=making.places,
        times=times,
        measured_s=max(trace.step_s for trace in traces),
        call_s=[_least(several) for several in roles.programs],
        notes=tuple(_notes(traces, left_out)),
    )


def _refuse_unfit(traces: Sequence[RankTrace], stand_in: bool) -> None:
    """Raise InputError where traces are of several jobs, twice of one rank, or not of all ranks."""
    first, seen = traces[0], dict[int, RankTrace]()
    stood_for: set[int] = set()
    for trace in traces:
        if trace.num_ranks != first.num_ranks:
            text = f"of a job of {trace.num_ranks} ranks, but {first.where} of {first.num_ranks}; allowed: one job"
            raise InputError(text, where=trace.where)
        if trace.rank in seen:
            raise InputError(f"of rank {trace.rank}, as {seen[trace.rank].where}; allowed: one each", where=trace.where)
        seen[trace.rank] = trace
        stood_for.add(trace.rank)
        try:
            stood_for.update(ranks_of_text(trace.stands_for))
        except ValueError as error:
            raise InputError(f"{form.OWN}.stands_for: {error}", where=trace.where) from None
    if len(stood_for & set(range(first.num_ranks))) < first.num_ranks and not stand_in:
        text = (
            f"traces of {len(stood_for)} of {first.num_ranks:,} ranks; allowed: of all, or --stand-in, where these "
            "stand for all others"
        )
        raise InputError(text, where=first.where)


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


def _times(
    roles: Roles, making: JobSchedule
) -> tuple[dict[str, MeasuredKernel], dict[int, dict[int, float]], list[int]]:
    """What kernels took on the mean of their role's ranks, where that is not what its first rank took; how many times
    as long they took on each rank; and the ranks whose kernels are others than those of their role's first."""
    means: dict[str, MeasuredKernel] = {}
    times: dict[int, dict[int, float]] = {}
    left_out: list[int] = []
    for number, several in enumerate(roles.programs):
        first = several[0]
        alike = [each for each in several if _lanes_of(each) == _lanes_of(first)]
        left_out += [each.rank for each in several if each not in alike]
        took = [_took(each) for each in alike]
        for lane, indices in _kernels_by_lane(first).items():
            for place, index in enumerate(indices):
                own = [each[lane][place] for each in took]
                mean = fmean(own)
                if first.placed[index].kernel.own or max(own) - min(own) <= _SAME * mean:
                    continue
                name = making.name_of(number, index)
                means[name] = replace(making.kernels[name], seconds=mean)
                for program, seconds in zip(alike, own, strict=True):
                    times.setdefault(program.rank, {})[index] = seconds / mean
    return means, times, left_out


def _kernels_by_lane(program: RankProgram) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for index, (each, lane) in enumerate(zip(program.placed, program.lanes, strict=True)):
        if each.kernel.call is None:
            out.setdefault(lane, []).append(index)
    return out


def _lanes_of(program: RankProgram) -> dict[str, int]:
    return {lane: len(indices) for lane, indices in _kernels_by_lane(program).items()}


def _took(program: RankProgram) -> dict[str, list[float]]:
    kernels = [each.kernel for each in program.placed]
    by_lane = _kernels_by_lane(program)
    return {lane: [kernels[i].end_s - kernels[i].start_s for i in indices] for lane, indices in by_lane.items()}


def _least(several: Sequence[RankProgram]) -> dict[int, float]:
    """Of each collective of a role's first rank, by number of the kernel, what it took on the rank of its group that
    waited least. Ranks match their calls by the number in the group, or, where there is none, by their order."""
    numbered = [list(_numbered(program)) for program in several]
    least: dict[tuple[object, ...], float] = {}
    for _, key, took_s in (each for calls in numbered for each in calls):
        least[key] = min(took_s, least.get(key, took_s))
    return {index: least[key] for index, key, _ in numbered[0]}


def _numbered(program: RankProgram) -> Iterator[tuple[int, tuple[object, ...], float]]:
    """(kernel, what its call is called on all ranks of the group, seconds) of every collective."""
    count: dict[tuple[object, ...], int] = {}
    for index, each in enumerate(program.placed):
        call = each.kernel.call
        if call is None or program.ends[index] is not None:
            continue
        order = call.ranks, program.lanes[index]
        count[order] = count.get(order, 0) + 1
        key = (*order, count[order]) if call.sequence is None else (call.ranks, call.group, call.sequence)
        yield index, key, each.kernel.end_s - each.kernel.start_s


def _notes(traces: Sequence[RankTrace], left_out: Sequence[int]) -> Iterator[str]:
    names = {kernel.call.name for trace in traces for kernel in trace.kernels if kernel.call is not None}
    yield from (form.LIKE[name] for name in sorted(names & set(form.LIKE)))
    if any(trace.waits is None for trace in traces):
        yield "no waits of streams in the traces: what a kernel waits for is told from times"
    if left_out:
        yield f"{len(left_out)} ranks run other kernels than the first of their program (rank {left_out[0]} ...)"
