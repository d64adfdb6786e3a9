"""Blocks of the GPT graph: sequential and parallel residuals, and the ops of each loss method."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.core.workload import GptShape, LossMethod, Workload, WorkOp, gpt

SHAPE = GptShape(name="blocks", num_layers=3, hidden=96, heads=4, vocabulary=160, sequence=24, source="for this test")
SHAPES = {
    "parallel": SHAPE,
    "sequential": replace(SHAPE, residual="sequential"),
    "parallel tied": replace(SHAPE, tied=True),
    "sequential tied": replace(SHAPE, residual="sequential", tied=True),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def work_of(shape: GptShape, precision: str = "bf16") -> Workload:
    return gpt(shape, 2, checkpointing="full", precision=precision)


def ops_of(work: Workload) -> list[WorkOp]:
    phases = (work.embedding, work.layer, work.head)
    return [op for phase in phases for op in (*phase.forward, *phase.backward)]


def in_order(work: Workload, way: LossMethod) -> list[tuple[WorkOp, int]]:
    """Every op of one micro-batch with its layer, recomputation left out, of one way to form the loss."""
    return [(op, layer) for op, layer in _in_order(work) if not op.loss_methods or way in op.loss_methods]


def _in_order(work: Workload) -> list[tuple[WorkOp, int]]:
    layers = range(work.num_layers)
    out = [(op, 0) for op in work.embedding.forward]
    out += [(op, layer) for layer in layers for op in work.layer.forward]
    out += [(op, work.num_layers) for op in (*work.head.forward, *work.head.backward)]
    out += [(op, layer) for layer in reversed(layers) for op in work.layer.backward]
    return [*out, *((op, 0) for op in work.embedding.backward)]


def named(work: Workload, name: str) -> WorkOp:
    (op,) = [op for op in ops_of(work) if op.name == name]
    return op


def test_one_after_the_other_the_mlp_starts_from_the_sum_of_stream_and_attention() -> None:
    """x' = x + attention(ln1 x); out = x' + mlp(ln2 x')."""
    work = work_of(SHAPES["sequential"])
    first, last = named(work, "attention.residual"), named(work, "residual")
    assert (first.reads, first.writes) == ((("x", 0), ("attention.out", 0)), (("middle", 0),))
    assert (last.reads, last.writes) == ((("middle", 0), ("mlp.out", 0)), (("x", 1),))
    assert named(work, "ln2").reads[0] == ("middle", 0)
    assert named(work, "ln1").reads[0] == ("x", 0)


def test_side_by_side_both_start_from_the_stream_and_are_added_at_once() -> None:
    """out = x + attention(ln1 x) + mlp(ln2 x)."""
    work = work_of(SHAPES["parallel"])
    assert named(work, "residual").reads == (("x", 0), ("attention.out", 0), ("mlp.out", 0))
    assert named(work, "ln2").reads[0] == ("x", 0)
    assert "middle" not in work.values and "attention.residual" not in {op.name for op in ops_of(work)}


def test_gradients_of_the_stream_pass_the_norms_in_the_order_of_the_blocks() -> None:
    """One after the other: d.x' = d.out + the MLP's, and the attention's backward starts from d.x'."""
    work = work_of(SHAPES["sequential"])
    assert ("d.x", 1) in named(work, "ln2.backward").reads
    assert named(work, "ln2.backward").writes == (("d.middle", 0),)
    assert named(work, "dense.dgrad").reads == (("d.middle", 0),)
    assert ("d.middle", 0) in named(work, "ln1.backward").reads
    side_by_side = work_of(SHAPES["parallel"])
    assert named(side_by_side, "dense.dgrad").reads == named(side_by_side, "4h_to_h.dgrad").reads == (("d.x", 1),)


@every_shape
def test_every_way_to_form_the_loss_has_ops_and_values_of_its_own(shape: GptShape) -> None:
    """Two sequences of 24: numbers of a row are 2 × 24, what is as large as the logits 2 × 24 × 160. Passes over the
    logits, forward and for their gradient: unfused max R, subtract R+W, exp R+W, sum R, divide R+W."""
    work, rows, whole = work_of(shape), (2, 24), (2, 24, 160)
    expected: dict[LossMethod, tuple[list[str], dict[str, tuple[int, ...]]]] = {
        "whole": ([], {}),
        "three-all-reduces": (
            ["loss.max", "loss.own", "loss.exp", "loss.sum"],
            {"loss.top": rows, "loss.own": rows, "loss.total": rows, "loss.shifted": whole, "loss.exponentials": whole},
        ),
        "fused-two": (["loss.max", "loss.sums"], {"loss.top": rows, "loss.terms": (*rows, 2)}),
        "one-gather": (["loss.online"], {"loss.online": (*rows, 3)}),
        "mn-merge": (["loss.pairs"], {"loss.pairs": (*rows, 3)}),
    }
    passes = {"whole": (1, 1), "three-all-reduces": (5, 3), "fused-two": (3, 1), "one-gather": (2, 1)}
    passes["mn-merge"] = passes["one-gather"]
    for way, (names, values) in expected.items():
        ops = [op for op, _ in in_order(work, way) if op.loss_methods]
        assert [op.name for op in ops] == [*names, "loss"], way
        held = {value.name: value for value in work.values.values() if way in value.loss_methods}
        assert {name: value.shape for name, value in held.items()} == values, way
        assert all(value.dtype == "fp32" and not value.per_layer for value in held.values()), way
        wide = [[work.values[name].shape == whole for name, _ in uses] for op in ops for uses in (op.reads, op.writes)]
        assert (sum(map(sum, wide[0::2])), sum(map(sum, wide[1::2]))) == passes[way], way
