"""The nodes of all roles as one list: calls that roles share are one node of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from simfrontier.core.cost import Pricing
from simfrontier.core.program import CallSequence, Compute, SegmentedProgram, sequence_of


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """A number for every node, counted on from role to role; a call that roles share has that of the first role.

    keys    per role, the number of each of its nodes
    first   the number at which each role begins
    shared  of each shared call, its node in each role that takes part
    """

    keys: tuple[list[int], ...]
    first: tuple[int, ...]
    shared: dict[int, dict[int, int]]

    def node(self, key: int, role: int) -> int:
        """Where a node stands in a role's program."""
        shared = self.shared.get(key)
        return key - self.first[role] if shared is None else shared[role]

    def order(self, before: Sequence[Sequence[Sequence[int]]]) -> list[tuple[tuple[int, int], ...]]:
        """All nodes, each as the (role, node)s of those that take part, so that whatever a node waits for stands before
        it; `before`: per role and node, the nodes of the role that it waits for, which its program has before it."""
        if len(self.keys) == 1:
            return [((0, node),) for node in range(len(self.keys[0]))]
        takers: dict[int, list[tuple[int, int]]] = {}
        left: Counter[int] = Counter()
        followers: defaultdict[int, list[int]] = defaultdict(list)
        for role, (keys, waits) in enumerate(zip(self.keys, before, strict=True)):
            for node, (key, others) in enumerate(zip(keys, waits, strict=True)):
                takers.setdefault(key, []).append((role, node))
                left[key] += len(others)
                for other in others:
                    followers[keys[other]].append(key)
        out: list[tuple[tuple[int, int], ...]] = []
        free = [key for key in takers if not left[key]]
        while free:
            key = free.pop()
            out.append(tuple(takers[key]))
            for follower in followers[key]:
                left[follower] -= 1
                if not left[follower]:
                    free.append(follower)
        assert len(out) == len(takers), "nodes that wait for each other"
        return out


def number_nodes(parts: Sequence[SegmentedProgram], pricings: Sequence[Pricing]) -> NodeNumbers:
    """Number the nodes of all roles, each of the job on its pricing: the k-th call of a communicator that spans roles,
    and the k-th exchange of two ends, is one for all roles of the job that take part."""
    keys: list[list[int]] = []
    shared: dict[int, dict[int, int]] = {}
    first: list[int] = []
    known: dict[tuple[int, CallSequence, int], int] = {}
    begin = 0
    for role, (part, pricing) in enumerate(zip(parts, pricings, strict=True)):
        count: defaultdict[CallSequence, int] = defaultdict(int)
        mine = list(range(begin, begin + part.program.num_ops))
        first.append(begin)
        begin += len(mine)
        for node, op in enumerate(part.program.ops):
            if not isinstance(op, Compute) and pricing.role_assignment.is_shared(op):
                sequence = sequence_of(op)
                mine[node] = known.setdefault((id(pricing), sequence, count[sequence]), mine[node])
                count[sequence] += 1
                shared.setdefault(mine[node], {})[role] = node
        keys.append(mine)
    return NodeNumbers(keys=tuple(keys), first=tuple(first), shared=shared)
