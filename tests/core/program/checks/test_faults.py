"""Findings of the checker for one fault of each kind in a valid schedule."""

from dataclasses import replace

from simfrontier.core.codecs import Plain, Quantised
from simfrontier.core.program import Call, Collective, Compute, Op, Ref
from simfrontier.core.program.placement import REPLICATE
from tests.core.program.builders import topo, zero3, zeropp
from tests.core.program.mutations import changed, dropped, lines, mutated, says, where, with_tensor


def test_dropped_reduction_is_named() -> None:
    base = zero3()
    target = "dense.weight.grad.ordered0"
    without = mutated(base, dropped(where("reduce_scatter", label="backward", layer=1, touches=target)))
    says(without, "references: backward of layer 1", "accumulate gradient", "dense.weight.grad.hop0", "no op writes it")


def test_step_reduction_before_the_last_accumulate_is_named() -> None:
    """The reduction of a step takes an accumulator that a later micro-batch still adds to."""
    schedule = topo()
    is_step = where("encode", name="step_reduction", touches="head.weight.grad")
    label = next(call.label for call, op in schedule.roles[0].instances() if is_step(call, op))
    moved = [op for call, op in schedule.roles[0].instances() if call.label == label and op.name == "step_reduction"]
    parts = [op for op in moved if any(ref.name.startswith("head.weight.") for ref in op.reads)]

    def early(call: Call, op: Op) -> list[Op]:
        if call.label == label and op in parts:
            return []
        if call.label == "embedding" and call.micro == 1 and op.kind == "lookup":
            return [op, *parts]
        return [op]

    says(mutated(schedule, early), "sums: ", "head.weight from each of the micro-batches 0..1", "micro-batch 0 once")


def test_wrong_axes_are_named() -> None:
    gather = where("all_gather", label="forward", layer=1)
    wrong = mutated(zero3(), changed(gather, axes=("package", "gcd")))
    says(
        wrong,
        "placements: forward of layer 1",
        "groups over package+gcd",
        "after the all_gather over package+gcd of",
        "as [node:flat]",
        "found [replicate]",
    )
    says(wrong, "order: ", "expected communicator world over gcd+node+package", "found package+gcd")


def test_stale_gather_is_named() -> None:
    """The first forward of the step reads the copy that the previous step left."""
    schedule = zeropp()
    stale = mutated(schedule, stale_forward)
    says(
        stale,
        "versions: forward of layer 1, micro-batch 0: matmul qkv",
        "expected qkv.weight.full.forward of layer 1, micro-batch 0 at most 0 steps old",
        "found the previous step's weights, 1 step old",
    )
    lenient = mutated(stale, changed(where("matmul", name="qkv", label="forward"), max_age=1))
    result = lines(lenient)
    assert not any(line.startswith("versions: forward") for line in result)
    assert any("end of step: qkv.weight.copy of layer 1" in line and "from itself" in line for line in result), result


def stale_forward(call: Call, op: Op) -> list[Op]:
    """Sends the copy's 16-bit values in place of the weight's, for one matrix."""
    if call.micro == 0 and op.kind == "encode" and op.name == "weight_gather":
        refs = [ref for ref in op.reads if ref.name == "qkv.weight" and ref.layer + call.layer == 1]
        if refs:
            assert isinstance(op, Compute)
            here = Ref("qkv.weight.full.forward.sent0", refs[0].layer, op.writes[0].micro)
            sent = replace(op, reads=(replace_name(refs[0], "qkv.weight.copy"),), writes=(here,))
            rest = [(a, b) for a, b in zip(op.reads, op.writes, strict=True) if a != refs[0]]
            if not rest:
                return [sliced(sent)]
            others = replace(op, reads=tuple(a for a, _ in rest), writes=tuple(b for _, b in rest))
            return [others, sliced(sent)]
    return [op]


def sliced(op: Compute) -> Compute:
    return replace(op, name="stale")


def replace_name(ref: Ref, name: str) -> Ref:
    return ref._replace(name=name)


