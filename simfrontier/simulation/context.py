"""What the runs of several roles have in common: ops made ready once, what they load, and who is coupled to whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from simfrontier.cost import Cluster, OpWork
from simfrontier.schedule import Compute, Op, Role, SegmentedProgram, expand, ops_by_lane
from simfrontier.simulation.engine import OpInfo, groups_by_pattern
from simfrontier.simulation.flows import Memo
from simfrontier.simulation.timeline import CallTimes

Block = tuple[Op, ...]
Classes = tuple[int, ...]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.13g}")


class EngineContext:
    """What all runs on a cluster have in common: works and groups of ops, what flows load, rates, and calls alone.

    Not `contended`, every op takes its time alone.
    """

    def __init__(self, cluster: Cluster, contended: bool) -> None:
        self.cluster, self.contended = cluster, contended
        self.groups = groups_by_pattern(cluster)
        self.infos: dict[int, OpInfo] = {}
        self.memo: Memo = {}
        self.inner: dict[int, InnerCall] = {}
        self.alone: dict[tuple[int, Classes], CallAlone] = {}
        self.coupled: dict[tuple[int, Classes], dict[int, Classes]] = {}
        self._loads: dict[int, int] = {}

    def info(self, op: Op) -> OpInfo:
        """What an engine needs of an op."""
        known = self.infos.get(op.number)
        if known is None:
            priced = self.cluster.of(op)
            works = tuple(self._even(work) for work in priced.works)
            known = self.infos[op.number] = OpInfo(works, *self.groups[priced.pattern])
        return known

    def program(self, part: SegmentedProgram, node: int) -> InnerCall:
        """The program of a call by itself."""
        block = part.blocks[node]
        assert block is not None, f"node {node} of role {part.role.name} is an op, not a call"
        number = part.block_number(node)
        known = self.inner.get(number)
        if known is None:
            call = part.program.calls[node]
            role = Role(part.role.name, (replace(call, ops=block),), part.role.at)
            program = expand(self.cluster.schedule, role)
            segmented = SegmentedProgram(role, program, [None] * len(block))
            known = self.inner[number] = InnerCall(segmented, ops_by_lane(program), [self.info(op) for op in block])
        return known

    def _even(self, work: OpWork) -> OpWork:
        """The work with waits that are equal where they differ by rounding, so that equal classes stay together."""
        if not self.contended:
            return OpWork(_rounded(work.alone_s), 0.0, 1.0, -1)
        return replace(work, latency_s=_rounded(work.latency_s))

    def load(self, flow: int) -> int:
        """The link classes that a flow loads or of which it holds a part, as bits."""
        known = self._loads.get(flow)
        if known is None:
            one = self.cluster.flows[flow]
            known = self._loads[flow] = sum(
                1 << row for row in one.rows[(one.load > 0.0) | (one.reserved > 0.0)].tolist()
            )
        return known

    def couples(self, number: int, block: Block, classes: Classes) -> dict[int, Classes]:
        """For each rank class those that the collectives of the block of that number couple it with, itself
        included."""
        key = (number, classes)
        if key not in self.coupled:
            leader = {cls: cls for cls in classes}
            for op in {op.number: op for op in block if not isinstance(op, Compute)}.values():
                info = self.info(op)
                for cls in classes:
                    one, other = leader[cls], leader[info.members[info.group_of[cls]][0]]
                    leader = {c: other if to == one else to for c, to in leader.items()}
            sets: dict[int, list[int]] = {}
            for cls in classes:
                sets.setdefault(leader[cls], []).append(cls)
            self.coupled[key] = {cls: tuple(sets[leader[cls]]) for cls in classes}
        return self.coupled[key]


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A call that a node stands for, op by op."""

    segmented: SegmentedProgram
    by_lane: list[list[int]]
    infos: list[OpInfo]


@dataclass(frozen=True, slots=True)
class CallAlone:
    """A call by itself: when its ops run on each rank class, and when it ends on which."""

    times: Mapping[int, CallTimes]
    ends: tuple[tuple[float, Classes], ...]


class RoleLoads:
    """Which link classes the ops of all roles load, as bits, by who takes part."""

    def __init__(self, context: EngineContext, parts: Sequence[tuple[SegmentedProgram, Classes]]) -> None:
        self.context, self.parts = context, parts
        self._of_members: dict[Classes, int] | None = None
        self._of_lane: dict[tuple[int, int], dict[int, Op]] = {}

    def of(self, ops: Iterable[Op], classes: Classes) -> int:
        """Of ops on these rank classes."""
        return self._load({op.number: op for op in ops}.values(), classes)

    def of_lane(self, role: int, lane: int, classes: Classes) -> int:
        """Of all ops on a lane of a role on these rank classes."""
        if (role, lane) not in self._of_lane:
            program = self.parts[role][0].program
            self._of_lane[role, lane] = {
                op.number: op for op, its_lane in zip(program.ops, program.lane, strict=True) if its_lane == lane
            }
        return self.of(self._of_lane[role, lane].values(), classes)

    def of_others(self, classes: Classes) -> int:
        """Of all ops, inner ones too, in which none of these rank classes takes part."""
        if self._of_members is None:
            self._of_members = {}
            for part, theirs in self.parts:
                blocks = {
                    part.block_number(node): block for node, block in enumerate(part.blocks) if block is not None
                }.values()
                single = (op for op, block in zip(part.program.ops, part.blocks, strict=True) if block is None)
                every = {op.number: op for op in (*single, *(op for block in blocks for op in block))}
                self._load(every.values(), theirs, self._of_members)
        return reduce(or_, (load for who, load in self._of_members.items() if not set(who) & set(classes)), 0)

    def _load(self, ops: Iterable[Op], classes: Classes, by_members: dict[Classes, int] | None = None) -> int:
        total = 0
        for op in ops:
            info = self.context.info(op)
            for group in {info.group_of[cls] for cls in classes}:
                work = info.works[group]
                if work.amount > 0.0:
                    load = self.context.load(work.flow)
                    total |= load
                    if by_members is not None:
                        members = info.members[group]
                        by_members[members] = by_members.get(members, 0) | load
        return total
