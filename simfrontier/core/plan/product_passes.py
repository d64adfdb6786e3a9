"""Passes on the products of linear modules: order of the backward's two products, and pieces that overlap with
collectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simfrontier.core.plan.hops import communicator
from simfrontier.core.plan.lanes import LANE_OF, Numbered
from simfrontier.core.plan.plan import Engine, Plan, Purpose
from simfrontier.core.plan.program import Item, Move, Program, StreamWait
from simfrontier.core.program import GRADIENT_ROLES, Collective, Compute, Ref, cut_label, in_pieces

ALONG_SEQUENCE: Final[frozenset[Purpose]] = frozenset({"activation", "input_gradient", "input_gather"})


def in_pieces_with_products(plan: Plan, engine: Engine) -> frozenset[Purpose]:
    """The moves of values that go in pieces: those for which work waits, where anything may run beside work."""
    if plan.product_pieces == 1 or not engine.overlap:
        return frozenset()
    waited_for: set[Purpose] = {"activation", "input_gradient"}
    return frozenset(waited_for - (plan.overlapped or frozenset()))


def copied_in_order(plan: Plan, engine: Engine) -> frozenset[Purpose]:
    """The moves of values that are copied in their order where the batch comes first: all but those in pieces."""
    return ALONG_SEQUENCE - in_pieces_with_products(plan, engine) if plan.batch_first else frozenset()


def products_in_pieces(program: Program, plan: Plan, purposes: frozenset[Purpose]) -> Program:
    """Cut every gather of `purposes` and the product that reads it, and every product and the scatter of what it makes,
    in the plan's number of pieces; the collective goes on a lane beside the work, but for the first piece of a gather,
    for which the work waits in any case.

    So Megatron-Core's tp_comm_overlap does (Transformer Engine's userbuffers: each product in as many pieces as there
    are ranks, or four), and torchtitan's asynchronous tensor parallelism (torch.distributed._symmetric_memory).
    """
    items, out = list(program.items()), Numbered()
    index = 0
    while index < len(items):
        number, item = items[index]
        after = items[index + 1][1] if index + 1 < len(items) and items[index + 1][0] == number else None
        pair = _cut(program, item, after, plan, purposes)
        out += [(number, each) for each in pair or (item,)]
        index += 2 if pair else 1
    return program.with_items(out)


def _cut(
    program: Program, first: Item, second: Item | None, plan: Plan, purposes: frozenset[Purpose]
) -> tuple[Collective | Compute, ...]:
    """The pieces of two ops of which the second reads what the first makes; nothing where they are not such ops."""
    collective, product = (first, second) if isinstance(first, Collective) else (second, first)
    if not isinstance(collective, Collective) or not isinstance(product, Compute) or product.matmul is None:
        return ()
    made, read = (collective.dst, product.reads) if collective is first else (product.writes, collective.src)
    label = cut_label(collective, program.tensors) if collective.name in purposes else None
    if label is None or label not in product.matmul[1] or set(made).isdisjoint(read):
        return ()
    lane = LANE_OF["input_gather"]
    moved = replace(collective, lane=lane, comm=communicator(collective.axes, lane, plan.groups))
    beside, cut = (in_pieces(op, plan.product_pieces, label, collective.axes) for op in (moved, product))
    if collective is not first:
        return (*cut, *beside)
    return (replace(beside[0], lane=collective.lane), *beside[1:], *cut)


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
