"""Programs under construction: compute ops and moves in issue order, before moves become collectives; and calls of a
program, where equal calls share one block of ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.plan import Purpose
from simfrontier.core.program import REPLICATE, Call, Collective, Compute, Exchange, Op, Ref, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move of the tensors `src` into the tensors `dst`, one to one, along `hops`; with `accumulate` the moved values
    are added to `dst` instead of overwriting it.

    `token` is written when the move is done; `num_elements` counts logical elements. A move on the compute lane blocks
    the rank's computation; a move on another `lane` overlaps with it.
    """

    purpose: Purpose
    src: tuple[Ref, ...]
    dst: tuple[Ref, ...]
    hops: tuple[Hop, ...]
    num_elements: int
    accumulate: bool = False
    token: Ref | None = None
    lane: str = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """The host's entry into a module, at which fetches are issued. `elements` is the number of elements of the module's
    weights. The host continues once the tokens in `waits`, written by earlier fetches, are available."""

    module: str
    weights: tuple[Ref, ...]
    elements: int
    waits: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWait:
    """The wait of one stream for another: later moves of a `purpose` on its `lane` start when all tensors in `waits`
    are available. The wait takes no time itself, and does not affect the compute lane."""

    name: str
    waits: tuple[Ref, ...]
    purpose: Purpose
    lane: str = "compute"


Item = Compute | Collective | Exchange | Move | Hook | StreamWait


class Place(NamedTuple):
    """Identity of the call in which an item is issued: consecutive items with equal `Place` form one call."""

    label: str
    layer: int
    micro: int


Placed = list[tuple[Place, Item]]


@dataclass(frozen=True, slots=True)
class Program:
    """Items of a program in issue order, each with its call and with absolute references, and all referenced tensors by
    name."""

    items: Placed
    tensors: dict[str, Tensor]


def token_tensor(name: str, per_layer: bool) -> Tensor:
    """Return a tensor of 0 bytes that signals completion; it has one instance per micro-batch."""
    return Tensor(
        name=name,
        shape=(1,),
        dtype="token",
        role="token",
        placement=REPLICATE,
        per_layer=per_layer,
        per_micro=True,
    )


@dataclass(frozen=True, slots=True)
class Compressor:
    """Table of ops and blocks that deduplicates them: equal ones become the same object, with one number, in all
    programs that share the table."""

    blocks: dict[tuple[Op, ...], tuple[int, tuple[Op, ...]]] = field(default_factory=dict)
    ops: dict[Op, Op] = field(default_factory=dict)

    def calls_of(self, program: Program) -> tuple[Call, ...]:
        """Return the calls of a program that contains no moves; references are made relative to the layer and
        micro-batch of their call."""
        return tuple(
            [
                self.call(place, [_relative(item, place, program.tensors) for _, item in items])
                for place, items in groupby(program.items, key=itemgetter(0))
            ]
        )

    def call(self, place: Place, ops: Iterable[Op]) -> Call:
        """Return a call of these ops, whose references are already relative to the call."""
        block = tuple([self._shared(op) for op in ops])
        number, shared = self.blocks.setdefault(block, (len(self.blocks), block))
        return Call(*place, shared, number)

    def _shared(self, op: Op) -> Op:
        known = self.ops.get(op)
        if known is None:
            known = self.ops[op] = replace(op, number=len(self.ops))
        return known


def _relative(item: Item, place: Place, tensors: Mapping[str, Tensor]) -> Op:
    assert not isinstance(item, Move | Hook | StreamWait), "moves become collectives before a program is compressed"
    _, layer, micro = place

    def rel(ref: Ref) -> Ref:
        tensor = tensors[ref.name]
        return Ref(ref.name, ref.layer - layer if tensor.per_layer else 0, ref.micro - micro if tensor.per_micro else 0)

    # written out: `replace` takes three times as long, and this runs for every op of the step
    if isinstance(item, Compute):
        return Compute(
            kind=item.kind,
            name=item.name,
            reads=tuple([rel(ref) for ref in item.reads]),
            writes=tuple([rel(ref) for ref in item.writes]),
            accumulates=tuple([rel(ref) for ref in item.accumulates]),
            iteration=item.iteration,
            split=item.split,
            matmul=item.matmul,
            flops=item.flops,
            max_age=item.max_age,
            kernel=item.kernel,
            lane=item.lane,
            named=item.named,
            piece=item.piece,
        )
    token = None if item.token is None else rel(item.token)
    if isinstance(item, Exchange):
        there, back = (item.src, item.dst), (item.back_src, item.back_dst)
        (src, dst), (back_src, back_dst) = (tuple(tuple(map(rel, refs)) for refs in way) for way in (there, back))
        return replace(item, src=src, dst=dst, back_src=back_src, back_dst=back_dst, token=token)
    return Collective(
        kind=item.kind,
        name=item.name,
        axes=item.axes,
        src=tuple([rel(ref) for ref in item.src]),
        dst=tuple([rel(ref) for ref in item.dst]),
        codec=item.codec,
        via=item.via,
        lane=item.lane,
        comm=item.comm,
        blocking=item.blocking,
        token=token,
        per_hop=item.per_hop,
        piece=item.piece,
    )
