"""Collective calls and exchanges of a step as messages between ranks: sender, receiver, bytes, and the messages that
must complete before."""

from __future__ import annotations

from dataclasses import dataclass, dataclass as record, field
from functools import cached_property

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Lowered, element_bytes, exchanged_bytes, lower, messages_of
from simfrontier.core.cost import Pricing, pairs_of
from simfrontier.core.engine import recipes_of
from simfrontier.core.program import Collective, Exchange


@record(frozen=True, slots=True)
class Sent:
    """A transfer of `num_bytes` from one rank of a group to another (to itself: a copy), which starts when the
    transfers with the given numbers have completed."""

    src: int
    dst: int
    num_bytes: int
    after: tuple[int, ...]


@record(frozen=True, kw_only=True)
class GroupCall:
    """A call of one group: its ranks, and its messages one after another, each with its transfers."""

    ranks: tuple[int, ...]
    messages: tuple[tuple[Sent, ...], ...]

    @cached_property
    def member(self) -> dict[int, int]:
        return {rank: member for member, rank in enumerate(self.ranks)}

    @cached_property
    def of_member(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Numbers of the transfers in which a rank takes part, by message and rank of the group."""
        out = []
        for message in self.messages:
            lists: list[list[int]] = [[] for _ in self.ranks]
            for number, sent in enumerate(message):
                for member in dict.fromkeys((sent.src, sent.dst)):
                    lists[member].append(number)
            out.append(tuple(map(tuple, lists)))
        return tuple(out)

    @property
    def num_transfers(self) -> int:
        return sum(map(len, self.messages))


@dataclass
class Calls:
    """The calls of a schedule by op and group, each computed once."""

    pricing: Pricing
    _known: dict[int, tuple[GroupCall, ...]] = field(default_factory=dict)
    _of_rank: dict[int, dict[int, GroupCall]] = field(default_factory=dict)

    def of(self, op: Collective | Exchange) -> tuple[GroupCall, ...]:
        """Return the calls of an op, one per group. Raises InputError for an op that cannot be expressed as single
        messages."""
        if op.number not in self._known:
            made = self._exchange(op) if isinstance(op, Exchange) else self._collective(op)
            self._known[op.number] = made
            self._of_rank[op.number] = {rank: call for call in made for rank in call.ranks}
        return self._known[op.number]

    def of_rank(self, op: Collective | Exchange, rank: int) -> GroupCall:
        """Return the call of an op in which a rank takes part."""
        self.of(op)
        return self._of_rank[op.number][rank]

    def _exchange(self, op: Exchange) -> tuple[GroupCall, ...]:
        schedule = self.pricing.schedule
        there, back = exchanged_bytes(op, schedule.tensors, schedule.mesh)
        both = (Sent(0, 1, there, ()), Sent(1, 0, back, ()))
        pairs = pairs_of(op, schedule).tolist()
        return tuple(GroupCall(ranks=tuple(pair), messages=(both,)) for pair in pairs)

    def _collective(self, op: Collective) -> tuple[GroupCall, ...]:
        if op.per_hop:
            raise InputError(f"{op.name} codes what every hop sends, whose time GOAL has no op for")
        schedule = self.pricing.schedule
        messages = messages_of(op, schedule.tensors, schedule.mesh)
        groups, made, known = schedule.mesh.groups(op.axes).tolist(), [], {}
        for ranks, recipe in zip(groups, recipes_of(op, self.pricing), strict=True):
            if recipe not in known:
                lowered = lower(op.wire_kind, recipe)
                known[recipe] = tuple(_sent(lowered, each.num_bytes, element_bytes(op, each)) for each in messages)
            made.append(GroupCall(ranks=tuple(ranks), messages=known[recipe]))
        return tuple(made)


def _sent(lowered: Lowered, num_bytes: int, unit_bytes: int) -> tuple[Sent, ...]:
    """Return the transfers of a message whose elements have `unit_bytes` each."""
    pieces = 1 if lowered.kind == "all_reduce" else lowered.size
    begins = lowered.offsets(num_bytes // (pieces * unit_bytes))
    return tuple(
        Sent(each.src, each.dst, (begins[each.chunk + each.count] - begins[each.chunk]) * unit_bytes, after)
        for each, after in zip(lowered.transfers, lowered.after, strict=True)
    )
