"""A pass on products beside their collectives: a gather before one, or a scatter after it, goes in pieces beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from simfrontier.core.plan.hops import communicator
from simfrontier.core.plan.lanes import LANE_OF, Numbered
from simfrontier.core.plan.plan import Engine, Plan, Purpose
from simfrontier.core.plan.program import Item, Program
from simfrontier.core.program import Collective, Compute, cut_label, in_pieces

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
