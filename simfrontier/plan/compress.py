"""From a program to a schedule: references relative to their call, so that equal calls share one block of ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simfrontier.plan.program import Hook, Item, Move, Piece, Program
from simfrontier.schedule.ir import Call, Collective, Compute, Op, Ref, Tensor


def calls_of(program: Program) -> tuple[Call, ...]:
    """The calls of a program without moves; equal blocks are the same object."""
    blocks: dict[tuple[Op, ...], tuple[Op, ...]] = {}
    ops: dict[Op, Op] = {}
    calls = []
    for piece in program.pieces:
        block = tuple(
            ops.setdefault(op, op) for op in (_relative(item, piece, program.tensors) for item in piece.items)
        )
        calls.append(Call(piece.label, piece.layer, piece.micro, blocks.setdefault(block, block)))
    return tuple(calls)


def _relative(item: Item, piece: Piece, tensors: Mapping[str, Tensor]) -> Op:
    assert not isinstance(item, Move | Hook), "moves become collectives before a program is compressed"
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
            lane=item.lane,
        )
    assert isinstance(item, Collective)
    token = None if item.token is None else rel(item.token)
    return replace(item, src=tuple(map(rel, item.src)), dst=tuple(map(rel, item.dst)), token=token)
