"""Passes that overlap communication with computation: moves on lanes of their own, the order of the two matrix products
of a backward, and matrix products and collectives split into pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from simfrontier.core.plan.hops import communicator
from simfrontier.core.plan.plan import Engine, Plan, Purpose
from simfrontier.core.plan.program import Item, Move, Place, Placed, Program, StreamWait
from simfrontier.core.program import GRADIENT_ROLES, HOST, Collective, Compute, Exchange, Ref, cut_label, in_pieces

ALONG_SEQUENCE: Final[frozenset[Purpose]] = frozenset({"activation", "input_gradient", "input_gather"})

_OUT: Final[frozenset[Purpose]] = frozenset({"weight_gather", "copy_gather"})  # copied out of buffers, not into them

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
    """Put moves of these purposes, and their stream waits, on lanes of their own, so that they overlap with
    computation. With purpose `input_gradient` this is AxoNN's OAR, with `gradient` its ORS, and with `weight_gather`
    the second half of its OAG."""
    chosen = frozenset(purposes)
    out: Placed = []
    for place, item in program.items:
        if isinstance(item, Move | StreamWait) and item.purpose in chosen:
            item = replace(item, lane=LANE_OF[item.purpose])
        out.append((place, item))
    return Program(out, program.tensors)


def statistics_beside(program: Program) -> Program:
    """Put the gathers of statistics over all samples, and the ops that read these statistics, on a lane of their own,
    so that they overlap with all other work: only the next step reads their results."""
    statistics = [item for _, item in program.items if isinstance(item, Move) and item.purpose == "statistic"]
    moved = {ref for move in statistics for ref in move.dst}
    out: Placed = []
    for place, item in program.items:
        is_moved = isinstance(item, Compute) and not moved.isdisjoint(item.reads)
        if isinstance(item, Move | Compute) and (is_moved or item in statistics):
            item = replace(item, lane=LANE_OF["statistic"])
        out.append((place, item))
    return Program(out, program.tensors)


def synchronise_layers(program: Program) -> Program:
    """Make the host wait, before each layer's forward or backward and after it, for all that it has issued: for the
    results of the moves on lanes of their own, and of the last op of the compute lane. Weights among these may be as
    old as the oldest that the program's ops read."""
    max_age = max((item.max_age for _, item in program.items if isinstance(item, Compute)), default=0)
    out: Placed = []
    moved: dict[Ref, None] = {}
    computed: tuple[Ref, ...] = ()
    before: Place | None = None
    for place, item in program.items:
        if before not in (None, place) and not {"forward", "backward"}.isdisjoint((before.label, place.label)):
            reads = tuple(dict.fromkeys((*moved, *computed)))
            wait = Compute(kind="hook", name="synchronise", reads=reads, max_age=max_age, lane=HOST)
            out.append((place, wait))
            moved = {}
        before = place
        if isinstance(item, Move) and item.lane != "compute":
            moved |= dict.fromkeys(item.dst)
        elif isinstance(item, Compute):
            computed = (*item.writes, *item.accumulates)
        out.append((place, item))
    return Program(out, program.tensors)


def synchronise_experts(program: Program) -> Program:
    """Make the host launch the kernels of a layer of experts, and then wait for the numbers of rows of the next one
    before it issues the next dispatch. In the backward the numbers are known: there it only launches."""
    out: Placed = []
    for place, item in program.items:
        if isinstance(item, Compute):
            is_backward = item.named.part == "backward"
            if item.kind == "dispatch" and not is_backward:
                out.append((place, Compute(kind="launch", name="experts", lane=HOST)))
                out.append((place, Compute(kind="await_rows", name="experts", reads=item.reads, lane=HOST)))
            elif item.kind == "combine" and is_backward:
                out.append((place, Compute(kind="launch_backward", name="experts", lane=HOST)))
        out.append((place, item))
    return Program(out, program.tensors)


def in_pieces_with_products(plan: Plan, engine: Engine) -> frozenset[Purpose]:
    """Return the purposes of the moves that are split into pieces: if the engine overlaps, the purposes that block the
    compute lane."""
    if plan.product_pieces == 1 or not engine.overlap:
        return frozenset()
    waited_for: set[Purpose] = {"activation", "input_gradient"}
    return frozenset(waited_for - (plan.overlapped or frozenset()))


def copied_in_order(plan: Plan, engine: Engine) -> frozenset[Purpose]:
    """Return the purposes of the moves whose values are copied to keep their order in a batch-first layout: all except
    the purposes of moves that are split into pieces."""
    return ALONG_SEQUENCE - in_pieces_with_products(plan, engine) if plan.batch_first else frozenset()


def products_in_pieces(program: Program, plan: Plan, purposes: frozenset[Purpose]) -> Program:
    """Split every gather of `purposes` together with the matrix product that reads it, and every matrix product
    together with the scatter of its result, into the plan's number of pieces. The collectives run on a lane of their
    own and overlap with computation, except for the first piece of a gather, for which the product always waits.

    Megatron-Core's tp_comm_overlap does the same (Transformer Engine's userbuffers: each GEMM in as many pieces as
    there are ranks, or four), as does torchtitan's asynchronous tensor parallelism
    (torch.distributed._symmetric_memory).
    """
    items, out = program.items, Placed()
    index = 0
    while index < len(items):
        place, item = items[index]
        after = items[index + 1][1] if index + 1 < len(items) and items[index + 1][0] == place else None
        pair = _cut(program, item, after, plan, purposes)
        out += [(place, each) for each in pair or (item,)]
        index += 2 if pair else 1
    return Program(out, program.tensors)


