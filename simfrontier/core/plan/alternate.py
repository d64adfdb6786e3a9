"""A forward and a backward of two micro-batches whose ops alternate: the communication of each overlaps with the
computation of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from simfrontier.core.plan.hops import VALUES, communicator
from simfrontier.core.plan.plan import Groups
from simfrontier.core.plan.program import Compressor, Place
from simfrontier.core.program import Call, Collective, Op

LANE = "alternate"


@dataclass(frozen=True, slots=True)
class Alternation:
    """Rule by which the ops of two passes alternate (DualPipe, arXiv 2412.19437, figure 4). A part of a pass ends with
    the collectives that its next ops wait for; these run on a lane of their own, while the compute lane goes on with a
    part of the other pass. Collectives in pieces overlap with products of their own pass instead. `groups`: which calls
    share a communicator. `dispatches`: only all-to-alls overlap, as those of experts' rows."""

    compressor: Compressor
    groups: Groups
    dispatches: bool = False
    blocks: dict[int, tuple[tuple[Op, ...], ...]] = field(default_factory=dict)  # by block of a call, its parts

    def calls(self, forward: Sequence[Call], backward: Sequence[Call]) -> tuple[Call, ...]:
        """Return the calls of both passes in parts, those of each spread evenly over those of the other. Without
        collectives there is nothing to overlap, and the backward follows the forward."""
        passes = [[part for call in calls for part in self._parts(call)] for calls in (forward, backward)]
        if len(passes[0]) == len(forward) and len(passes[1]) == len(backward):
            return (*forward, *backward)
        spread = [(at / len(parts), part) for parts in passes for at, part in enumerate(parts)]
        return tuple([part for _, part in sorted(spread, key=lambda each: each[0])])

    def _parts(self, call: Call) -> Iterator[Call]:
        if call.block not in self.blocks:
            self.blocks[call.block] = tuple(self._divided(call.ops))
        place = Place(call.label, call.layer, call.micro)
        for ops in self.blocks[call.block]:
            yield self.compressor.call(place, ops)

    def _divided(self, ops: tuple[Op, ...]) -> Iterator[tuple[Op, ...]]:
        part: list[Op] = []
        for at, op in enumerate(ops):
            if not isinstance(op, Collective) or not self._overlaps(op):
                part.append(op)
                continue
            part.append(self._beside(op))
            after = ops[at + 1] if at + 1 < len(ops) else None
            if not isinstance(after, Collective) or not self._overlaps(after):
                yield tuple(part)
                part = []
        if part:
            yield tuple(part)

    def _overlaps(self, op: Collective) -> bool:
        return op.name in VALUES and op.piece is None and (op.kind == "all_to_all" or not self.dispatches)

    def _beside(self, op: Collective) -> Collective:
        """Return a collective of the compute lane on the lane of alternating passes."""
        return replace(op, lane=LANE, comm=communicator(op.axes, LANE, self.groups)) if op.lane == "compute" else op
