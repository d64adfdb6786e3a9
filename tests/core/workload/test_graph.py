"""Graphs of all models: operands exist and fit, and every weight has one gradient per layer."""

import math
from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest

from simfrontier.core.program import is_product
from simfrontier.core.workload import (
    CrossEntropy,
    GptShape,
    LossMethod,
    MlpShape,
    Value,
    Weight,
    Workload,
    WorkOp,
    gpt,
    mlp,
)
from tests.some import some

GPT = GptShape(name="gpt", num_layers=3, hidden=96, heads=4, vocabulary=160, sequence=24, source="for this test")
MLP = MlpShape(name="mlp", num_layers=3, inputs=40, hidden=96, classes=24, source="for this test")
NUM_MATMULS = {True: 6 + 12 + 3, False: 2 + 4 + 2 + 3}  # GPT or MLP: a layer's forward and backward, ends
WORKLOADS = {
    "gpt": gpt(GPT, 2, "full"),
    "gpt one after the other, fp64": gpt(replace(GPT, residual="sequential"), 2, "full", precision="fp64"),
    "mlp": mlp(MLP, 2, "full"),
    "mlp fp32": mlp(MLP, 2, "none", precision="fp32"),
}
EVERY = pytest.mark.parametrize("work", WORKLOADS.values(), ids=WORKLOADS)


def in_order(work: Workload, way: LossMethod = "whole") -> list[tuple[WorkOp, int]]:
    """Every op of one micro-batch with its layer, recomputation left out (it repeats the forward), with one of the ways
    to form the loss."""
    layers = range(work.num_layers)
    out = [(op, 0) for op in work.embedding.forward]
    out += [(op, layer) for layer in layers for op in work.layers[0].forward]
    out += [(op, work.num_layers) for op in (*work.head.forward, *work.head.backward)]
    out += [(op, layer) for layer in reversed(layers) for op in work.layers[0].backward]
    out += [(op, 0) for op in work.embedding.backward]
    return [(op, layer) for op, layer in out if not op.loss_methods or way in op.loss_methods]


@EVERY
@pytest.mark.parametrize("way", [*get_args(CrossEntropy), "whole"])
def test_every_value_is_written_once_before_it_is_read_and_read_somewhere(work: Workload, way: LossMethod) -> None:
    written = {(value.name, 0) for value in work.values.values() if value.persistent}
    assert len(written) == 1  # the data
    read: set[str] = set()
    for op, layer in in_order(work, way):
        for name, shift in op.reads:
            assert (name, layer + shift if work.values[name].per_layer else 0) in written, (op.name, name)
            read.add(name)
        for name, shift in op.writes:
            value = (name, layer + shift if work.values[name].per_layer else 0)
            assert value not in written, (op.name, value)
            written.add(value)
    assert read == {name for name, each in work.values.items() if not each.loss_methods or way in each.loss_methods}


@EVERY
def test_every_weight_is_read_and_has_one_gradient_per_layer(work: Workload) -> None:
    gradients = Counter((name, layer) for op, layer in in_order(work) for name in op.gradients)
    expected = {
        (name, layer)
        for name, weight in work.weights.items()
        for layer in (range(work.num_layers) if weight.per_layer else (work.num_layers,))
    }
    first = {name for name, weight in work.weights.items() if weight.module == "embedding"}
    expected = {(name, 0 if name in first else layer) for name, layer in expected}
    assert gradients == Counter(expected)
    assert {name for op, _ in in_order(work) for name in op.weights} == set(work.weights)


@EVERY
def test_a_gradient_comes_after_the_last_use_of_its_weight_in_the_backward(work: Workload) -> None:
    order = some(in_order(work))
    last_read = {(name, layer): i for i, (op, layer) in enumerate(order) for name in op.weights}
    for i, (op, layer) in enumerate(order):
        for name in op.gradients:
            assert i >= last_read[name, layer], (op.name, name)


def operands(work: Workload, op: WorkOp) -> list[Value | Weight]:
    values: list[Value | Weight] = [work.values[name] for name, _ in (*op.reads, *op.writes)]
    return [*values, *(work.weights[name] for name in (*op.weights, *op.gradients))]


def all_ops(work: Workload) -> list[WorkOp]:
    return [op for phase in (work.embedding, *work.kinds, work.head) for op in (*phase.forward, *phase.backward)]


@EVERY
def test_labels_and_shapes_agree_with_every_op(work: Workload) -> None:
    """A label means one size in an op, except a: heads in the ops of attention, features of heads in their operands."""
    for op in some(all_ops(work)):
        sizes = dict(op.iteration)
        for tensor in operands(work, op):
            for label, size in zip(tensor.dims, tensor.shape, strict=True):
                if label in sizes and label != "a":
                    assert sizes[label] == size, (op.name, tensor.name, label)
                elif label == "a":
                    assert size % GPT.heads == 0, (op.name, tensor.name)


@EVERY
def test_matmuls_say_which_labels_they_multiply(work: Workload) -> None:
    """Batch, m, n and k are disjoint and are all labels of the op; 2 · batch · m · n · k operations."""
    matmuls = [op for op in all_ops(work) if op.matmul is not None]
    assert len(matmuls) == NUM_MATMULS["tokens" in work.values]
    for op in all_ops(work):
        assert (op.matmul is not None) == is_product(op.kind) == (op.flops > 0), op.name
        if op.matmul is not None:
            labels = [label for group in op.matmul for label in group]
            assert sorted(labels) == sorted(dict(op.iteration)), op.name
            assert op.flops == 2 * math.prod(size for _, size in op.iteration), op.name
