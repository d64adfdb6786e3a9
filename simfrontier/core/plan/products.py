"""Passes on the two products of a linear module's backward: their order, and which moves run beside them.

One makes the gradient of the module's input, the other those of its weights; both read the gradient of its output.
"""

from __future__ import annotations

from simfrontier.core.plan.lanes import Numbered
from simfrontier.core.plan.program import Item, Move, Program, StreamWait
from simfrontier.core.program import GRADIENT_ROLES, Compute, Ref


def weights_first(program: Program) -> Program:
    """Make a weight's gradient before that of its module's input where only the former is reduced, so that its
    reduction runs beside the other product (AxoNN with ORS, where the group of dI has one rank)."""
    out = list(program.items())
    for index in range(len(out) - 2):
        back, made, move = (item for _, item in out[index : index + 3])
        if isinstance(move, Move) and _are_of_one_module(program, back, made):
            end = index + 2
            while end < len(out) and isinstance(held := out[end][1], Move) and held.purpose == "gradient":
                end += 1
            out[index:end] = [*out[index + 1 : end], out[index]]
    return program.with_items(out)


def inputs_first(program: Program) -> Program:
    """Gather a module's input again, for the gradients of its weights, beside the product that makes the input's
    gradient; the reduction of that gradient, which stands behind the gather on their lane, then runs beside the other
    product (Megatron-LM's sequence parallelism: core/tensor_parallel/layers.py,
    `LinearWithGradAccumulationAndAsyncCommunication.backward`). The gather begins when that product may, not before."""
    items = list(program.items())
    out: Numbered = []
    back_at = -1  # where the last op stands in `out`
    for index, (number, item) in enumerate(items):
        if isinstance(item, Move) and item.purpose == "input_gather" and back_at >= 0:
            back, made = out[back_at][1], _next_op(items, index)
            assert isinstance(back, Compute)
            if made is not None and _are_of_one_module(program, back, made) and not set(item.src) & set(back.writes):
                at = out[back_at][0]
                wait = StreamWait(name="inputs", waits=_begins_with(program, out, back_at), purpose="input_gather")
                out[back_at:back_at] = [(at, wait), (at, item)]
                back_at += 2
                continue
        if isinstance(item, Compute):
            back_at = len(out)
        out.append((number, item))
    return program.with_items(out)


def _are_of_one_module(program: Program, back: Item, made: Item) -> bool:
    """Whether these are the products of one module's backward: that of its input's gradient, and that of its
    weights'."""
    if not (isinstance(back, Compute) and isinstance(made, Compute) and back.matmul and made.matmul):
        return False
    makes = {program.tensors[ref.name].role for ref in (*made.writes, *made.accumulates)}
    gives = {program.tensors[ref.name].role for ref in (*back.writes, *back.accumulates)}
    return makes <= {*GRADIENT_ROLES} and gives == {"activation"} and back.reads[0] == made.reads[0]


def _next_op(items: Numbered, index: int) -> Compute | None:
    """The first op behind an item."""
    later = (items[at][1] for at in range(index + 1, len(items)))
    return next((item for item in later if isinstance(item, Compute)), None)


def _begins_with(program: Program, out: Numbered, at: int) -> tuple[Ref, ...]:
    """The activations that are there when the op at a place begins: those that it reads, and those that the op before
    it writes."""
    op = out[at][1]
    assert isinstance(op, Compute)
    earlier = (out[before][1] for before in range(at - 1, -1, -1))
    before = next((item for item in earlier if isinstance(item, Compute)), None)
    refs = (*op.reads, *(() if before is None else before.writes))
    return tuple(dict.fromkeys(ref for ref in refs if program.tensors[ref.name].role == "activation"))
