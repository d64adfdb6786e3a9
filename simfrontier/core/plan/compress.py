"""From a program to a schedule: references relative to their call, so that equal calls share one block of ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from simfrontier.core.plan.program import CallItems, Hook, Item, Move, Program, StreamWait
from simfrontier.core.program import Call, Compute, Exchange, Op, Ref, Tensor


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
