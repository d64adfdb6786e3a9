"""From what every rank clocked to one trace: medians over iterations, in the schema of the simulator's traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simfrontier.collectives import messages_of
from simfrontier.schedule.cost import traffic_bytes
from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.ir import Collective, Op, Schedule
from simfrontier.schedule.store import digest
from simfrontier.trace import Span, Trace
from simfrontier_real.executor import StepTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Clocked:
    """One rank's times of all iterations, [iterations, ops], in seconds of rank 0's clock; its host; and the bytes of
    the messages that it handed over, per op."""

    begin_s: Any
    ready_s: Any
    end_s: Any
    host: str
    message_bytes: Mapping[int, int]


def clocked(times: list[StepTimes], offset_s: float, host: str, message_bytes: Mapping[int, int]) -> Clocked:
    """A rank's times as arrays; `offset_s` is added to make them rank 0's."""
    import numpy as np

    return Clocked(
        np.array([each.begin_s for each in times]) + offset_s,
        np.array([each.ready_s for each in times]) + offset_s,
        np.array([each.end_s for each in times]) + offset_s,
        host,
        dict(message_bytes),
    )


def trace_of(
    schedule: Schedule, program: Expanded, ranks: list[Clocked], title: str, notes: Mapping[str, str]
) -> Trace:
    """The trace of all ranks; every time is the median over the iterations."""
    import numpy as np

    ready, start, end = aligned(schedule, program, ranks)
    steps = end.max(axis=(0, 2))
    quarter, half, three = np.percentile(steps, [25, 50, 75])
    measured = {
        "mesh": ", ".join(f"{name} {size}" for name, size in schedule.mesh.axes),
        "iterations": str(len(steps)),
        "step_median_s": f"{half:.9f}",
        "steps_s": " ".join(f"{step:.6f}" for step in steps),
    }
    if len(steps) > 1:  # a single step has no spread
        measured["step_iqr_s"] = f"{three - quarter:.9f}"
    ready, start, end = (np.median(each, axis=1) for each in (ready, start, end))
    end = np.maximum(end, start)  # clocks of several hosts differ by up to the noted error
    spans = tuple(
        _spans(schedule, program, ranks, rank, ready[rank], start[rank], end[rank]) for rank in range(len(ranks))
    )
    return Trace(
        digest=digest(schedule),
        title=title,
        ranks=tuple(f"rank {rank} on {each.host}" for rank, each in enumerate(ranks)),
        members=tuple((rank,) for rank in range(len(ranks))),
        spans=spans,
        notes={**notes, **measured},
    )


def aligned(
    schedule: Schedule, program: Expanded, ranks: list[Clocked]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(ready, start, end) of every op, [ranks, iterations, ops] in seconds from the moment at which the first rank set
    out on the step. A collective starts when the last rank of its group is ready."""
    import numpy as np

    begin = np.min([rank.begin_s for rank in ranks], axis=0)[:, None]
    ready = np.stack([rank.ready_s - begin for rank in ranks])
    end = np.stack([rank.end_s - begin for rank in ranks])
    start = ready.copy()
    for axes, indices in _collectives_by_axes(schedule, program).items():
        for group in schedule.mesh.groups(axes):
            latest = ready[group][:, :, indices].max(axis=0)
            start[np.ix_(group, range(ready.shape[1]), indices)] = latest
    return ready, start, end


def _collectives_by_axes(schedule: Schedule, program: Expanded) -> dict[tuple[str, ...], list[int]]:
    out: dict[tuple[str, ...], list[int]] = {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Collective):
            out.setdefault(schedule.mesh.live(op.axes), []).append(index)
    return out


def _spans(
    schedule: Schedule,
    program: Expanded,
    ranks: list[Clocked],
    rank: int,
    ready: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
) -> tuple[Span, ...]:
    levels: dict[tuple[str, ...], str] = {}
    sizes: dict[int, float] = {}
    out = []
    for index, (op, call) in enumerate(zip(program.ops, program.calls, strict=True)):
        axes, level, message = "", "", 0.0
        if isinstance(op, Collective):
            axes = "+".join(op.axes)
            if op.axes not in levels:
                levels[op.axes] = _level(schedule, ranks, rank, op)
            level, message = levels[op.axes], float(ranks[rank].message_bytes.get(index, 0))
        if id(op) not in sizes:
            sizes[id(op)] = _own_bytes(op, schedule)
        own = sizes[id(op)]
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


def _level(schedule: Schedule, ranks: list[Clocked], rank: int, op: Collective) -> str:
    """The boundary that is known for certain: whether the rank's group is on several hosts."""
    table = schedule.mesh.groups(schedule.mesh.live(op.axes))
    group = table[int((table == rank).any(axis=1).argmax())]
    return "inter_node" if len({ranks[member].host for member in group}) > 1 else "intra_node"


def _own_bytes(op: Op, schedule: Schedule) -> float:
    """Bytes that a rank puts on the wire if nothing is sent twice, or memory traffic of local work."""
    mesh = schedule.mesh
    if not isinstance(op, Collective):
        return float(traffic_bytes(op, schedule.tensors, mesh))
    share = (mesh.size(op.axes) - 1) / mesh.size(op.axes) * (2 if op.kind == "all_reduce" else 1)
    return share * sum(message.num_bytes for message in messages_of(op, schedule.tensors, mesh))
