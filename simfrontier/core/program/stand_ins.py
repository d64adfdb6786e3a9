"""Stand-ins: single ops in place of all ops of a segment, where no other lane sees the separate ones."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from simfrontier.core.program.expansion import expand
from simfrontier.core.program.ir import HOST, Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule
from simfrontier.core.program.kinds.measured import CALL

LANE = "compute"


class Segment(NamedTuple):
    """Ops of a call that follow each other: the number of the call's block, and which of its ops."""

    block: int
    begin: int
    end: int


class StandIns:
    """The ops that may stand for segments of a role's calls; each touches what ops of other lanes touch too."""

    def __init__(self, schedule: Schedule, role: Role) -> None:
        self._schedule, self._role = schedule, role
        calls = {call.block: call for call in role.calls}
        open_lanes = {number: self._open_lanes(call) for number, call in calls.items()}
        self._opened = set[str]().union(*open_lanes.values())
        elsewhere = [op for call in calls.values() for op in call.ops if op.lane in self._opened]
        self._comms = {op.comm for op in elsewhere if not isinstance(op, Compute)}
        self._names = {ref.name for op in elsewhere for ref in (*op.reads, *op.writes, *op.accumulates)}
        self._plain = {
            number
            for number, call in calls.items()
            if not open_lanes[number] and len(call.ops) > 1 and all(map(self._is_plain, call.ops))
        }
        self._known: dict[Segment, Compute | None] = {}

    def parts(self, call: Call, cuts: set[int]) -> list[Segment]:
        """A call, cut before these ops, in parts that may be nodes; where they may not, each op is a part."""
        edges = pairwise((0, *sorted(cuts), len(call.ops)))
        parts = [Segment(call.block, begin, end) for begin, end in edges]
        if all(self._may_be_node(call, part) for part in parts):
            return parts
        return [Segment(call.block, place, place + 1) for place in range(len(call.ops))]

    def of(self, call: Call, segment: Segment) -> Compute | None:
        """What stands for a segment of a call, None where nothing may or where it is a single op."""
        if segment not in self._known:
            self._known[segment] = self._made(call, segment)
        return self._known[segment]

    def _may_be_node(self, call: Call, segment: Segment) -> bool:
        is_kernel = segment.end - segment.begin == 1 and call.ops[segment.begin].lane == LANE
        return is_kernel or self.of(call, segment) is not None

    def _made(self, call: Call, segment: Segment) -> Compute | None:
        ops = call.ops[segment.begin : segment.end]
        if segment.block not in self._plain or len(ops) == 1:
            return None
        if len(ops) < len(call.ops) and self._open_lanes(Call(call.label, call.layer, call.micro, ops)):
            return None
        return Compute(
            kind=CALL.name,
            name=CALL.name,
            reads=self._shared(ref for op in ops for ref in op.reads),
            writes=self._shared(ref for op in ops for ref in op.writes),
            accumulates=self._shared(ref for op in ops for ref in op.accumulates),
            number=len(self._schedule.ops) + len(self._known),
        )

    def _shared(self, refs: Iterable[Ref]) -> tuple[Ref, ...]:
        return tuple(dict.fromkeys(ref for ref in refs if ref.name in self._names))

    def _is_plain(self, op: Op) -> bool:
        if op.lane in self._opened or isinstance(op, Exchange):
            return False
        axis = None if self._role.at is None else self._role.at[0]
        if isinstance(op, Collective) and (op.blocking or op.comm in self._comms or axis in op.axes):
            return False
        tensors = self._schedule.tensors
        refs = (*op.reads, *op.writes, *op.accumulates)
        return all(tensors[ref.name].pool is None for ref in refs if ref.name in tensors)

    def _open_lanes(self, call: Call) -> set[str]:
        """The other lanes on which not all that a call does lies between its first and its last op on `compute`."""
        lanes = {op.lane for op in call.ops}
        others = lanes - {LANE}
        if not others or LANE not in lanes or HOST in lanes:
            return others
        program = expand(self._schedule, Role(self._role.name, (call,), self._role.at))
        by_lane, compute = program.by_lane, program.lanes.index(LANE)
        out = set()
        for number, (lane, nodes) in enumerate(zip(program.lanes, by_lane, strict=True)):
            begins = any(other == compute for other, _ in program.waits[nodes[0]])
            ends = any((number, len(nodes)) in program.waits[node] for node in by_lane[compute])
            if lane != LANE and not (begins and ends):
                out.add(lane)
        return out
