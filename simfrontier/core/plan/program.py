"""A program under construction: computes and moves in issue order, before moves become collectives; and its calls, of
which equal ones share one block of ops."""

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
    """Move of tensors `src` into tensors `dst`, pair by pair, along `hops`; `accumulate` adds to dst instead of writing
    it.

    `token` is written when the move is done; `num_elements` counts logical elements. On the compute lane the rank's
    work waits for the move; on another `lane` it overlaps with the move.
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
    """The host's entry into a module, at which fetches are issued. `elements` is the size of the module's weights. The
    host continues when the tokens in `waits`, of earlier fetches, are written."""

    module: str
    weights: tuple[Ref, ...]
    elements: int
    waits: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWait:
    """The wait of one stream for another: later moves of a `purpose` on its `lane` start when everything in `waits` is
    available. It takes no time, and has no effect on the compute lane."""

    name: str
    waits: tuple[Ref, ...]
    purpose: Purpose
    lane: str = "compute"


Item = Compute | Collective | Exchange | Move | Hook | StreamWait


class Place(NamedTuple):
    """The call in which an item is issued: items that follow one another at one place are one call."""

    label: str
    layer: int
    micro: int


Placed = list[tuple[Place, Item]]


@dataclass(frozen=True, slots=True)
class Program:
    """Items in issue order, each with its call and absolute references, and all tensors of these references by name."""

    items: Placed
    tensors: dict[str, Tensor]


def token_tensor(name: str, per_layer: bool) -> Tensor:
    """Return a tensor without bytes that signals completion, one instance per micro-batch."""
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
    """Table of ops and blocks, so that equal ones are the same object, with one number, in all programs that share
    it."""

    blocks: dict[tuple[Op, ...], tuple[int, tuple[Op, ...]]] = field(default_factory=dict)
    ops: dict[Op, Op] = field(default_factory=dict)

    def calls_of(self, program: Program) -> tuple[Call, ...]:
        """Return the calls of a program without moves, with references relative to their call."""
        return tuple(
            [
                self.call(place, [_relative(item, place, program.tensors) for _, item in items])
                for place, items in groupby(program.items, key=itemgetter(0))
            ]
        )

    def call(self, place: Place, ops: Iterable[Op]) -> Call:
        """Return a call of ops whose references are relative to it."""
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

    if isinstance(item, Compute):
        return Compute(  # written out: `replace` takes three times as long, and this runs for every op of the step
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
    return replace(item, src=tuple(map(rel, item.src)), dst=tuple(map(rel, item.dst)), token=token)
