"""The graphs of all models: every op's operands are there and fit, whatever the model and its precision."""

import math
from collections import Counter

import pytest

from simfrontier.schedule import is_product
from simfrontier.workload import GptShape, MlpShape, Value, Weight, Workload, WorkOp, gpt, mlp
from tests.some import some

GPT = GptShape(name="gpt", num_layers=3, hidden=96, heads=4, vocabulary=160, sequence=24, source="for this test")
MLP = MlpShape(name="mlp", num_layers=3, inputs=40, hidden=96, classes=24, source="for this test")
NUM_MATMULS = {True: 6 + 12 + 3, False: 2 + 4 + 2 + 3}  # GPT or MLP: a layer's forward and backward, ends
WORKLOADS = {
    f"{name} {precision} checkpointing {checkpointing}": work
    for precision in ("fp16", "fp32", "fp64")
    for checkpointing in ("full", "none")
    for name, work in (
        ("gpt", gpt(GPT, 2, checkpointing, precision=precision)),
        ("mlp", mlp(MLP, 2, checkpointing, precision=precision)),
    )
}
EVERY = pytest.mark.parametrize("work", WORKLOADS.values(), ids=WORKLOADS)
Instance = tuple[str, int]


def in_order(work: Workload) -> list[tuple[WorkOp, int]]:
    """Every op of one micro-batch with its layer, recomputation left out (it repeats the forward), and of the loss all
    but the way of whole rows."""
    layers = range(work.num_layers)
    out = [(op, 0) for op in work.embedding.forward]
    out += [(op, layer) for layer in layers for op in work.layer.forward]
    head = [op for op in (*work.head.forward, *work.head.backward) if not op.loss_methods or "whole" in op.loss_methods]
    out += [(op, work.num_layers) for op in head]
    out += [(op, layer) for layer in reversed(layers) for op in work.layer.backward]
    return [*out, *((op, 0) for op in work.embedding.backward)]


def instances(work: Workload, uses: tuple[tuple[str, int], ...], layer: int) -> list[Instance]:
    return [(name, layer + shift if work.values[name].per_layer else 0) for name, shift in uses]


@EVERY
def test_every_value_is_written_once_before_it_is_read(work: Workload) -> None:
    written: set[Instance] = {(value.name, 0) for value in work.values.values() if value.persistent}
    assert len(written) == 1  # the data
    for op, layer in in_order(work):
        for value in instances(work, op.reads, layer):
            assert value in written, (op.name, layer, value)
        for value in instances(work, op.writes, layer):
            assert value not in written, (op.name, layer, value)
            written.add(value)


@EVERY
def test_every_value_is_read(work: Workload) -> None:
    read = {name for op, _ in in_order(work) for name, _ in op.reads}
    assert read == {name for name, value in work.values.items() if not value.loss_methods}


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
    return [op for phase in (work.embedding, work.layer, work.head) for op in (*phase.forward, *phase.backward)]


@EVERY
def test_labels_name_the_dimensions_of_every_tensor(work: Workload) -> None:
    tensors: list[Value | Weight] = [*work.values.values(), *work.weights.values()]
    for each in some(tensors):
        assert len(each.dims) == len(each.shape), each.name
        assert len(set(each.dims)) == len(each.dims), each.name


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


@EVERY
def test_no_op_iterates_over_a_label_without_a_size(work: Workload) -> None:
    for op in some(all_ops(work)):
        assert all(size > 0 for _, size in op.iteration), op.name


@EVERY
def test_modules_own_their_weights(work: Workload) -> None:
    for weight in some(work.weights.values()):
        assert weight.name.rpartition(".")[0] == weight.module
