"""Options of tensor grids and pipelines by themselves: every one does something, and some cannot be together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.errors import InputError
from simfrontier.plan.grid import nearest_divisors
from simfrontier.plan.tensor import AxonnOptions, MegatronOptions, TensorOptions
from simfrontier.plan.zero import BucketOptions
from simfrontier.schedule.store import to_json
from tests.plan.grids import axonn, megatron, other, schedule_of

# options of a scenario's case, or refused there
ELSEWHERE = {"family", "gradient_codec", "micro_batch", "grad_accum", "checkpointing", "attention", "softmax"}
ZERO1 = BucketOptions(family="zero1")

# option: (a value that is not its default, what else has to be set so that it matters)
BOTH: dict[str, tuple[Any, dict[str, Any]]] = {
    "pipeline": (2, {}),
    "order": ("gpipe", {"pipeline": 2}),
    "chunks": (4, {"order": "interleaved", "pipeline": 2, "chunks": 2}),
    "overlap_exchange": (True, {"pipeline": 2}),
    "data": (ZERO1, {}),
}
AXONN = BOTH | {
    "x": (2, {}),
    "y": (2, {}),
    "z": (2, {}),
    "cross_entropy": ("mn-merge", {"y": 2}),
    "oar": (False, {"y": 2}),
    "ors": (False, {"z": 2}),
    "oag": (False, {"z": 2}),
    "gather_again": (True, {"z": 2}),
}
MEGATRON = BOTH | {
    "tensor": (2, {}),
    "cross_entropy": ("mn-merge", {"tensor": 2}),
    "sequence_parallel": (True, {"tensor": 2}),
    "overlap_input_gradients": (False, {"tensor": 2}),
    "overlap_gradients": (True, {}),
    "product_pieces": (2, {"tensor": 2, "sequence_parallel": True}),
    "batch_first": (True, {"tensor": 2, "sequence_parallel": True}),
    "gather_inputs_again": (False, {"tensor": 2, "sequence_parallel": True}),
    "compression": ("naive-zfp:8", {"tensor": 2, "compress_from": 0}),
    "compress_from": (0, {"tensor": 2, "compression": "naive-zfp:8"}),
    "compress_per_hop": (True, {"tensor": 2, "compression": "naive-zfp:8", "compress_from": 0}),
    "message_dtype": ("fp32", {"tensor": 2, "compress_from": 0}),
}
Make = Callable[..., TensorOptions]


@pytest.mark.parametrize(
    ("make", "option", "value", "base"),
    [(make, key, *case) for make, cases in ((axonn, AXONN), (megatron, MEGATRON)) for key, case in cases.items()],
)
def test_every_option_changes_the_schedule(make: Make, option: str, value: Any, base: dict[str, Any]) -> None:
    shape = other(num_layers=8)
    before, after = (schedule_of(make(**keys), 16, shape=shape, micros=2) for keys in (base, base | {option: value}))
    assert to_json(before) != to_json(after)


@pytest.mark.parametrize(("form", "cases"), [(AxonnOptions, AXONN), (MegatronOptions, MEGATRON)])
def test_no_option_is_left_out_of_these_tests(form: type[TensorOptions], cases: dict[str, Any]) -> None:
    assert set(cases) | ELSEWHERE == set(form.model_fields)


@given(number=st.integers(1, 3000), wanted=st.integers(1, 3000))
def test_nearest_divisors_are_those_on_either_side(number: int, wanted: int) -> None:
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    below, above = [d for d in divisors if d < wanted], [d for d in divisors if d > wanted]
    assert nearest_divisors(number, wanted) == below[-1:] + above[:1]


@pytest.mark.parametrize("count", [2, 4, 6])
def test_interleaved_takes_multiples_of_the_stages(count: int) -> None:
    megatron(1, 2, order="interleaved", chunks=2).refuse_micro_batches(count)


@pytest.mark.parametrize(("count", "nearest"), [(1, "2"), (3, "2 and 4"), (7, "6 and 8")])
def test_interleaved_refuses_others_with_the_nearest(count: int, nearest: str) -> None:
    with pytest.raises(InputError, match=rf"pipeline = 2, got {count}; nearest: {nearest}$"):
        megatron(1, 2, order="interleaved", chunks=2).refuse_micro_batches(count)


@pytest.mark.parametrize("make", [axonn, lambda n: axonn(1, n), lambda n: axonn(1, 1, n)], ids=["x", "y", "z"])
def test_every_axis_of_the_grid_counts_in_the_mesh(make: Callable[[int], AxonnOptions]) -> None:
    assert make(4).mesh(16, 1, 1).num_ranks == 16
    assert make(4).batch_ranks(make(4).mesh(16, 1, 1)) == (16 if make(4).z == 4 else 4)
