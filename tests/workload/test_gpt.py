"""The GPT graph: its floating-point operations, and that every op's operands are there and fit."""

import math
from collections import Counter
from fractions import Fraction

import pytest

from simfrontier.errors import InputError
from simfrontier.workload import MODELS, GptShape, Value, Weight, Workload, WorkOp, find_model, gpt, neox_flops

NEOX, TINY = find_model("gpt-neox-20b"), find_model("tiny")
SIMPLE = GptShape(name="simple", num_layers=3, hidden=96, heads=4, vocabulary=160, sequence=24, source="for this test")


def exact_neox_flops(shape: GptShape, samples: int, sequence: int, factor: int) -> Fraction:
    """24 f B s L h² (1 + s/(6h) + V/(16 L h)), in fractions."""
    h, layers = shape.hidden, shape.num_layers
    base = 24 * factor * samples * sequence * layers * h * h
    return base * (1 + Fraction(sequence, 6 * h) + Fraction(shape.vocabulary, 16 * layers * h))


@pytest.mark.parametrize("name", MODELS)
def test_matmuls_with_checkpointing_are_the_metric_with_factor_four(name: str) -> None:
    """To the last operation: the head, never recomputed, takes 6 B s V h, and that is what V/(16 L h) is with f = 4."""
    shape = MODELS[name]
    work = gpt(shape, 3, checkpointing=True)
    assert work.matmul_flops == exact_neox_flops(shape, 3, shape.sequence, 4)
    assert neox_flops(shape, 3, shape.sequence, 4) == pytest.approx(work.matmul_flops, rel=1e-14)


@pytest.mark.parametrize("name", MODELS)
def test_without_checkpointing_the_metric_leaves_out_a_quarter_of_the_head(name: str) -> None:
    """With f = 3 the formula charges the head 4.5 B s V h instead of 6: 1.5 B s V h are missing."""
    shape = MODELS[name]
    work = gpt(shape, 3, checkpointing=False)
    missing = Fraction(3, 2) * 3 * shape.sequence * shape.vocabulary * shape.hidden
    assert work.matmul_flops - exact_neox_flops(shape, 3, shape.sequence, 3) == missing


def test_that_quarter_is_small_for_the_20b_model() -> None:
    total = gpt(NEOX, 1, checkpointing=False).matmul_flops
    assert f"{100 * (1 - neox_flops(NEOX, 1, 2048, 3) / total):.2f} %" == "0.36 %"


def test_flops_per_sequence_of_the_20b_model() -> None:
    assert f"{neox_flops(NEOX, 1, 2048, 4) / 1e12:.1f}" == "348.5"
    assert f"{neox_flops(NEOX, 1, 2048, 3) / 1e12:.1f}" == "261.4"


def test_another_sequence_length_than_the_catalog_s() -> None:
    work = gpt(SIMPLE, 2, checkpointing=True, sequence=60)
    assert work.sequence == 60
    assert work.matmul_flops == exact_neox_flops(SIMPLE, 2, 60, 4)


def test_matmul_flops_per_layer_by_hand() -> None:
    """2 m n k each, m = b s: qkv 3h², dense h², MLP 8h², scores and context 2 s h each; backward twice the forward."""
    work = gpt(SIMPLE, 2, checkpointing=False)
    m, h, s = 2 * 24, 96, 24
    forward = sum(op.flops for op in work.layer.forward)
    assert forward == 2 * m * 12 * h * h + 2 * 2 * m * s * h
    assert sum(op.flops for op in work.layer.backward) == 2 * forward


# ── consistency ──

MODES = pytest.mark.parametrize("checkpointing", [True, False], ids=["checkpointing", "plain"])
Instance = tuple[str, int]


def in_order(work: Workload) -> list[tuple[WorkOp, int]]:
    """Every op of one micro-batch with its layer, recomputation left out (it repeats the forward)."""
    layers = range(work.num_layers)
    out = [(op, 0) for op in work.embedding.forward]
    out += [(op, layer) for layer in layers for op in work.layer.forward]
    out += [(op, work.num_layers) for op in (*work.head.forward, *work.head.backward)]
    out += [(op, layer) for layer in reversed(layers) for op in work.layer.backward]
    return [*out, *((op, 0) for op in work.embedding.backward)]


def instances(work: Workload, uses: tuple[tuple[str, int], ...], layer: int) -> list[Instance]:
    return [(name, layer + shift if work.values[name].per_layer else 0) for name, shift in uses]


@MODES
def test_every_value_is_written_once_before_it_is_read(checkpointing: bool) -> None:
    work = gpt(SIMPLE, 2, checkpointing)
    written: set[Instance] = {("tokens", 0)}
    for op, layer in in_order(work):
        for value in instances(work, op.reads, layer):
            assert value in written, (op.name, layer, value)
        for value in instances(work, op.writes, layer):
            assert value not in written, (op.name, layer, value)
            written.add(value)


