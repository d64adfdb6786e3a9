"""Schedules with one thing wrong each: what the check must name, and what a run without the check shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simfrontier.codecs import Plain, Quantised
from simfrontier.schedule import Call, Collective, Compute, Exchange, Op, Role, Schedule
from tests.real.grids import megatron
from tests.real.schedules import ENGINES, EXACT, INT8, QUANTISED, STALE, schedule
from tests.schedule.mutations import changed, dropped, mutated, where, with_tensor

MESH = (2, 1, 2)
UNWRITTEN = "micro-batch 0 is read, but nothing has been written there"
PARTED = "rank 2 holds other values than its copies"  # the two nodes go their own ways


@dataclass(frozen=True)
class Mutant:
    """A sound schedule, the same with a fault, words of the finding that must name it, and what a run without the
    check shows: `weights` that differ, other `bytes` than scheduled, or what it raises."""

    base: Schedule
    wrong: Schedule
    rule: str
    named: tuple[str, ...]
    shows: str


def dropped_reduce() -> Mutant:
    """The reduction of one gradient is missing."""
    base = schedule(EXACT["zero3"], MESH, 2, engine=ENGINES["tight"])
    gone = dropped(where("reduce_scatter", touches="h_to_4h.weight.grad.ordered0", label="backward", layer=1))
    named = ("backward of layer 1", "accumulate gradient", "h_to_4h.weight.grad.hop0", "no op writes it")
    return Mutant(
        base,
        mutated(base, gone),
        "references",
        named,
        "h_to_4h.weight.grad.hop0 of layer 1, micro-batch 0 is read, but nothing has been written there",
    )


def dropped_reduce_over_nodes() -> Mutant:
    """The sum over the nodes is a local copy: every node trains by itself."""
    base = schedule(EXACT["hsdp"], MESH, 2)

    def copied(_: Call, op: Op) -> list[Op]:
        if op.kind != "all_reduce" or op.name != "step_reduction":
            return [op]
        return [Compute(kind="slice", name=op.name, reads=op.reads, writes=op.writes, lane=op.lane)]

    named = ("slice step_reduction", "grad", "found")
    return Mutant(base, mutated(base, copied), "placements", named, PARTED)


def dropped_micro_batch() -> Mutant:
    """The gradient of one weight lacks the first micro-batch."""
    base = schedule(EXACT["zero3"], MESH, 2, engine=ENGINES["tight"])

    def drop(call: Call, op: Op) -> list[Op]:
        if call.micro or op.kind != "accumulate" or not any(r.name.startswith("h_to_4h.weight") for r in op.reads):
            return [op]
        assert isinstance(op, Compute)
        kept = [(a, b) for a, b in zip(op.reads, op.accumulates, strict=True) if not a.name.startswith("h_to_4h.w")]
        if not kept:
            return []
        return [replace(op, reads=tuple(a for a, _ in kept), accumulates=tuple(b for _, b in kept))]

    named = (
        "expected the gradient of h_to_4h.weight",
        "from each of the micro-batches 0..1, once",
        "micro-batch 1 once",
    )
    return Mutant(base, mutated(base, drop), "sums", named, "weights")


def wrong_group() -> Mutant:
    """The sum over the nodes goes over the devices of a node instead."""
    base = schedule(EXACT["hsdp"], MESH, 2)
    wrong = mutated(base, changed(where("all_reduce", name="step_reduction"), axes=("gcd",)))
    return Mutant(
        base, wrong, "placements", ("all_reduce step_reduction", "groups over gcd", "partial over gcd"), PARTED
    )


def stale_gather() -> Mutant:
    """Forward passes gather the step before's copy, and no op says that it may."""
    base = schedule(EXACT["zeropp"], MESH, 2)
    stale = schedule(STALE, MESH, 2)
    wrong = mutated(stale, lambda _, op: [replace(op, max_age=0) if isinstance(op, Compute) else op])
    return Mutant(base, wrong, "versions", ("forward of layer 0", "the previous step's weights, 1 step old"), "weights")


def missing_publish() -> Mutant:
    """New weights of one matrix never reach the ranks that compute with them."""
    base = schedule(EXACT["zero-topo"], MESH, 2, engine=ENGINES["by layer"])

    def drop(_: Call, op: Op) -> list[Op]:
        is_mine = op.name == "publish" and any(ref.name.startswith("head.weight") for ref in op.reads)
        return [] if is_mine else [op]

    named = ("end of step: head.weight", "expected version 1 at its home placement", "found version 0")
    return Mutant(base, mutated(base, drop), "versions", named, "weights")


def swapped_order() -> Mutant:
    """Softmax before the scores that it reads."""
    base = schedule(EXACT["zero3"], MESH)

    def swap(call: Call, op: Op) -> list[Op]:
        if call.label == "forward" and op.name in ("softmax", "scores"):
            return [{each.name: each for each in call.ops}["scores" if op.name == "softmax" else "softmax"]]
        return [op]

    named = ("forward of layer 0", "softmax", "expected scores of layer 0", "it is written later")
    return Mutant(
        base,
        mutated(base, swap),
        "references",
        named,
        "scores of layer 0, micro-batch 0 is read, but nothing has been written there",
    )