def _cut(
    program: Program, first: Item, second: Item | None, plan: Plan, purposes: frozenset[Purpose]
) -> tuple[Collective | Compute, ...]:
    """Return two consecutive ops split into pieces if the second reads the output of the first; empty for any other two
    ops."""
    collective, product = (first, second) if isinstance(first, Collective) else (second, first)
    if not isinstance(collective, Collective) or not isinstance(product, Compute) or product.matmul is None:
        return ()
    made, read = (collective.dst, product.reads) if collective is first else (product.writes, collective.src)
    label = cut_label(collective, program.tensors) if collective.name in purposes else None
    if label is None or label not in product.matmul[1] or set(made).isdisjoint(read):
        return ()
    if any(axis in collective.axes for axis, divided in product.split if divided == label):
        return ()  # a product of the rank's own rows, whose result is gathered after it
    lane = LANE_OF["input_gather"]
    moved = replace(collective, lane=lane, comm=communicator(collective.axes, lane, plan.groups))
    beside, cut = (in_pieces(op, plan.product_pieces, label, collective.axes) for op in (moved, product))
    if collective is not first:
        return (*cut, *beside)
    return (replace(beside[0], lane=collective.lane), *beside[1:], *cut)


def copies_beside_products(program: Program) -> Program:
    """Put the copies of weights out of the buffers of their gathers, and of gradients into those of their reductions,
    on the compute lane: a weight's where it is read first, a gradient's where its reduction is issued."""
    out: Placed = []
    waiting: list[Compute] = []
    tensors = dict(program.tensors)
    for place, item in program.items:
        assert isinstance(item, Compute | Collective | Exchange), "moves are collectives by now"
        if isinstance(item, Compute) and item.kind in ("permute", "encode") and item.lane != "compute":
            if item.name in _OUT:
                waiting.append(replace(item, lane="compute"))
                for ref in item.reads:  # buffers of gathers that run ahead of the copies
                    tensors[ref.name] = replace(tensors[ref.name], pool="live")
                continue
            item = replace(item, lane="compute") if item.name == "gradient" else item
        read = set(item.src if isinstance(item, Collective) else item.reads)
        due = [copy for copy in waiting if not read.isdisjoint(copy.writes)]
        waiting = [copy for copy in waiting if copy not in due]
        out += [(place, each) for each in (*due, item)]
    assert not waiting, "a weight is gathered to be read"
    return Program(out, tensors)


def weights_first(program: Program) -> Program:
    """Compute the gradient of a weight before that of the module's input, where only the weight's gradient is reduced;
    the reduction then overlaps with the other matrix product (AxoNN with ORS, where the group that reduces the input's
    gradient has one rank)."""
    out = list(program.items)
    for index in range(len(out) - 2):
        back, made, move = (item for _, item in out[index : index + 3])
        if isinstance(move, Move) and _are_of_one_module(program, back, made):
            end = index + 2
            while end < len(out) and isinstance(held := out[end][1], Move) and held.purpose == "gradient":
                end += 1
            out[index:end] = [*out[index + 1 : end], out[index]]
    return Program(out, program.tensors)


def inputs_first(program: Program) -> Program:
    """Gather a module's input again for the weight gradients, during the matrix product that computes the input's
    gradient. The reduction of the input's gradient follows on the same lane and overlaps with the matrix product of the
    weight gradient (Megatron-LM's sequence parallelism: core/tensor_parallel/layers.py,
    `LinearWithGradAccumulationAndAsyncCommunication.backward`). The gather starts no earlier than the first of these
    products may start."""
    items = program.items
    out: Placed = []
    back_at = -1  # where the last op stands in `out`
    for index, (place, item) in enumerate(items):
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
        out.append((place, item))
    return Program(out, program.tensors)


def _are_of_one_module(program: Program, back: Item, made: Item) -> bool:
    """Return whether two ops are the two matrix products of one module's backward: `back` for the input's gradient,
    `made` for the weights' gradients."""
    if not (isinstance(back, Compute) and isinstance(made, Compute) and back.matmul and made.matmul):
        return False
    makes = {program.tensors[ref.name].role for ref in (*made.writes, *made.accumulates)}
    gives = {program.tensors[ref.name].role for ref in (*back.writes, *back.accumulates)}
    return makes <= {*GRADIENT_ROLES} and gives == {"activation"} and back.reads[0] == made.reads[0]


def _next_op(items: Placed, index: int) -> Compute | None:
    """Return the first op after the item at `index`."""
    later = (items[at][1] for at in range(index + 1, len(items)))
    return next((item for item in later if isinstance(item, Compute)), None)


def _begins_with(program: Program, out: Placed, at: int) -> tuple[Ref, ...]:
    """Return the activations that are available when the op at index `at` starts: those that it reads, and those that
    the preceding op writes."""
    op = out[at][1]
    assert isinstance(op, Compute)
    earlier = (out[before][1] for before in range(at - 1, -1, -1))
    before = next((item for item in earlier if isinstance(item, Compute)), None)
    refs = (*op.reads, *(() if before is None else before.writes))
    return tuple(dict.fromkeys(ref for ref in refs if program.tensors[ref.name].role == "activation"))
