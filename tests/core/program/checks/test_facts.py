"""Findings of the checker where one fact of a valid schedule is changed: tensor or op, expected, found."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from simfrontier.core.program import Call, Compute, Mesh, Op, Schedule, check
from tests.core.program.builders import ENGINES, SMALL, mesh_of, options_of, schedule_of
from tests.core.program.mutations import changed, mutated, says, where, with_tensor

QKV = "qkv.weight"


@cache
def sound(family: str) -> Schedule:
    """Any family on four devices of two nodes, two micro-batches."""
    engine = SMALL if family == "ddp" else ENGINES["tight"]
    return schedule_of(options_of(family), mesh_of(2, 1, 2), engine, 2, num_layers=2)


def set_fact(family: str, tensor: str, **fields: Any) -> Schedule:
    assert check(sound(family)).is_clean
    return with_tensor(sound(family), tensor, **fields)


# ── tensors ──


@pytest.mark.parametrize("family", ["zero3", "zeropp"])
def test_a_master_has_the_nesting_of_its_weight(family: str) -> None:
    base = sound(family)
    nesting = base.mesh.live(base.tensors[QKV].nesting)
    wrong = set_fact(family, f"{QKV}.master", nesting=nesting[::-1])
    says(
        wrong, f"tensor {QKV}.master", f"the nesting of {QKV}, {'×'.join(nesting)}", f"found {'×'.join(nesting[::-1])}"
    )


@pytest.mark.parametrize(
    ("tensor", "dtype", "expected"),
    [
        (f"{QKV}.moments", "uint8", f"type moments, as optimizer of {QKV} in fp16"),
        (f"{QKV}.master", "int64", f"type fp16 or fp32, as master of {QKV} in fp16"),
        (f"{QKV}.master", "fp16", "the type of the other masters, fp32"),
        (f"{QKV}.grad", "fp32", "the type of the other accumulators, fp16"),
        (f"{QKV}.grad", "bf16", f"type fp16 or fp32, as accumulator of {QKV} in fp16"),
    ],
)
def test_a_state_has_the_type_that_its_weight_asks_for(tensor: str, dtype: str, expected: str) -> None:
    says(set_fact("zero3", tensor, dtype=dtype), f"tensor {tensor}", f"expected {expected}", f"found {dtype}")


@pytest.mark.parametrize(
    ("tensor", "fields", "expected", "text"),
    [
        (f"{QKV}.moments", {"role": "copy"}, f"a gradient, master and optimizer state of {QKV}", "accumulator, copy"),
        (f"{QKV}.grad.ordered0", {"role": "gathered"}, "with one of the roles", "gathered"),
        (f"{QKV}.grad", {"role": "gradient"}, "a gradient tensor that ends with the step", "it is persistent"),
        (f"{QKV}.grad", {"role": "optimizer"}, "accumulates, with one of the roles accumulator, gradient", "optimizer"),
        (f"{QKV}.grad.raw", {"persistent": True}, "a gradient tensor that ends with the step", "it is persistent"),
        (f"{QKV}.grad.ordered0", {"per_micro": False}, "of a micro-batch", "of no micro-batch"),
        (f"{QKV}.grad.ordered0", {"per_layer": False}, f"of every layer, as {QKV}.grad.raw is", "of no layer"),
    ],
)
def test_roles_and_flags_are_those_that_the_ops_ask_for(
    tensor: str, fields: dict[str, Any], expected: str, text: str
) -> None:
    family = "ddp" if tensor == f"{QKV}.grad" else "zero3"
    says(set_fact(family, tensor, **fields), tensor.removesuffix(".moments"), expected, f"found {text}")


@pytest.mark.parametrize(
    ("tensor", "home"),
    [
        (f"{QKV}.grad.reduced", f"{QKV}.master"),
        (f"{QKV}.grad.reduced", QKV),
        ("d.x", "x"),
        ("x", "x.again"),
        (f"{QKV}.moments", f"{QKV}.moments"),
    ],
)
def test_only_an_all_reduce_in_place_shares_memory(tensor: str, home: str) -> None:
    """Everything else would lower the peak of memory and lose what lay there."""
    base = sound("ddp")
    dtype = base.tensors[tensor].dtype
    base = with_tensor(base, home, dtype=dtype)  # of one size, as the oldest rule has it
    wrong = with_tensor(base, tensor, shares=home)
    says(wrong, f"tensor {tensor}", "to lie in the memory of what is all-reduced into it", "found")


def test_what_lies_in_an_accumulator_is_the_only_one_to_read_it() -> None:
    """The accumulator's own values are gone after the all-reduce: nothing else may want them."""
    base = sound("ddp")
    late = where("norm2", label="norm.layer")

    def reads_the_old(call: Call, op: Op) -> list[Op]:
        if not late(call, op):
            return [op]
        assert isinstance(op, Compute)
        reads = tuple(
            ref._replace(name=f"{QKV}.grad") if ref.name == f"{QKV}.grad.reduced" else ref for ref in op.reads
        )
        return [replace(op, reads=reads)]

    says(mutated(base, reads_the_old), f"tensor {QKV}.grad.reduced", f"reads {QKV}.grad, too")


# ── ops ──


def test_iteration_counts_are_those_of_the_operands() -> None:
    def ones(_: Call, op: Op) -> list[Op]:
        return [replace(op, iteration=tuple((label, 1) for label, _ in op.iteration))] if op.kind == "matmul" else [op]

    says(mutated(sound("zero3"), ones), "matmul qkv", "as its operands have it", "found 1")


@pytest.mark.parametrize("flops", [0, 1, 10**15])
def test_flops_are_those_of_the_product(flops: int) -> None:
    wrong = mutated(sound("zero3"), changed(where("matmul", name="h_to_4h.wgrad"), flops=flops))
    says(wrong, "matmul h_to_4h.wgrad", "flops, of its iteration space", f"found {flops}")


# ── what it says of itself ──


@pytest.mark.parametrize(("key", "value"), [("num_layers", 3), ("grad_accum", 1), ("heads", 8), ("clip", "each")])
def test_numbers_of_meta_are_those_of_the_program(key: str, value: Any) -> None:
    base = sound("ddp")
    says(replace(base, meta={**base.meta, key: value}), key if key == "heads" else f"meta {key}", "found")
    if key != "clip":
        without = {name: message for name, message in base.meta.items() if name != key}
        says(replace(base, meta=without), "nothing said")


def test_an_axis_along_which_all_do_the_same_is_named() -> None:
    """DDP on one node, said to be on 1,000,000,000: all of them would train the same model on the same samples."""
    base = schedule_of(options_of("ddp"), mesh_of(1, 2, 2), SMALL, num_layers=2)
    assert check(base).is_clean
    mesh = Mesh((("node", 10**9), ("package", 2), ("gcd", 2)))
    without = replace(
        base,
        mesh=mesh,
        tensors={
            name: replace(t, nesting=tuple(a for a in t.nesting if a != "node")) for name, t in base.tensors.items()
        },
    )
    split = mutated(
        without,
        lambda _, op: [
            replace(op, split=tuple(s for s in op.split if s[0] != "node")) if isinstance(op, Compute) else op
        ],
    )
    says(split, "mesh axis node", "work or states divided over its 1000000000", "found none")
