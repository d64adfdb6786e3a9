"""Segments: consecutive ops of a call that are merged into one node of a role's program, so that a program of thousands
of ops has only as many nodes as segments.

A call, or a part of it, may be a segment under these conditions: it shares no collective or exchange with another role,
does not block the host, uses no memory pool, and is closed, which means that its ops on other lanes than `compute`
start after its first op on `compute` and end before its last one. All other calls with ops on these lanes must be
closed, too. Then ops outside the segment can wait only for its last op, and only its first op can wait for ops on
another lane, so that its ops run without interruption. A call with ops of the host is divided around these. A call that
does not meet these conditions is divided into several segments; if these are not closed either, each of its ops is a
node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from simfrontier.core.program.expansion import ExpandedProgram, Wait, expand, without_garbage_collection
from simfrontier.core.program.ir import HOST, Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule
from simfrontier.core.program.kinds import CALL

LANE = "compute"
NewWaits = tuple[int, list[Wait]]  # a node, and those of its dependencies that no earlier node on its lane has


class Segment(NamedTuple):
    """Consecutive ops of a call: the number of the call's block, and the index range [begin, end) of the ops in this
    block."""

    block: int
    begin: int
    end: int


def _of_device(call: Call) -> list[Op]:
    """Return the ops of a call that do not run on the host."""
    return [op for op in call.ops if op.lane != HOST]


class StandIns:
    """Representative ops for the segments of a role's calls, one op per segment. It accesses those tensors of the
    segment that ops on other lanes access, too."""

    def __init__(self, schedule: Schedule, role: Role) -> None:
        self._schedule, self._role = schedule, role
        calls = {call.block: call for call in role.first_calls()}
        open_lanes = {number: self._open_lanes(call) for number, call in calls.items()}
        self._opened = set[str]().union(*open_lanes.values())
        elsewhere = [op for call in calls.values() for op in call.ops if op.lane in self._opened]
        self._comms = {op.comm for op in elsewhere if not isinstance(op, Compute)}
        self._names = {ref.name for op in elsewhere for ref in (*op.reads, *op.writes, *op.accumulates)}
        self._plain = {
            number
            for number, call in calls.items()
            if open_lanes[number] <= {HOST} and len(call.ops) > 1 and all(map(self._is_plain, _of_device(call)))
        }
        self._known: dict[Segment, Compute | None] = {}
        self._parts: dict[tuple[int, frozenset[int]], list[Segment]] = {}  # by block and cuts

    def parts(self, call: Call, cuts: Collection[int]) -> list[Segment]:
        """Return the segments of a call that is divided before each op index in `cuts`; if one of them cannot be merged
        into one node, return each op as a segment of its own."""
        key = call.block, frozenset(cuts)
        if key not in self._parts:
            self._parts[key] = self._divided(call, cuts)
        return self._parts[key]

    def _divided(self, call: Call, cuts: Collection[int]) -> list[Segment]:
        at_host = [place + side for place, op in enumerate(call.ops) if op.lane == HOST for side in (0, 1)]
        edges = pairwise(sorted({0, *cuts, *at_host, len(call.ops)}))
        parts = [Segment(call.block, begin, end) for begin, end in edges]
        if all(self._may_be_node(call, part) for part in parts):
            return parts
        return [Segment(call.block, place, place + 1) for place in range(len(call.ops))]

    def of(self, call: Call, segment: Segment) -> Compute | None:
        """Return the op that represents a segment of a call; None if the segment is a single op or cannot be merged
        into one node."""
        if segment not in self._known:
            self._known[segment] = self._made(call, segment)
        return self._known[segment]

    def _may_be_node(self, call: Call, segment: Segment) -> bool:
        is_op = segment.end - segment.begin == 1 and call.ops[segment.begin].lane in (LANE, HOST)
        return is_op or self.of(call, segment) is not None

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
        """Return the lanes other than `compute` on which ops of a call may run before its first or after its last op on
        `compute`."""
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


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentedProgram:
    """A role's program with segments merged into nodes. `program` is the expanded program of these nodes, in which an
    op of kind `call` represents a segment.

    segments   [num_nodes] the segment that a node represents, None if the node is a single op
    blocks     [num_nodes] the ops of this segment, None if the node is a single op
    followers  [num_nodes] for a segment, the next node on its lane if that is an equal segment which starts immediately
               when this one ends (it has no further wait for other lanes, and no other lane waits for the end of this
               one); else -1
    """

    schedule: Schedule
    role: Role
    program: ExpandedProgram
    segments: list[Segment | None]
    blocks: list[tuple[Op, ...] | None]
    followers: list[int]

    @classmethod
    def of_ops(cls, schedule: Schedule, role: Role, program: ExpandedProgram | None = None) -> SegmentedProgram:
        """Return a role's program in which every op is a node. `program`: the role's expanded program, if already
        available."""
        every = program or expand(schedule, role)
        num = every.num_ops
        return cls(
            schedule=schedule,
            role=role,
            program=every,
            segments=[None] * num,
            blocks=[None] * num,
            followers=[-1] * num,
        )

    @cached_property
    def expanded(self) -> ExpandedProgram:
        """The role's expanded program, in which every op is a node."""
        return self.program if self.num_ops == self.program.num_ops else expand(self.schedule, self.role)

    def block(self, node: int) -> tuple[Op, ...]:
        """Return the ops of the segment that a node represents."""
        block = self.blocks[node]
        assert block is not None, f"node {node} of role {self.role.name} is an op, not a segment"
        return block

    def segment(self, node: int) -> Segment:
        """Return the segment that a node represents. Equal segments have the same ops."""
        segment = self.segments[node]
        assert segment is not None, f"node {node} of role {self.role.name} is an op, not a segment"
        return segment

    @property
    def num_ops(self) -> int:
        """Number of ops of the program, including the ops inside segments."""
        return sum(1 if block is None else len(block) for block in self.blocks)


