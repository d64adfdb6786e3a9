"""Findings of the checker for a backward pass with one operand or name changed."""

from __future__ import annotations

from functools import cache

import pytest

from simfrontier.core.program import Compute, Schedule, check
from tests.core.program.mutations import changed, mutated, says, where, with_tensor
from tests.mutated.cases import CASES


@cache
def sound(case: str) -> Schedule:
    schedule = CASES[case].make()
    assert check(schedule).is_clean
    return schedule


def op_of(schedule: Schedule, name: str) -> Compute:
    return next(op for op in schedule.ops if op.name == name and isinstance(op, Compute))


def with_operands(case: str, name: str, reads: str = "", writes: str = "") -> Schedule:
    """The schedule with other operands of an op: names, `name+1` for that of the next layer; its own, where none are
    given."""
    schedule = sound(case)
    op = op_of(schedule, name)
    known = {ref.name: ref for ref in (*op.reads, *op.writes)}

    def refs(words: str, own: tuple[object, ...]) -> tuple[object, ...]:
        like = op.reads[0]
        return tuple(known.get(each, like._replace(name=each, layer=0)) for each in words.split()) if words else own

    return mutated(
        schedule, changed(where(op.kind, name=name), reads=refs(reads, op.reads), writes=refs(writes, op.writes))
    )


@pytest.mark.parametrize(
    ("case", "name", "reads", "expected"),
    [
        # pointwise kernels take the gradient first, embeddings last, products side by side
        ("ddp", "gelu.backward", "h_to_4h.out.again d.gelu", "d.gelu first"),
        ("ddp", "embedding.wgrad", "d.x tokens", "whole numbers first"),
        ("ddp", "qkv.wgrad", "d.query d.key ln1.out.again d.value", "d.query, d.key, d.value side by side"),
        # the gradient of an input, not of the result: gelu would be left out
        ("ddp", "h_to_4h.dgrad", "d.gelu h_to_4h.weight", "gradients of h_to_4h.out, and what h_to_4h reads and makes"),
        # a product that reads two of three gradients
        ("ddp", "qkv.dgrad", "d.query d.key qkv.weight", "the gradient of qkv.out by context"),
        # in another order than the product beside it
        ("ddp", "qkv.wgrad", "d.key d.query d.value ln1.out.again", "the gradients that qkv.dgrad reads"),
        # statistics that the forward pass reads
        ("axonn", "ln2.backward.sums", "d.ln2 middle.again ln2.weight", "all that ln2 reads, middle, ln2.moments"),
        # scores in the place of queries and keys
        ("tensor", "scores.dkey", "d.scores scores.again", "qkv.out, of the factors of scores"),
        ("zero3", "ln1.backward", "d.ln1 x d.mlp_path d.x", "ln1.weight, which ln1 reads"),
        ("tensor", "loss", "loss.top logits loss.terms", "logits first, of which d.logits is the gradient"),
        ("tensor", "loss", "logits loss.terms", "loss.top, which loss.sums reads"),
        ("tensor", "loss.sums", "loss.top logits", "an operand with the labels b, s, v first"),
    ],
)
def test_an_op_reads_all_gradients_of_what_it_made(case: str, name: str, reads: str, expected: str) -> None:
    says(with_operands(case, name, reads), f" {name}", f"expected {expected}")


@pytest.mark.parametrize(
    ("case", "name", "other", "expected"),
    [
        ("ddp", "head.dgrad", "gradient", "final_norm.backward (all ranks): expected gradients of final_norm.out"),
        ("ddp", "dense.wgrad", "scalar", "a name after an op that reads dense.weight"),
        ("ddp", "dense.wgrad", "danse.wgrad", "an op danse, of which this makes gradients; found none"),
        ("zero3", "context", "weight_gather", "context.again from an op named context, as before"),
    ],
)
def test_an_op_is_named_after_what_it_makes_gradients_of(case: str, name: str, other: str, expected: str) -> None:
    schedule = sound(case)
    op = op_of(schedule, name)
    label = "backward" if name == "context" else None  # only where it is computed again
    says(mutated(schedule, changed(where(op.kind, name=name, label=label), name=other)), expected)


def test_a_gradient_that_comes_by_the_residual_is_not_left_out() -> None:
    """The attention's result goes into the MLP and past it: its gradient is the sum of both."""
    wrong = with_operands(
        "axonn zero1 pipeline", "ln2.backward", "d.ln2 middle.again ln2.moments.again d.ln2.moments ln2.weight"
    )
    says(wrong, " dense.dgrad", "the gradient of attention.out by final_norm, ln1", "found d.middle")


@pytest.mark.parametrize("case", ["pipeline interleaved", "axonn zero1 pipeline"])
def test_a_gradient_is_made_of_the_layer_that_was_computed(case: str) -> None:
    schedule = sound(case)
    op = op_of(schedule, "final_norm.backward")
    reads = tuple(ref._replace(layer=ref.layer - 1) if ref.name == "x" else ref for ref in op.reads)
    wrong = mutated(schedule, changed(where("norm", name=op.name), reads=reads))
    says(wrong, "norm final_norm.backward", "x of the layers and micro-batches of final_norm", "found others")


@pytest.mark.parametrize(
    ("case", "tensor", "fields", "expected"),
    [
        ("ddp", "probabilities.again", {"dtype": "uint8"}, "beside weights in fp64"),
        ("ddp", "tokens", {"dtype": "fp32"}, "whole numbers first, of type int64 or uint8"),
        ("compressed int8", "tokens", {"per_micro": False}, "a value of every micro-batch; found one that all share"),
    ],
)
def test_a_tensor_is_of_the_type_that_its_makers_and_readers_need(
    case: str, tensor: str, fields: dict[str, object], expected: str
) -> None:
    says(with_tensor(sound(case), tensor, **fields), expected)


@pytest.mark.parametrize(
    ("kind", "axis", "label"), [("softmax", "gcd", "t"), ("loss", "gcd", "v"), ("norm", "gcd", "h")]
)
def test_what_depends_on_a_whole_row_has_it(kind: str, axis: str, label: str) -> None:
    """Ranks with a part of the classes each would form a loss of their own."""
    wrong = mutated(sound("ddp"), changed(where(kind), split=((axis, label),)))
    says(wrong, f"whole rows of a {kind} along {label}, or sums over them; found {axis} cuts {label}")
