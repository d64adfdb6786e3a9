"""Megatron-LM's tensor parallelism: what a layer communicates over `tensor`, counted from the schedule
(arXiv 1909.08053 section 3: two all-reduces forward, two backward; arXiv 2205.05198 section 4.2: with sequence
parallelism all-gathers and reduce-scatters in their place)."""

from __future__ import annotations

from collections import Counter

import pytest

from simfrontier.core.program import Schedule
from tests.core.plan.grids import NO_LAYER, SHAPE, Moved, megatron, moved, other, schedule_of

SEQUENCES, BF16 = 3, 2
ROWS = SEQUENCES * SHAPE.sequence
WHOLE = ROWS * SHAPE.hidden  # b s h of one rank of the batch
SIZES = (2, 3, 4, 8, 24)
every_size = pytest.mark.parametrize("size", SIZES)


def schedule(size: int, residual: str = "sequential", *, sequence_parallel: bool = False, data: int = 2) -> Schedule:
    options = megatron(size, sequence_parallel=sequence_parallel)
    return schedule_of(options, size * data, shape=other(residual=residual), micro_batch=SEQUENCES)


def over_tensor(made: Schedule, layer: int) -> Counter[Moved]:
    return Counter({row: count for row, count in moved(made, layer).items() if row.axes == "tensor"})


def rows(*each: tuple[str, str, str]) -> Counter[Moved]:
    return Counter(Moved(when, tensor, kind, "tensor", WHOLE, WHOLE * BF16) for when, tensor, kind in each)


@every_size
def test_a_layer_sums_twice_forward_twice_recomputed_and_twice_backward(size: int) -> None:
    assert over_tensor(schedule(size), 1) == rows(
        ("forward", "attention.out", "all_reduce"),
        ("forward", "mlp.out", "all_reduce"),
        ("recompute", "attention.out", "all_reduce"),
        ("recompute", "mlp.out", "all_reduce"),
        ("backward", "d.ln2", "all_reduce"),
        ("backward", "d.ln1", "all_reduce"),
    )


@every_size
def test_sequence_parallelism_gathers_and_scatters_in_place_of_sums(size: int) -> None:
    """And gathers the two column-parallel inputs again for the weights' gradients, which keep only their own part
    (arXiv 2205.05198, end of section 4.2.2)."""
    columns, outputs = ("ln1.out", "ln2.out"), ("attention.out", "mlp.out")
    norms = [
        Moved("step", f"{norm}.{part}", "all_reduce", "tensor", SHAPE.hidden, SHAPE.hidden * BF16)
        for norm in ("ln1", "ln2")
        for part in ("weight", "bias")
    ]
    assert over_tensor(schedule(size, sequence_parallel=True), 1) == Counter(norms) + rows(
        *((when, name, "all_gather") for when in ("forward", "recompute", "backward") for name in columns),
        *((when, name, "reduce_scatter") for when in ("forward", "recompute") for name in outputs),
        *(("backward", name, "all_gather") for name in ("d.x", "d.middle")),
        *(("backward", name, "reduce_scatter") for name in ("d.ln1", "d.ln2")),
    )


@every_size
def test_embedding_head_and_loss_are_cut_along_the_vocabulary(size: int) -> None:
    """Ends of the model: the embedding sums over `tensor`, so do the loss and the gradient of the head's input."""
    made = schedule(size)
    got = over_tensor(made, NO_LAYER)
    wide = 4
    assert got == rows(("backward", "d.final_norm", "all_reduce")) + Counter(
        [
            Moved("forward", "loss.top", "all_reduce", "tensor", ROWS, ROWS * wide),
            Moved("forward", "loss.terms", "all_reduce", "tensor", 2 * ROWS, 2 * ROWS * wide),
            Moved("forward", "overflow", "all_reduce", "tensor", 1, wide),
            Moved("forward", "gradient_norm", "all_reduce", "tensor", 1, wide),
        ]
    )
    assert over_tensor(made, 0)[Moved("forward", "x", "all_reduce", "tensor", WHOLE, WHOLE * BF16)] == 1
    held = made.tensors["logits"].local_elements(made.mesh)
    assert held == ROWS * SHAPE.vocabulary // size
