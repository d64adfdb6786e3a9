"""Segments: a role's calls as single nodes, where only the lane `compute` sees their separate ops.

A call may be one node if it shares no call with another role, does not block the host, takes no room in a pool, and is
closed: its ops on other lanes begin after its first op on `compute`, and its last op there begins after them, as on
those lanes the ops of all calls do. Then an op of another lane may only wait for its last op, and only its first op for
another lane's; where that is not so, its ops are nodes of their own. So the ops of a call run without interruption, and
a program of thousands of ops has as many nodes as calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from simfrontier.records import dataclass
from simfrontier.schedule.expansion import ExpandedProgram, Wait, expand
from simfrontier.schedule.ir import Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule

LANE = "compute"
KIND = "call"  # of the op that stands for all ops of a call


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentedProgram:
    """A role's program in nodes: `program` is the expansion, in which an op of kind `call` stands for a whole call.

    blocks     [num_nodes] the ops of the call that a node stands for, None where the node is an op as it is
    followers  [num_nodes] of a call, the equal one that begins at once when it ends: all else that this one waits for
               is done when the first begins, and nothing else waits for the first; -1: there is none
    """

    schedule: Schedule
    role: Role
    program: ExpandedProgram
    blocks: list[tuple[Op, ...] | None]
    followers: list[int]

    @classmethod
    def of_ops(cls, schedule: Schedule, role: Role, program: ExpandedProgram | None = None) -> SegmentedProgram:
        """A role with every op as a node; `program`: its expansion, if it is at hand."""
        every = program or expand(schedule, role)
        ops = every.num_ops
        return cls(schedule=schedule, role=role, program=every, blocks=[None] * ops, followers=[-1] * ops)

    def expanded(self) -> ExpandedProgram:
        """The role's program with every op."""
        return self.program if self.num_ops == self.program.num_ops else expand(self.schedule, self.role)

    def block(self, node: int) -> tuple[Op, ...]:
        """The ops of the call that a node stands for."""
        block = self.blocks[node]
        assert block is not None, f"node {node} of role {self.role.name} is an op, not a call"
        return block

    def block_number(self, node: int) -> int:
        """The number, in the schedule, of the block of the call that a node belongs to."""
        return self.program.calls[node].block

    @property
    def num_ops(self) -> int:
        """Ops of the program, those within calls counted one by one."""
        return sum(1 if block is None else len(block) for block in self.blocks)


def segmented(schedule: Schedule, role: Role, whole: bool = True) -> SegmentedProgram:
    """A role's program in as few nodes as may be; every op is a node where `whole` calls are not wanted.

    Raises InputError as `expand`.
    """
    stand_ins = _stand_ins(schedule, role) if whole else {}
    apart: set[int] = set()
    while True:
        calls, blocks = _calls(role, stand_ins, apart)
        program = expand(schedule, Role(role.name, calls, role.at))
        disturbed = _disturbed(schedule, program, blocks)
        if not disturbed:
            followers = _followers(program, blocks)
            return SegmentedProgram(schedule=schedule, role=role, program=program, blocks=blocks, followers=followers)
        number_of = [number for number, call in enumerate(calls) for _ in call.ops]
        apart |= {number_of[node] for node in disturbed}


def segmented_roles(
    schedule: Schedule, program: ExpandedProgram | None = None, whole: bool = True
) -> tuple[SegmentedProgram, ...]:
    """All roles, their calls `whole` where that may be. Of one role none is, as its calls overlap; `program`: its
    expansion, if it is at hand."""
    if len(schedule.roles) == 1:
        return (SegmentedProgram.of_ops(schedule, schedule.roles[0], program),)
    return tuple(segmented(schedule, role, whole) for role in schedule.roles)


def _calls(
    role: Role, stand_ins: dict[int, Compute], separate: set[int]
) -> tuple[tuple[Call, ...], list[tuple[Op, ...] | None]]:
    """The role's calls with one op each where they are whole, and what the nodes stand for; `separate`: calls by number
    that are not."""
    calls: list[Call] = []
    blocks: list[tuple[Op, ...] | None] = []
    for number, call in enumerate(role.calls):
        stand_in = stand_ins.get(call.block)
        if stand_in is None or number in separate:
            calls.append(call)
            blocks.extend([None] * len(call.ops))
        else:
            calls.append(Call(call.label, call.layer, call.micro, (stand_in,), call.block))
            blocks.append(call.ops)
    return tuple(calls), blocks


