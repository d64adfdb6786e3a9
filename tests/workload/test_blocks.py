"""Blocks of the GPT graph: attention and MLP side by side or one after the other, one table or two, and the ops that
are there for plans that cut a label."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from simfrontier.workload import GptShape, Workload, WorkOp, gpt

SHAPE = GptShape(name="blocks", num_layers=3, hidden=96, heads=4, vocabulary=160, sequence=24, source="for this test")
SHAPES = {
    "parallel": SHAPE,
    "sequential": replace(SHAPE, residual="sequential"),
    "parallel tied": replace(SHAPE, tied=True),
    "sequential tied": replace(SHAPE, residual="sequential", tied=True),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def work_of(shape: GptShape, precision: str = "bf16") -> Workload:
    return gpt(shape, 2, checkpointing=True, precision=precision)


def ops_of(work: Workload) -> list[WorkOp]:
    phases = (work.embedding, work.layer, work.head)
    return [op for phase in phases for op in (*phase.forward, *phase.backward)]


def in_order(work: Workload) -> list[tuple[WorkOp, int]]:
    """Every op of one micro-batch with its layer, recomputation left out."""
    layers = range(work.num_layers)
    out = [(op, 0) for op in work.embedding.forward]
    out += [(op, layer) for layer in layers for op in work.layer.forward]
    out += [(op, work.num_layers) for op in (*work.head.forward, *work.head.backward)]
    out += [(op, layer) for layer in reversed(layers) for op in work.layer.backward]
    return [*out, *((op, 0) for op in work.embedding.backward)]


def named(work: Workload, name: str) -> WorkOp:
    (op,) = [op for op in ops_of(work) if op.name == name]
    return op


@every_shape
@pytest.mark.parametrize("precision", ["bf16", "fp64"])
def test_every_value_is_written_before_it_is_read_and_read_somewhere(shape: GptShape, precision: str) -> None:
    work = work_of(shape, precision)
    written = {(value.name, 0) for value in work.values.values() if value.persistent}
    read: set[str] = set()
    for op, layer in in_order(work):
        for uses, is_read in ((op.reads, True), (op.writes, False)):
            for name, shift in uses:
                value = (name, layer + shift if work.values[name].per_layer else 0)
                if is_read:
                    assert value in written, (op.name, value)
                    read.add(name)
                else:
                    assert value not in written, (op.name, value)
                    written.add(value)
    assert read == set(work.values)


@every_shape
def test_the_formula_of_parameters_counts_the_weights_of_the_graph(shape: GptShape) -> None:
    """ψ = L (12 h² + 13 h) + 2 h + 2 V h, one V h where the tables are one."""
    h, tables = 96, 1 if shape.tied else 2
    by_hand = 3 * (12 * h * h + 13 * h) + 2 * h + tables * 160 * h
    assert work_of(shape).num_parameters == shape.num_parameters == by_hand


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


def test_a_tied_head_reads_the_embedding_s_table_and_adds_to_its_gradient() -> None:
    for shape, table in (
        (SHAPES["sequential tied"], "embedding.weight"),
        (SHAPES["sequential"], "head.weight"),
    ):
        work = work_of(shape)
        assert named(work, "head").weights == named(work, "head.dgrad").weights == (table,)
        assert named(work, "head.wgrad").gradients == (table,)
    adds = Counter(name for op in ops_of(work_of(SHAPES["parallel tied"])) for name in op.gradients)
    assert adds["embedding.weight"] == 2 and "head.weight" not in adds


@every_shape
def test_blocks_take_the_same_operations_in_any_order(shape: GptShape) -> None:
    assert work_of(shape).matmul_flops == work_of(SHAPE).matmul_flops


@every_shape
def test_sums_of_norms_are_there_only_where_features_are_cut(shape: GptShape) -> None:
    """Two wide numbers per position: the sum and the sum of squares forward, two sums backward."""
    work = work_of(shape)
    sums = {op.name for op in ops_of(work) if op.where_cut == "h"}
    norms = ("ln1", "ln2", "final_norm")
    assert sums == {f"{norm}.sums" for norm in norms} | {f"{norm}.backward.sums" for norm in norms}
    values = {value.name: value for value in work.values.values() if value.where_cut == "h"}
    assert set(values) == {f"{grad}{norm}.moments" for grad in ("", "d.") for norm in norms}
    assert {(value.shape, value.dtype) for value in values.values()} == {((2, 24, 2), "fp32")}


@every_shape
def test_sums_of_the_loss_are_there_only_where_the_vocabulary_is_cut(shape: GptShape) -> None:
    work = work_of(shape)
    assert [op.name for op in work.head.backward if op.where_cut == "v"] == ["loss.max", "loss.sums"]
    values = {value.name: value.shape for value in work.values.values() if value.where_cut == "v"}
    assert values == {"loss.top": (2, 24), "loss.terms": (2, 24, 2)}


@every_shape
def test_traits_tell_blocks_of_the_same_sizes_apart(shape: GptShape) -> None:
    traits = work_of(shape).traits
    assert (traits["residual"], traits["tied"]) == (shape.residual, int(shape.tied))