def test_copy_that_is_never_written_is_named() -> None:
    schedule = zeropp("0.10.2")
    says(
        mutated(schedule, dropped(where("slice", name="dense.weight.copy"))),
        "versions: end of step: dense.weight.copy of layer 0",
        "and 1 more like it",
        "expected written again in every step",
    )


def test_swapped_order_is_named() -> None:
    def swap(call: Call, op: Op) -> list[Op]:
        if call.label == "forward" and op.name in ("softmax", "scores"):
            other = {o.name: o for o in call.ops}["scores" if op.name == "softmax" else "softmax"]
            return [other]
        return [op]

    says(
        mutated(zero3(), swap),
        "references: forward of layer 0, micro-batch 0: softmax (all ranks, and 3 more like it)",
        "expected scores of layer 0, micro-batch 0 written by an op before",
        "found it is written later, by forward of layer 0, micro-batch 0: scores",
    )


def test_wrong_codec_is_named() -> None:
    wrong = mutated(zeropp(), changed(where("all_gather", name="weight_gather"), codec=Quantised("int4", 6144)))
    says(wrong, "placements: ", "sent0 coded as int4:6144; found coded as int8:6144")
    says(
        mutated(zero3(), changed(where("all_gather"), codec=Plain("fp32"))),
        "placements: ",
        "expected codec fp16, the type of",
        "found codec fp32",
    )


def test_doubled_accumulate_is_named() -> None:
    def twice(call: Call, op: Op) -> list[Op]:
        return [op, op] if op.kind == "accumulate" and call.micro == 1 else [op]

    says(
        mutated(zero3(), twice),
        "sums: ",
        "from each of the micro-batches 0..1, once",
        "micro-batch 0 once, micro-batch 1 twice",
    )


def test_missing_and_doubled_adam_are_named() -> None:
    head = where("adam", label="step.head")
    says(mutated(zero3(), dropped(head)), "sums: end of step: head.weight", "expected one adam per step; found none")
    says(
        mutated(zero3(), lambda call, op: [op, op] if head(call, op) else [op]),
        "sums: end of step: head.weight",
        "expected one adam per step; found 2 of them",
    )


def test_partial_gradient_read_by_adam_is_named() -> None:
    def partial(call: Call, op: Op) -> list[Op]:
        if call.label != "step.head":
            return [op]
        raw = tuple(Ref("head.weight.grad.raw") if r.name == "head.weight.grad" else r for r in op.reads)
        return [replace(op, reads=raw)] if op.kind == "adam" else [op]  # type: ignore[arg-type]

    says(
        mutated(zero3(1), partial),
        "placements: step.head of layer 0, micro-batch 0: adam",
        "expected head.weight.grad.raw as [gcd:flat node:flat package:flat] like head.weight.master",
        "found [node:partial(sum) package:partial(sum) gcd:partial(sum)]",
    )


def test_operand_that_is_not_cut_like_its_op_is_named() -> None:
    whole = with_tensor(zero3(), "context", placement=REPLICATE)
    says(
        whole,
        "placements: forward of layer 0, micro-batch 0: context",
        "expected context as [node:shard(0) package:shard(0) gcd:shard(0)] as a result, because node cuts b",
        "found [replicate]",
    )
    summed = with_tensor(zero3(), "dense.weight.grad.raw", placement=REPLICATE)
    says(summed, "matmul dense.wgrad", "as [node:partial(sum) package:partial(sum) gcd:partial(sum)] as a result")


def test_gather_into_the_wrong_layer_is_named() -> None:
    def shift(_: Call, op: Op) -> list[Op]:
        if not isinstance(op, Collective) or op.name != "weight_gather" or not op.dst[0].name.startswith("qkv"):
            return [op]
        return [replace(op, dst=(op.dst[0]._replace(layer=op.dst[0].layer + 1), *op.dst[1:]))]

    says(mutated(zero3(), shift), "references: ", "expected qkv.weight.full.forward of the layer of qkv.weight")