def early_reduction() -> Mutant:
    """The step's reduction of the head's gradient before the second micro-batch has added to it."""
    alone = replace(ENGINES["tight"], persistence_elements=0, reduce_bucket_elements=1, gather_bucket_elements=1)
    base = schedule(QUANTISED["quantised topo"], MESH, 2, engine=alone, precision="fp32")
    results = [
        (call.label, op)
        for call, op in base.roles[0].instances()
        if op.name == "step_reduction" and any(ref.name.startswith("head.weight.") for ref in op.reads)
    ]
    parts, label = [op for _, op in results], results[0][0]

    def early(call: Call, op: Op) -> list[Op]:
        if call.label == label and op in parts:
            return []
        if call.label == "embedding" and call.micro == 1 and op.kind == "lookup":
            return [op, *parts]
        return [op]

    named = ("head.weight from each of the micro-batches 0..1", "micro-batch 0 once")
    return Mutant(base, mutated(base, early), "sums", named, "weights")


def wrong_codec_of_a_call() -> Mutant:
    """A gather says fp32 for what is held and sent as fp64."""
    base = schedule(EXACT["zero3"], MESH, 2)
    wrong = mutated(base, changed(where("all_gather", name="weight_gather"), codec=Plain("fp32")))
    return Mutant(
        base, wrong, "placements", ("all_gather", "expected codec fp64, the type of", "found codec fp32"), "bytes"
    )


def wrong_codec_of_what_arrives() -> Mutant:
    """Sent as int4, taken for int8 where it arrives."""
    base = schedule(QUANTISED["qgz"], MESH, 2, precision="fp32")
    wrong = with_tensor(base, "h_to_4h.weight.grad.got0", codec=Quantised("int8", 64))
    return Mutant(
        base,
        wrong,
        "placements",
        ("h_to_4h.weight.grad", "int4:64", "found", "int8:64"),
        "a piece of h_to_4h.weight.grad.got0 has 288 bytes, 512 elements in int8:64 have 544",
    )


def wrong_block_of_what_arrives() -> Mutant:
    """Blocks of 64 read as blocks of 80: of 256 elements a piece as many scales, 4, each for other elements."""
    base = schedule(("zeropp", {"qgz": False, "hpz": False, "weight_codec": INT8}), MESH, 2, precision="fp32")
    name = "h_to_4h.weight.full.forward.got0"
    wrong = with_tensor(base, name, codec=Quantised("int8", 80))
    return Mutant(base, wrong, "placements", (name, "int8:64", "found", "int8:80"), "weights")


def wrong_micro_batch() -> Mutant:
    """The first stage sends what it made of the first micro-batch when the second one's turn comes."""
    base = megatron(1, 2, 2, order="gpipe").schedule

    def sent_again(call: Call, op: Op) -> list[Op]:
        if not isinstance(op, Exchange) or op.name != "forward" or call.micro == 0:
            return [op]
        return [replace(op, src=tuple(ref._replace(micro=-1) for ref in op.src))]

    named = ("exchange forward of x", "stage0", "stage1", "expected x of the micro-batch of x (-1 from the call)")
    return Mutant(base, mutated(base, sent_again), "references", named, "weights")


def dropped_sum_over_tensor_ranks() -> Mutant:
    """Ranks go on with their own part of a product: what should be the same on them parts."""
    base = megatron(2, 1, 2, shape="parallel").schedule

    def copied(_: Call, op: Op) -> list[Op]:
        if op.kind != "all_reduce" or not any(ref.name.startswith("residual.branches") for ref in op.reads):
            return [op]
        return [Compute(kind="slice", name=op.name, reads=op.reads, writes=op.writes, lane=op.lane)]

    named = ("slice activation of residual.branches.partial", "tensor:partial(sum)", "found [data:shard(0)]")
    shows = "4h_to_h.bias of layer 0: rank 1 holds other values than its copies"
    return Mutant(base, mutated(base, copied), "placements", named, shows)


def forgotten_tied_gradient() -> Mutant:
    """The two holders of a tied table swap their gradients, and do not add what they get."""
    base = megatron(1, 2, 2, shape="tied").schedule
    named = ("adam", "role stage1", "embedding.weight", "of role stage0 nothing")
    shows = "embedding.weight of layer 0: rank 2 holds other values than its copies"
    return Mutant(base, mutated(base, dropped(where("accumulate", name="tied"))), "sums", named, shows)


MUTANTS: dict[str, Callable[[], Mutant]] = {
    make.__name__.replace("_", " "): make
    for make in (
        dropped_reduce,
        dropped_reduce_over_nodes,
        dropped_micro_batch,
        wrong_group,
        stale_gather,
        missing_publish,
        swapped_order,
        early_reduction,
        wrong_codec_of_a_call,
        wrong_codec_of_what_arrives,
        wrong_block_of_what_arrives,
        wrong_micro_batch,
        dropped_sum_over_tensor_ranks,
        forgotten_tied_gradient,
    )
}


def swapped_on_one_rank() -> tuple[Schedule, Schedule]:
    """(what most ranks run, what one rank runs): two reductions of different groups in another order.

    Each of the two is sound by itself; together they get stuck, because one group holds the other.
    """
    base = schedule(EXACT["zeropp two hops"], MESH, model="mlp")
    calls = []
    for call in base.roles[0].calls:
        ops = list(call.ops)
        whole = next((i for i, op in enumerate(ops) if _is_reduction(op, ("node", "gcd"))), None)
        if whole is not None:
            inner = next(i for i in range(whole, len(ops)) if _is_reduction(ops[i], ("gcd",)))
            moved = ops[whole : whole + 2]  # the call, and the accumulation of what it brings
            ops = [*ops[:whole], *ops[whole + 2 : inner + 1], *moved, *ops[inner + 1 :]]
        calls.append(replace(call, ops=tuple(ops)))
    role = base.roles[0]
    other = replace(base, roles=(Role(role.name, tuple(calls)),))
    assert other != base
    return base, other


def _is_reduction(op: Op, axes: tuple[str, ...]) -> bool:
    return isinstance(op, Collective) and op.kind == "reduce_scatter" and op.axes == axes