@MODES
def test_every_value_is_read(checkpointing: bool) -> None:
    work = gpt(SIMPLE, 2, checkpointing)
    read = {name for op, _ in in_order(work) for name, _ in op.reads}
    assert read == set(work.values)


@MODES
def test_every_weight_is_read_and_has_one_gradient_per_layer(checkpointing: bool) -> None:
    work = gpt(SIMPLE, 2, checkpointing)
    gradients = Counter((name, layer) for op, layer in in_order(work) for name in op.gradients)
    expected = {
        (name, layer)
        for name, weight in work.weights.items()
        for layer in (range(work.num_layers) if weight.per_layer else (work.num_layers,))
    }
    expected = (expected - {("embedding.weight", work.num_layers)}) | {("embedding.weight", 0)}
    assert gradients == Counter(expected)
    assert {name for op, _ in in_order(work) for name in op.weights} == set(work.weights)


def test_a_gradient_comes_after_the_last_use_of_its_weight_in_the_backward() -> None:
    work = gpt(SIMPLE, 2, checkpointing=True)
    order = [(op, layer) for op, layer in in_order(work)]
    last_read = {(name, layer): i for i, (op, layer) in enumerate(order) for name in op.weights}
    for i, (op, layer) in enumerate(order):
        for name in op.gradients:
            assert i >= last_read[name, layer], (op.name, name)


def operands(work: Workload, op: WorkOp) -> list[Value | Weight]:
    values: list[Value | Weight] = [work.values[name] for name, _ in (*op.reads, *op.writes)]
    return [*values, *(work.weights[name] for name in (*op.weights, *op.gradients))]


def all_ops(work: Workload) -> list[WorkOp]:
    return [op for phase in (work.embedding, work.layer, work.head) for op in (*phase.forward, *phase.backward)]


def test_labels_name_the_dimensions_of_every_tensor() -> None:
    work = gpt(SIMPLE, 2, checkpointing=True)
    tensors: list[Value | Weight] = [*work.values.values(), *work.weights.values()]
    for each in tensors:
        assert len(each.dims) == len(each.shape), each.name
        assert len(set(each.dims)) == len(each.dims), each.name


def test_labels_and_shapes_agree_with_every_op() -> None:
    """A label means one size in an op, except a: heads in the ops of attention, features of heads in their operands."""
    work = gpt(SIMPLE, 2, checkpointing=True)
    for op in all_ops(work):
        sizes = dict(op.iteration)
        for tensor in operands(work, op):
            for label, size in zip(tensor.dims, tensor.shape, strict=True):
                if label in sizes and label != "a":
                    assert sizes[label] == size, (op.name, tensor.name, label)
                elif label == "a":
                    assert size % SIMPLE.heads == 0, (op.name, tensor.name)


def test_attention_splits_by_whole_heads_only() -> None:
    """Where a is iterated over, it counts heads, or the features of whole heads."""
    work = gpt(SIMPLE, 2, checkpointing=True)
    for op in all_ops(work):
        if "a" in dict(op.iteration):
            assert dict(op.iteration)["a"] % SIMPLE.heads == 0, op.name


def test_matmuls_say_which_labels_they_multiply() -> None:
    """Batch, m, n and k are disjoint and are all labels of the op; 2 · batch · m · n · k operations."""
    work = gpt(SIMPLE, 2, checkpointing=True)
    matmuls = [op for op in all_ops(work) if op.kind == "matmul"]
    assert len(matmuls) == 6 + 12 + 3
    for op in all_ops(work):
        assert (op.matmul is not None) == (op.kind == "matmul") == (op.flops > 0), op.name
        if op.matmul is not None:
            labels = [label for group in op.matmul for label in group]
            assert sorted(labels) == sorted(dict(op.iteration)), op.name
            assert op.flops == 2 * math.prod(size for _, size in op.iteration), op.name


def test_no_op_iterates_over_a_label_without_a_size() -> None:
    for op in all_ops(gpt(SIMPLE, 2, checkpointing=True)):
        assert all(size > 0 for _, size in op.iteration), op.name


def test_modules_own_their_weights() -> None:
    work = gpt(TINY, 1, checkpointing=False)
    for weight in work.weights.values():
        assert weight.name.rpartition(".")[0] == weight.module


@pytest.mark.parametrize(("key", "batch", "sequence"), [("batch", 0, 8), ("sequence", 1, 0), ("sequence", 1, -2)])
def test_batch_and_sequence_are_at_least_one(key: str, batch: int, sequence: int) -> None:
    got = {"batch": batch, "sequence": sequence}[key]
    with pytest.raises(InputError, match=rf"^model tiny: {key} = {got}; allowed: 1 or more$"):
        gpt(TINY, batch, checkpointing=True, sequence=sequence)