def segmented(schedule: Schedule, role: Role, whole: bool = True) -> SegmentedProgram:
    """Return a role's program in as few nodes as possible; if `whole` is False, every op is a node.

    Raises InputError for a reference to an undeclared tensor.
    """
    if not whole:
        return SegmentedProgram.of_ops(schedule, role)
    stand_ins = StandIns(schedule, role)
    cuts: dict[int, set[int]] = {}  # by number of the call, the ops before which it is cut
    while True:
        parts = [stand_ins.parts(call, cuts.get(number, ())) for number, call in enumerate(role.calls)]
        calls, segments = _nodes(role, stand_ins, parts)
        program = expand(schedule, Role(role.name, calls, role.at))
        number_of = [number for number, each in enumerate(parts) for _ in each]
        each_node = zip(number_of, segments, strict=True)
        blocks = [None if one is None else role.calls[number].ops[one.begin : one.end] for number, one in each_node]
        news = _new_waits(program)
        disturbed = _disturbed(schedule, program, segments, blocks, news)
        if not disturbed:
            return SegmentedProgram(
                schedule=schedule,
                role=role,
                program=program,
                segments=segments,
                blocks=blocks,
                followers=_followers(program, segments, news),
            )
        for node, places in disturbed.items():
            segment = segments[node]
            assert segment is not None
            cuts.setdefault(number_of[node], set()).update(segment.begin + place for place in places)


@without_garbage_collection()
def segmented_roles(
    schedule: Schedule, program: ExpandedProgram | None = None, whole: bool = True
) -> tuple[SegmentedProgram, ...]:
    """Return the programs of all roles, with ops merged into segments if `whole`. If there is only one role, its ops
    are not merged, because its calls overlap. `program`: the expanded program of this single role, if already
    available."""
    if len(schedule.roles) == 1:
        return (SegmentedProgram.of_ops(schedule, schedule.roles[0], program),)
    return tuple(segmented(schedule, role, whole) for role in schedule.roles)


def _nodes(
    role: Role, stand_ins: StandIns, parts: list[list[Segment]]
) -> tuple[tuple[Call, ...], list[Segment | None]]:
    """Return the calls of a role divided into segments, each replaced by its representative op if it has one, and for
    each node its segment (None if the node is a single op)."""
    calls: list[Call] = []
    segments: list[Segment | None] = []
    for call, its_parts in zip(role.calls, parts, strict=True):
        if len(its_parts) == len(call.ops):  # each op is a node
            calls.append(call)
            segments += [None] * len(call.ops)
            continue
        for part in its_parts:
            stand_in = stand_ins.of(call, part)
            op = call.ops[part.begin] if stand_in is None else stand_in
            calls.append(Call(call.label, call.layer, call.micro, (op,), call.block))
            segments.append(None if stand_in is None else part)
    return tuple(calls), segments


