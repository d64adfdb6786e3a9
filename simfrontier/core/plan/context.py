"""Context parallelism: the sequence is cut over mesh axes between the data axes and those of tensor parallelism, and
only attention relates positions of different ranks.

Keys and values travel in one of three ways: gathered over the axis `context` (Megatron-LM's cp_comm_type `all_gather`),
around a ring of its ranks (`p2p`), or, over the axis `context_heads`, by all-to-alls that exchange a cut of the
sequence for one of the heads (`a2a`, DeepSpeed's Ulysses, arXiv 2309.14509). With both axes, all-to-alls run inside
groups and keys and values travel between the groups (`a2a+p2p`).

Ranks have equal work in causal attention, too: a rank holds an early and a late piece of the sequence (piece i and
piece 2n - 1 - i of 2n), so that every rank and every step of a ring has the same number of pairs of positions.
"""

from __future__ import annotations

from typing import Literal

from simfrontier.base.errors import InputError
from simfrontier.core.plan.grid import CONTEXT, CONTEXT_AXES, CONTEXT_HEADS, Sizes, refuse_remainder
from simfrontier.core.program import ATTENTION, Mesh
from simfrontier.core.workload import GptShape, Shape

ContextBy = Literal["ring", "gather", "heads"]
Cuts = dict[str, tuple[str, ...]]


def context_sizes(context: int, by: ContextBy, heads: int) -> Sizes:
    """Return the axes that cut the sequence, with their sizes; () if the sequence is whole. `heads`: the number of
    ranks in a group of all-to-alls, of all `context` ranks if `by` is heads."""
    inner = context if by == "heads" else heads
    sizes = ((CONTEXT, context // inner), (CONTEXT_HEADS, inner))
    return tuple((axis, size) for axis, size in sizes if size > 1)


def context_axes(mesh: Mesh) -> tuple[str, ...]:
    """Return the axes of a mesh that cut the sequence."""
    return tuple(axis for axis in CONTEXT_AXES if axis in mesh.names)


def context_cuts(axes: tuple[str, ...], heads: tuple[str, ...]) -> tuple[Cuts, dict[tuple[str, str], tuple[str, ...]]]:
    """Return the cuts of labels in all ops, and those in the kinds of attention alone, where the inner axis cuts the
    heads inside the axes `heads`."""
    if not axes:
        return {}, {}
    inner = tuple(axis for axis in axes if axis == CONTEXT_HEADS)
    outer = tuple(axis for axis in axes if axis == CONTEXT)
    of_kind = {(kind, "s"): outer for kind in ATTENTION} | {(kind, "a"): (*heads, *inner) for kind in ATTENTION}
    return {"s": axes}, of_kind if inner else {}


def refuse_context(context: int, by: ContextBy, heads: int, tensor: int, shape: Shape) -> None:
    """Raise InputError if the sequence or the heads of a model do not divide over the ranks of context parallelism, or
    if a rank could not have the positions that attention needs."""
    if context % heads:
        refuse_remainder("context", context, "context_heads", heads)
    if context == 1:
        return
    if by == "heads" and heads > 1:
        raise InputError(f'context_heads = {heads}: context_by = "heads" has one group; allowed: 1')
    if not isinstance(shape, GptShape):
        raise InputError(f"context = {context}: {shape.name} has no sequence; allowed: 1")
    refuse_remainder("sequence", shape.sequence, "2 × context", 2 * context)  # an early and a late piece each
    inner = context if by == "heads" else heads
    key = "context" if by == "heads" else "context_heads"
    for name, count in (("heads", shape.heads), ("kv_heads", shape.key_heads)):
        refuse_remainder(name if tensor == 1 else f"{name} / tensor {tensor}", count // tensor, key, inner)
    if inner < context and shape.positions != "rotary":
        raise InputError(
            f'context = {context} by {by}: keys and values of positions = "{shape.positions}" lie among the queries; '
            'allowed: positions = "rotary", or context_by = "heads"'
        )
    if shape.dropout:
        raise InputError(f"context = {context}: dropout of attention is not modelled; allowed: dropout = false")