def _stand_ins(schedule: Schedule, role: Role) -> dict[int, Compute]:
    """The op that may stand for a call, by the number of its block; it touches what ops of other lanes touch too."""
    calls = {call.block: call for call in role.calls}
    open_lanes = {number: _open_lanes(schedule, role, call) for number, call in calls.items()}
    opened = set[str]().union(*open_lanes.values())
    elsewhere = [op for call in calls.values() for op in call.ops if op.lane in opened]
    comms = {op.comm for op in elsewhere if not isinstance(op, Compute)}
    names = {ref.name for op in elsewhere for ref in (*op.reads, *op.writes, *op.accumulates)}
    axis = None if role.at is None else role.at[0]

    def is_plain(op: Op) -> bool:
        if op.lane in opened or isinstance(op, Exchange):
            return False
        if isinstance(op, Collective) and (op.blocking or op.comm in comms or axis in op.axes):
            return False
        refs = (*op.reads, *op.writes, *op.accumulates)
        return all(schedule.tensors[ref.name].pool is None for ref in refs if ref.name in schedule.tensors)

    def shared(refs: Iterable[Ref]) -> tuple[Ref, ...]:
        return tuple(dict.fromkeys(ref for ref in refs if ref.name in names))

    return {
        number: Compute(
            kind=KIND,
            name=KIND,
            reads=shared(ref for op in call.ops for ref in op.reads),
            writes=shared(ref for op in call.ops for ref in op.writes),
            accumulates=shared(ref for op in call.ops for ref in op.accumulates),
            number=len(schedule.ops) + number,
        )
        for number, call in calls.items()
        if not open_lanes[number] and len(call.ops) > 1 and all(map(is_plain, call.ops))
    }


def _open_lanes(schedule: Schedule, role: Role, call: Call) -> set[str]:
    """The other lanes on which not all that a call does lies between its first and its last op on `compute`."""
    lanes = {op.lane for op in call.ops}
    others = lanes - {LANE}
    if not others or LANE not in lanes or "host" in lanes:
        return others
    program = expand(schedule, Role(role.name, (call,), role.at))
    by_lane, compute = program.by_lane, program.lanes.index(LANE)
    out = set()
    for number, (lane, nodes) in enumerate(zip(program.lanes, by_lane, strict=True)):
        begins = any(other == compute for other, _ in program.waits[nodes[0]])
        ends = any((number, len(nodes)) in program.waits[node] for node in by_lane[compute])
        if lane != LANE and not (begins and ends):
            out.add(lane)
    return out


def _followers(program: ExpandedProgram, blocks: list[tuple[Op, ...] | None]) -> list[int]:
    """Of each node that stands for a call, the equal call that begins at once when it ends; -1: none."""
    out = [-1] * program.num_ops
    if LANE not in program.lanes:
        return out
    compute = program.lanes.index(LANE)
    held: set[int] = set()  # nodes that wait for something on another lane
    awaited: set[int] = set()  # how many ops of the lane are done when an op of another lane may start
    for node, news in _new_waits(program):
        for lane, count in news:
            held.add(node)
            if lane == compute:
                awaited.add(count)
    nodes = program.by_lane[compute]
    for done, (node, after) in enumerate(pairwise(nodes), start=1):
        are_calls = blocks[node] is not None and blocks[after] is not None
        are_equal = are_calls and program.calls[node].block == program.calls[after].block
        if are_equal and after not in held and done not in awaited:
            out[node] = after
    return out


def _new_waits(program: ExpandedProgram) -> Iterator[tuple[int, list[Wait]]]:
    """Every node with what it waits for that none before it on its lane has waited for."""
    known: defaultdict[int, dict[int, int]] = defaultdict(dict)  # lane → what it has waited for on others
    for node, waits in enumerate(program.waits):
        waited_for = known[program.lane[node]]
        news = [(lane, count) for lane, count in waits if count > waited_for.get(lane, 0)]
        waited_for.update(news)
        yield node, news


def _disturbed(schedule: Schedule, program: ExpandedProgram, blocks: list[tuple[Op, ...] | None]) -> set[int]:
    """Nodes that stand for calls but may not: an op in their middle waits, or is waited for."""
    if len(program.lanes) == 1:
        return set()
    by_lane = program.by_lane
    compute = program.lanes.index(LANE) if LANE in program.lanes else -1
    out: set[int] = set()
    for node, news in _new_waits(program):
        for lane, count in news:
            other = by_lane[lane][count - 1]
            block = blocks[node]
            if (
                block is not None
                and not _holds_host(program, other)
                and not _first_waits(schedule, program, node, other, block)
            ):
                out.add(node)
            awaited = blocks[other] if lane == compute else None
            if awaited is not None and not _is_last(schedule, program, node, other, awaited):
                out.add(other)
    return out


def _holds_host(program: ExpandedProgram, node: int) -> bool:
    """Whether all that is issued later waits for the op."""
    return program.lanes[program.lane[node]] == "host" or getattr(program.ops[node], "blocking", False)


def _first_waits(schedule: Schedule, program: ExpandedProgram, node: int, other: int, block: tuple[Op, ...]) -> bool:
    """Whether the first op of the call at `node` has to wait for `other`."""
    first = next(op for op in block if op.lane == LANE)
    return _conflict(_touched(schedule, first, program.calls[node]), _touched_by(program, other))


def _is_last(schedule: Schedule, program: ExpandedProgram, node: int, other: int, block: tuple[Op, ...]) -> bool:
    """Whether what `node` waits for in the call at `other` is its last op."""
    last = next(op for op in reversed(block) if op.lane == LANE)
    return _conflict(_touched(schedule, last, program.calls[other]), _touched_by(program, node))


Touched = tuple[set[Ref], set[Ref]]  # what is read, and what is changed


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
