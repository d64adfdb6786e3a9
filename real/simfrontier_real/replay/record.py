"""A single trace from the times of all ranks: medians over iterations, in the format of the simulator's traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives import message_bytes
from simfrontier.core.program import (
    Collective,
    Compute,
    Exchange,
    ExpandedProgram,
    Op,
    Ref,
    Schedule,
    digest,
    traffic_bytes,
)
from simfrontier.core.trace import (
    HELD_RANKS,
    OTHERS_SHARE,
    Arrow,
    Place,
    Process,
    Span,
    Trace,
    arrows_from_last,
    ranges_text,
)
from simfrontier_real.ops.executor import StepTimes
from simfrontier_real.ops.programs import Programs
from simfrontier_real.ranks.hosts import ProcessorTime, others_share
from simfrontier_real.ranks.transport import calls_by_group, group_of, peer_of

Times = tuple[Any, Any, Any]  # when ops were ready, started and ended, [iterations, ops]


@dataclass(frozen=True, slots=True)
class RankTimes:
    """Times of one rank in all iterations, [iterations, ops], in seconds of rank 0's clock; the rank's host; the bytes
    that it sent in each op; and the processor time that this rank and other programs used meanwhile."""

    begin_s: Any
    ready_s: Any
    end_s: Any
    host: str
    message_bytes: Mapping[int, int]
    spent: ProcessorTime | None = None


def clocked(
    times: list[StepTimes],
    offset_s: float,
    host: str,
    message_bytes: Mapping[int, int],
    spent: ProcessorTime | None = None,
) -> RankTimes:
    """Return the times of one rank as arrays; `offset_s` converts them to rank 0's clock."""
    return RankTimes(
        np.array([each.begin_s for each in times]) + offset_s,
        np.array([each.ready_s for each in times]) + offset_s,
        np.array([each.end_s for each in times]) + offset_s,
        host,
        dict(message_bytes),
        spent,
    )


def trace_of(
    schedule: Schedule,
    programs: Programs,
    ranks: list[RankTimes],
    title: str,
    notes: Mapping[str, str],
    most_ranks: int | None = None,
) -> Trace:
    """Return the trace of all ranks, or of a selection of at most `most_ranks` where possible; each time is the median
    over the iterations. The step times in the notes are those of all ranks."""
    times = aligned(schedule, programs, ranks)
    steps = np.max([end.max(axis=1) for _, _, end in times], axis=0)
    quarter, half, three = np.percentile(steps, [25, 50, 75])
    measured = {
        "mesh": ", ".join(f"{name} {size}" for name, size in schedule.mesh.axes),
        "iterations": str(len(steps)),
        "step_median_s": f"{half:.9f}",
        "steps_s": " ".join(f"{step:.6f}" for step in steps),
    }
    if len(steps) > 1:  # a single step has no spread
        measured["step_iqr_s"] = f"{three - quarter:.9f}"
    share = others_share([each.host for each in ranks], [each.spent for each in ranks])
    if share is not None:
        measured[OTHERS_SHARE] = f"{share:.4f}"
    held = held_ranks([each.host for each in ranks], most_ranks)
    if len(held) < len(ranks):
        measured[HELD_RANKS] = ranges_text(held)
    spans = []
    for rank in held:
        ready, start, end = (np.median(each, axis=0) for each in times[rank])
        end = np.maximum(end, start)  # clocks of several hosts differ by up to the noted error
        spans.append(_spans(schedule, programs.of(rank), ranks, rank, ready, start, end))
    return Trace(
        digest=digest(schedule),
        title=title,
        ranks=tuple(f"rank {rank} on {ranks[rank].host}" for rank in held),
        members=tuple((rank,) for rank in held),
        spans=tuple(spans),
        notes={**notes, **measured},
    )


