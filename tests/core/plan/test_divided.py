"""Backwards that are divided into gradients of inputs and of weights: ops of both parts, reductions, and memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simfrontier.core.program import Call, Compute, Op, Role, Schedule, expand, peak_bytes
from tests.core.plan.grids import megatron, other, schedule_of

PRODUCTS = ("qkv", "dense", "h_to_4h", "4h_to_h")


def divided(order: str, **keys: object) -> Schedule:
    """Two stages with two layers each, tied."""
    options = megatron(2, 2, order=order, chunks=1 if order in ("1f1b", "zb-h1") else 2, **keys)
    return schedule_of(options, 8, shape=other(num_layers=4, tied=True), micros=4, checkpointing="full")


def instances(role: Role, label: str) -> Iterator[tuple[Call, Op]]:
    return ((call, op) for call, op in role.instances() if call.label == label)


@pytest.mark.parametrize("order", ["zb-h1", "zb-v"])
def test_products_of_weights_follow_and_all_else_stays_with_the_inputs(order: str) -> None:
    """Norms, the embedding and what is computed again are in the first part; the second one fetches no weights."""
    made = divided(order, data="zero3", sequence_parallel=True)
    for role in made.roles:
        later = [(call, op) for call, op in instances(role, "weight_gradients") if isinstance(op, Compute)]
        products = [op.named.module for call, op in later if op.named.part and call.layer < 4]
        assert sorted(products) == sorted(PRODUCTS * 8)  # four micro-batches of two layers
        assert not [op for _, op in later if any(".full" in ref.name for ref in op.reads)]
        first = [op for label in ("backward", "embedding.backward") for _, op in instances(role, label)]
        assert not [op for op in first if isinstance(op, Compute) and op.named.part == "wgrad" and op.matmul]
        assert {op.kind for op in first} >= {"norm", "gelu", "matmul"}


@pytest.mark.parametrize("order", ["zb-h1", "zb-v", "dualpipev"])
def test_a_gradient_is_reduced_after_its_last_product(order: str) -> None:
    """Reductions of a layer's gradients overlap with the last micro-batch; a table that both ends of a V use is reduced
    once, at the end of the step."""
    made = divided(order, data="zero1", overlap_gradients=True)
    for role in made.roles:
        program = expand(made, role)
        last = {ref: at for at, refs in enumerate(program.accumulates) for ref in refs}
        moved = [at for at, op in enumerate(program.ops) if op.name == "step_reduction"]
        reduced = [(ref, at) for at in moved for ref in program.reads[at] if ref.name.endswith(".grad")]
        assert reduced and all(last[ref] < at for ref, at in reduced)
        of_table = [at for ref, at in reduced if ref.name == "embedding.weight.grad"]
        if order != "zb-h1" and role is made.roles[0]:
            assert {program.calls[at].label for at in of_table} == {"reduce.embedding"}


def activations(order: str, chunks: int = 1) -> list[int]:
    """Peak of each of four stages without what lives all the time: mostly activations of the sixteen micro-batches."""
    options = megatron(1, 4, order=order, chunks=chunks, overlap_exchange=True)
    shape = other(num_layers=8, sequence=192)
    made = schedule_of(options, 4, shape=shape, micros=16, micro_batch=2, checkpointing="none")
    peaks = [peak_bytes(made, role) for role in made.roles]
    return [peak.num_bytes - peak.persistent_bytes for peak in peaks]


def test_memory_of_the_orders_follows_from_lifetimes() -> None:
    """1F1B keeps four micro-batches on the first stage and one on the last, GPipe sixteen everywhere. ZB-H1 keeps no
    more than 1F1B's first stage, ZB-V as many on every stage, and DualPipeV a ninth chunk beside their eight."""
    one, gpipe, first, v, dual = map(activations, ("1f1b", "gpipe", "zb-h1", "zb-v", "dualpipev"), (1, 1, 1, 2, 2))
    micro = one[0] - one[1]
    assert [round((each - one[3]) / micro, 1) for each in one] == [3, 2, 1, 0]
    assert [round((each - gpipe[0]) / micro, 1) for each in gpipe[:3]] == [0, 0, 0]
    assert round((gpipe[0] - one[0]) / micro, 1) == 12
    assert max(first) == first[0] and first[0] == pytest.approx(one[0], rel=0.02)
    assert v == pytest.approx([one[0]] * 4, rel=0.02)
    assert dual == pytest.approx([one[0] + micro / 2] * 4, rel=0.02)
