"""A program under construction: computes and moves in issue order, before moves become collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.plan import Purpose
from simfrontier.core.program import REPLICATE, Call, Collective, Compute, Exchange, Op, Ref, Tensor


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


Numbered = list[tuple[int, Item]]

LANE_OF: dict[Purpose, str] = {
    "weight_gather": "gather",
    "copy_gather": "gather",
    "publish": "gather",
    "gradient": "reduce",
    "step_reduction": "reduce",
    "scalar": "reduce",
    "input_gradient": "tensor",
    "input_gather": "tensor",
    "statistic": "statistic",
}


def overlap(program: Program, purposes: Iterable[Purpose]) -> Program:
    """Give moves, and the waits of streams before them, lanes of their own, so that the compute lane goes on beside
    them: AxoNN's OAR is this pass for `input_gradient`, its ORS for `gradient`, the second half of its OAG for
    `weight_gather`."""
    chosen = frozenset(purposes)
    return program.with_items(
        [
            (number, replace(item, lane=LANE_OF[item.purpose]))
            if isinstance(item, Move | StreamWait) and item.purpose in chosen
            else (number, item)
            for number, item in program.items()
        ]
    )


def statistics_beside(program: Program) -> Program:
    """Let what is gathered of all samples, and the ops that take it in, run beside everything else: only the next step
    reads what they make."""
    items = list(program.items())
    lane = LANE_OF["statistic"]
    moved = {ref for _, item in items if isinstance(item, Move) and item.purpose == "statistic" for ref in item.dst}
    out: Numbered = []
    for number, item in items:
        is_move = isinstance(item, Move) and item.purpose == "statistic"
        if isinstance(item, Move | Compute) and (is_move or not moved.isdisjoint(_read_by(item))):
            item = replace(item, lane=lane)
        out.append((number, item))
    return program.with_items(out)


def _read_by(item: Move | Compute) -> tuple[Ref, ...]:
    return item.src if isinstance(item, Move) else item.reads


@dataclass(frozen=True, slots=True)
class Compressor:
    """Remembers ops and blocks, so that equal ones are the same object, with one number, in all programs that it is
    given."""

    blocks: dict[tuple[Op, ...], tuple[int, tuple[Op, ...]]] = field(default_factory=dict)
    ops: dict[Op, Op] = field(default_factory=dict)

    def calls_of(self, program: Program) -> tuple[Call, ...]:
        """The calls of a program without moves."""
        return tuple(
            [
                self.call(
                    piece.label, piece.layer, piece.micro, [_relative(i, piece, program.tensors) for i in piece.items]
                )
                for piece in program.pieces
            ]
        )

    def call(self, label: str, layer: int, micro: int, ops: Iterable[Op]) -> Call:
        """A call of ops whose references are relative to it."""
        block = tuple([self._shared(op) for op in ops])
        number, shared = self.blocks.setdefault(block, (len(self.blocks), block))
        return Call(label, layer, micro, shared, number)

    def _shared(self, op: Op) -> Op:
        known = self.ops.get(op)
        if known is None:
            known = self.ops[op] = replace(op, number=len(self.ops))
        return known


def _relative(item: Item, piece: CallItems, tensors: Mapping[str, Tensor]) -> Op:
    assert not isinstance(item, Move | Hook | StreamWait), "moves become collectives before a program is compressed"
    layer, micro = piece.layer, piece.micro

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
