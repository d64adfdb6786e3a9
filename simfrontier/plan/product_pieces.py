"""A pass on products beside their collectives: a gather before one, or a scatter after it, goes in pieces beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simfrontier.plan.hops import communicator
from simfrontier.plan.lanes import LANE_OF, Numbered
from simfrontier.plan.plan import Groups, Purpose
from simfrontier.plan.program import Item, Program
from simfrontier.schedule import Collective, Compute, cut_label, in_pieces

CUT: Final[tuple[Purpose, ...]] = ("activation", "input_gradient")  # moves that work waits for, unless they overlap


def products_in_pieces(program: Program, count: int, groups: Groups) -> Program:
    """Cut every gather of activations and the product that reads it, and every product and the scatter of what it
    makes, in `count` pieces; the collective goes on a lane beside the work, but for the first piece of a gather, for
    which the work waits in any case.

    So Megatron-Core's tp_comm_overlap does (Transformer Engine's userbuffers: each product in as many pieces as there
    are ranks, or four), and torchtitan's asynchronous tensor parallelism (torch.distributed._symmetric_memory).
    """
    items, out = list(program.items()), Numbered()
    index = 0
    while index < len(items):
        number, item = items[index]
        after = items[index + 1][1] if index + 1 < len(items) and items[index + 1][0] == number else None
        pair = _cut(program, item, after, count, groups)
        out += [(number, each) for each in pair or (item,)]
        index += 2 if pair else 1
    return program.with_items(out)


def _cut(
    program: Program, first: Item, second: Item | None, count: int, groups: Groups
) -> tuple[Collective | Compute, ...]:
    """The pieces of two ops of which the second reads what the first makes; nothing where they are not such ops."""
    collective, product = (first, second) if isinstance(first, Collective) else (second, first)
    if not isinstance(collective, Collective) or not isinstance(product, Compute) or product.matmul is None:
        return ()
    made, read = (collective.dst, product.reads) if collective is first else (product.writes, collective.src)
    holds_work_up = collective.name in CUT and collective.lane == product.lane
    label = cut_label(collective, program.tensors) if holds_work_up else None
    if label is None or label not in product.matmul[1] or set(made).isdisjoint(read):
        return ()
    lane = LANE_OF["input_gather"]
    moved = replace(collective, lane=lane, comm=communicator(collective.axes, lane, groups))
    beside, cut = (in_pieces(op, count, label, collective.axes) for op in (moved, product))
    if collective is not first:
        return (*cut, *beside)
    return (replace(beside[0], lane=collective.lane), *beside[1:], *cut)
