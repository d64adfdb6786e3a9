"""Pass of ring attention: keys and values go around a ring of ranks, block by block, beside attention to the blocks
that have arrived; in the backward, the sums of their gradients follow them.

Of n ranks, a step brings a rank the block of the one before: n - 1 steps bring (n - 1)/n of all keys and values, as a
gather would, in memory for two blocks (Ring Attention, arXiv 2310.01889; Transformer Engine's
`AttnFuncWithCPAndKVP2P`, whose backward sends keys and values n - 1 times again, and their gradients as often).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simfrontier.core.plan.hops import communicator
from simfrontier.core.plan.plan import Plan
from simfrontier.core.plan.program import Item, Placed, Program
from simfrontier.core.program import (
    SHIFT,
    Collective,
    CollectiveKind,
    Compute,
    Mesh,
    ModelKind,
    Op,
    Piece,
    Tensor,
    cut_label,
    in_pieces,
    kind_of,
)

LANE: Final = "context"
IN_MEMORY: Final = 2  # blocks of keys and values at a time: one attended to, one arriving


def attention_by_ring(program: Program, plan: Plan, mesh: Mesh, overlaps: bool) -> Program:
    """Divide fused attention into pieces, one for each block of keys and values, and replace the gathers of keys and
    values over the plan's ring by the steps of the ring, and so the reduce-scatters of their gradients. The steps run
    beside the pieces if the engine overlaps."""
    assert plan.ring is not None
    maker = _Ring((plan.ring,), mesh[plan.ring], LANE if overlaps else "compute", plan, dict(program.tensors))
    items, out, index = program.items, Placed(), 0
    while index < len(items):
        place, item = items[index]
        index += 1
        if not _is_attention(item):
            out.append((place, item))
            continue
        before: list[Item] = []
        after: list[Item] = []
        while out and out[-1][0] == place and isinstance(out[-1][1], Collective):
            before.insert(0, out.pop()[1])
        while index < len(items) and items[index][0] == place and isinstance(items[index][1], Collective):
            after.append(items[index][1])
            index += 1
        out += [(place, each) for each in maker.divided(item, before, after)]
    return Program(out, maker.tensors)


def _is_attention(item: Item) -> bool:
    kind = kind_of(item) if isinstance(item, Compute) else None
    return isinstance(kind, ModelKind) and kind.merges_pieces


class _Ring:
    """Maker of the pieces of attention over the ranks of a ring, and of the steps between them."""

    def __init__(self, axes: tuple[str, ...], size: int, lane: str, plan: Plan, tensors: dict[str, Tensor]) -> None:
        self.axes, self.size, self.lane, self.plan, self.tensors = axes, size, lane, plan, tensors

    def divided(self, attention: Item, before: list[Item], after: list[Item]) -> list[Item]:
        """Return attention in pieces, with the collectives before and after it."""
        assert isinstance(attention, Compute)
        gathers, first = self._apart(before, "all_gather")
        scatters, last = self._apart(after, "reduce_scatter")
        if not gathers:
            return [*before, attention, *after]
        label = cut_label(gathers[0], self.tensors)
        assert label is not None, "keys and values are cut along their positions"
        gather = self._together(gathers)
        own = Piece(0, self.size, label, self.axes, turns=True)
        copy = Compute(kind="slice", name=gather.name, reads=gather.src, writes=gather.dst, piece=own)
        # steps begin when attention may, not before, and after the copy
        wait = Compute(kind="hook", name="ring", reads=attention.reads, lane=self.lane)
        divided: list[Op] = [copy] if self.lane == "compute" else [copy, wait]
        whole: list[Compute | Collective] = [gather, attention, *([self._together(scatters)] if scatters else [])]
        for op in whole:
            divided += in_pieces(op, self.size, label, self.axes, turns=True)
        for ref in (*gather.dst, *(ref for op in scatters for ref in op.src)):
            window = (min(IN_MEMORY, self.size), self.size)
            self.tensors[ref.name] = replace(self.tensors[ref.name], window=window)
        return [*first, *divided, *last]

    def _apart(self, items: list[Item], kind: CollectiveKind) -> tuple[list[Collective], list[Item]]:
        """Return the collectives of this kind over the ring, and all others."""
        over = [op for op in items if isinstance(op, Collective) and op.kind == kind and op.axes == self.axes]
        return over, [op for op in items if op not in over]

    def _together(self, calls: list[Collective]) -> Collective:
        """Return the calls for keys and for values as one call, which sends both."""
        first = calls[0]
        return replace(
            first,
            src=tuple(ref for op in calls for ref in op.src),
            dst=tuple(ref for op in calls for ref in op.dst),
            via=SHIFT,
            lane=self.lane,
            comm=communicator(self.axes, self.lane, self.plan.groups),
        )