def held_ranks(hosts: Sequence[str], most: int | None) -> list[int]:
    """Return all ranks; or, if there are more than `most`, the ranks of as many whole hosts (at least one) as have at
    most `most` ranks, evenly spaced from rank 0's host on."""
    if most is None or len(hosts) <= most:
        return list(range(len(hosts)))
    on_host = Counter(hosts)
    names = list(on_host)
    number = max(1, most // max(on_host.values()))
    chosen = {names[part * len(names) // number] for part in range(number)}
    return [rank for rank, host in enumerate(hosts) if host in chosen]


def aligned(schedule: Schedule, programs: Programs, ranks: list[RankTimes]) -> list[Times]:
    """Return for each rank (ready, start, end) of every op, [iterations, ops] in seconds since the first rank began the
    step. A communication op starts when the last participating rank is ready."""
    begin = np.min([rank.begin_s for rank in ranks], axis=0)[:, None]
    ready = [rank.ready_s - begin for rank in ranks]
    start = [each.copy() for each in ready]
    for groups, indices in calls_by_group(schedule, programs):
        for group in groups:
            places = [(rank, indices[programs.by_rank[rank]]) for rank in group]
            if all(calls for _, calls in places):
                latest = np.max([ready[rank][:, calls] for rank, calls in places], axis=0)
                for rank, calls in places:
                    start[rank][:, calls] = latest
    return [(a, b, rank.end_s - begin) for a, b, rank in zip(ready, start, ranks, strict=True)]


def arrows_of(schedule: Schedule, programs: Programs, processes: Sequence[Process]) -> list[Arrow]:
    """Return the arrows between the ranks in a trace, each of which is a process: for a collective from the last rank
    to be ready to the other ranks of its group, for an exchange from the sender to the receiver."""
    number = {process.members[0]: place for place, process in enumerate(processes)}
    out: list[Arrow] = []
    for groups, indices in calls_by_group(schedule, programs):
        for group in groups:
            held = [rank for rank in group if rank in number]
            calls = ([(number[rank], index) for index in indices[programs.by_rank[rank]]] for rank in held)
            for places in zip(*calls, strict=True):
                op = programs.of(held[0]).ops[places[0][1]]
                if not isinstance(op, Exchange):
                    out += arrows_from_last(processes, places)
                elif len(held) == len(group):
                    out += _sent(op, {programs.of(rank).at: place for rank, place in zip(held, places, strict=True)})
    return sorted(out, key=lambda arrow: (arrow.source, arrow.target))


def _sent(op: Exchange, places: Mapping[tuple[str, int] | None, Place]) -> Iterator[Arrow]:
    """Yield an arrow for each end of an exchange that sends: from the rank at this end to the rank at the other end."""
    there, back = (places[op.axis, end] for end in op.ends)
    if op.src:
        yield Arrow(there, back)
    if op.back_src:
        yield Arrow(back, there)


def _spans(
    schedule: Schedule,
    program: ExpandedProgram,
    ranks: list[RankTimes],
    rank: int,
    ready: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
) -> tuple[Span, ...]:
    levels: dict[tuple[str | int, ...], str] = {}
    sizes: dict[int, float] = {}
    out = []
    for index, (op, call) in enumerate(zip(program.ops, program.calls, strict=True)):
        axes, level, message = "", "", 0.0
        if not isinstance(op, Compute):
            axes, message = "+".join(_axes(op)), float(ranks[rank].message_bytes.get(index, 0))
            between = op.axes if isinstance(op, Collective) else (op.axis, *op.ends)
            if between not in levels:
                levels[between] = _level(schedule, ranks, rank, op)
            level = levels[between]
        if op.number not in sizes:  # an op is at one end only of a program
            sizes[op.number] = _own_bytes(op, schedule, program.reads[index])
        own = sizes[op.number]
        out.append(
            Span(
                op=index,
                lane=op.lane,
                kind=op.kind,
                name=op.name,
                axes=axes,
                level=level,
                call=call.label,
                layer=call.layer,
                micro=call.micro,
                num_bytes=own,
                message_bytes=message,
                ready_s=float(ready[index]),
                start_s=float(start[index]),
                end_s=float(end[index]),
            )
        )
    return tuple(out)


def _axes(op: Collective | Exchange) -> tuple[str, ...]:
    return op.axes if isinstance(op, Collective) else (op.axis,)


def _level(schedule: Schedule, ranks: list[RankTimes], rank: int, op: Collective | Exchange) -> str:
    """Return the network level of a collective or exchange: inter-node if its ranks are on several hosts, else
    intra-node."""
    if isinstance(op, Exchange):
        group = [rank, peer_of(op, schedule.mesh, rank)]
    else:
        group = [*group_of(schedule.mesh, schedule.mesh.live(op.axes), rank)[1]]
    return "inter_node" if len({ranks[member].host for member in group}) > 1 else "intra_node"


def _own_bytes(op: Op, schedule: Schedule, reads: tuple[Ref, ...]) -> float:
    """Return the bytes that a rank sends if no byte is sent twice; for local ops the memory traffic."""
    mesh = schedule.mesh
    if isinstance(op, Compute):
        return float(traffic_bytes(op, schedule.tensors, mesh))
    if isinstance(op, Exchange):
        return float(sent_bytes(schedule, op, reads))
    share = (mesh.size(op.axes) - 1) / mesh.size(op.axes) * (2 if op.kind == "all_reduce" else 1)
    return share * message_bytes(op, schedule.tensors, mesh)


def sent_bytes(schedule: Schedule, op: Exchange, reads: tuple[Ref, ...]) -> int:
    """Return the bytes that one end of an exchange sends, which are those it reads."""
    return sum(op.codec.wire_bytes(schedule.tensors[ref.name].local_elements(schedule.mesh)) for ref in reads)