def _followers(program: ExpandedProgram, segments: list[Segment | None], news: list[NewWaits]) -> list[int]:
    """Return for each segment node the next node, if that is an equal segment which starts immediately when this one
    ends; otherwise -1."""
    out = [-1] * program.num_ops
    if LANE not in program.lanes:
        return out
    compute = program.lanes.index(LANE)
    held: set[int] = set()  # nodes that wait for something on another lane
    awaited: set[int] = set()  # counts of finished ops of the lane for which an op of another lane waits
    for node, waits in news:
        for lane, count in waits:
            held.add(node)
            if lane == compute:
                awaited.add(count)
    nodes = program.by_lane[compute]
    for done, (node, after) in enumerate(pairwise(nodes), start=1):
        are_equal = segments[node] is not None and segments[node] == segments[after]
        if are_equal and after not in held and done not in awaited:
            out[node] = after
    return out


def _new_waits(program: ExpandedProgram) -> list[NewWaits]:
    """Return the nodes that have dependencies which are not implied by earlier nodes on their lanes, each with
    these."""
    known: defaultdict[int, dict[int, int]] = defaultdict(dict)  # lane → its waits for other lanes so far
    out = []
    for node, waits in enumerate(program.waits):
        waited_for = known[program.lane[node]]
        news = [(lane, count) for lane, count in waits if count > waited_for.get(lane, 0)]
        if news:
            waited_for.update(news)
            out.append((node, news))
    return out


def _disturbed(
    schedule: Schedule,
    program: ExpandedProgram,
    segments: list[Segment | None],
    blocks: list[tuple[Op, ...] | None],
    news: list[NewWaits],
) -> dict[int, set[int]]:
    """Return the segment nodes that must be divided, because an op inside waits for another lane or another lane waits
    for it. The result maps each node to the op indices before which to divide it."""
    if len(program.lanes) == 1:
        return {}
    by_lane = program.by_lane
    compute = program.lanes.index(LANE) if LANE in program.lanes else -1
    out: defaultdict[int, set[int]] = defaultdict(set)
    known: dict[tuple[Hashable, ...], set[int]] = {}  # equal if both are as far apart in layers and micro-batches

    def cut(node: int, block: tuple[Op, ...], other: int, is_awaited: bool) -> None:
        call, there = program.calls[node], program.calls[other]
        far = there.layer - call.layer, there.micro - call.micro
        key = segments[node], program.ops[other].number, far, is_awaited
        if key not in known:
            known[key] = _cuts(schedule, program, node, block, other, is_awaited)
        out[node] |= known[key]

    for node, waits in news:
        for lane, count in waits:
            other = by_lane[lane][count - 1]
            block, awaited = blocks[node], blocks[other] if lane == compute else None
            if block is not None and not _holds_host(program, other):
                cut(node, block, other, is_awaited=False)
            if awaited is not None:
                cut(other, awaited, node, is_awaited=True)
    return {node: places for node, places in out.items() if places}


def _cuts(
    schedule: Schedule, program: ExpandedProgram, node: int, block: tuple[Op, ...], other: int, is_awaited: bool
) -> set[int]:
    """Return the op indices before which to divide the segment at `node`, so that only its first op on `compute` waits
    for the node `other`, or that `other` waits only for its last op. If no single op causes the dependency, divide
    before every op."""
    touched = _touched_by(program, other)
    call = program.calls[node]
    places = [i for i, op in enumerate(block) if _conflict(_touched(schedule, op, call), touched)]
    if not places:
        return set(range(1, len(block)))
    on_lane = [i for i, op in enumerate(block) if op.lane == LANE]
    if is_awaited:
        return set() if places[-1] == on_lane[-1] else {places[-1] + 1}
    return {places[0]} - {on_lane[0]}


def _holds_host(program: ExpandedProgram, node: int) -> bool:
    """Return whether all ops issued later wait for this node: it runs on the host or blocks the host."""
    return program.lanes[program.lane[node]] == HOST or getattr(program.ops[node], "blocking", False)


Touched = tuple[set[Ref], set[Ref]]  # (reads, changes)


def _touched(schedule: Schedule, op: Op, call: Call) -> Touched:
    def absolute(refs: Iterable[Ref]) -> set[Ref]:
        out = set()
        for ref in refs:
            tensor = schedule.tensors[ref.name]
            layer = ref.layer + call.layer if tensor.per_layer else 0
            out.add(Ref(ref.name, layer, ref.micro + call.micro if tensor.per_micro else 0))
        return out

    return absolute(op.reads), absolute((*op.writes, *op.accumulates))


def _touched_by(program: ExpandedProgram, node: int) -> Touched:
    return set(program.reads[node]), {*program.writes[node], *program.accumulates[node]}


def _conflict(one: Touched, other: Touched) -> bool:
    return bool(one[1] & (other[0] | other[1]) or one[0] & other[1])
