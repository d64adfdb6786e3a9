"""A program under construction: computes and moves in issue order, before moves become collectives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.plan import Purpose
from simfrontier.core.program import REPLICATE, Collective, Compute, Exchange, Ref, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Tensors `src` become tensors `dst`, pair by pair, along `hops`; `accumulate` adds to dst instead of writing it.

    `token` is written when the move is done; `num_elements` counts logical elements. On the compute lane the rank's
    work waits for it; on another `lane` it runs beside it.
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
    """The moment at which the host enters a module: where fetches are issued. `elements` are the module's weights.
    The host goes on when what it `waits` for is there, the token of an earlier fetch."""

    module: str
    weights: tuple[Ref, ...]
    elements: int
    waits: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWait:
    """The wait of one stream for another: what stands behind it on its `lane`, that of moves of a `purpose`, begins
    when what it `waits` for is there. It takes no time, and is nothing on the lane of the work itself."""

    name: str
    waits: tuple[Ref, ...]
    purpose: Purpose
    lane: str = "compute"


Item = Compute | Collective | Exchange | Move | Hook | StreamWait


@dataclass(frozen=True, slots=True)
class CallItems:
    """The items of one call, with absolute references."""

    label: str
    layer: int
    micro: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Pieces in issue order, and every tensor they mention by name."""

    pieces: tuple[CallItems, ...]
    tensors: dict[str, Tensor]

    def items(self) -> Iterator[tuple[int, Item]]:
        """Every item with the number of its piece."""
        for number, piece in enumerate(self.pieces):
            for item in piece.items:
                yield number, item

    def with_items(self, items: list[tuple[int, Item]], tensors: dict[str, Tensor] | None = None) -> Program:
        """The same pieces with other items; pieces left empty vanish."""
        held: list[list[Item]] = [[] for _ in self.pieces]
        for number, item in items:
            held[number].append(item)
        pieces = tuple(
            CallItems(p.label, p.layer, p.micro, tuple(items_of_piece))
            for p, items_of_piece in zip(self.pieces, held, strict=True)
            if items_of_piece
        )
        return Program(pieces=pieces, tensors=self.tensors if tensors is None else tensors)


def token_tensor(name: str, per_layer: bool) -> Tensor:
    """A tensor without bytes that signals completion, one in every micro-batch."""
    return Tensor(
        name=name,
        shape=(1,),
        dtype="token",
        role="token",
        placement=REPLICATE,
        per_layer=per_layer,
        per_micro=True,
    )
