"""Every way to form the loss over cut classes, and every kernel of a softmax, trained for real like the unsharded
model; finite whatever the logits are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Compute, Schedule
from simfrontier.core.workload import CrossEntropy, Softmax
from simfrontier_real.train import reference, train
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.states import Weights
from tests.real.grids import Grid, axonn, megatron
from tests.real.schedules import distance, loss_distance, training
from tests.real.together import EQUAL, agrees

WAYS = get_args(CrossEntropy)
KERNELS = get_args(Softmax)
EVERYWHERE = [
    (megatron, (2,), {}),
    (megatron, (4, 2), {"shape": "tied", "sequence_parallel": True}),
    (megatron, (2, 2, 2), {"data": "zero3"}),
    (megatron, (2,), {"shape": "mlp"}),
    (megatron, (2,), {"precision": "fp32"}),
    (axonn, (2, 2, 1), {}),
    (axonn, (1, 2, 2), {"pipeline": 2, "data": "zero1"}),
    (axonn, (2, 4, 1), {"shape": "mlp"}),
]


def every_other(first: Sequence[Any], second: Sequence[Any]) -> Iterator[Any]:
    """All pairs, of which half are long: each with every other one, and the first of `first` with all."""
    for (one, mine), (other, its) in product(enumerate(first), enumerate(second)):
        marks = [pytest.mark.long] * (one > 0 and (one + other) % 2)
        yield pytest.param(*mine, its, marks=marks)


@pytest.mark.parametrize(
    ("make", "sizes", "keys", "way"),
    list(every_other(EVERYWHERE, WAYS)),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_every_way_trains_like_the_unsharded_model(make: Any, sizes: tuple[int, ...], keys: Any, way: str) -> None:
    agrees(make(*sizes, cross_entropy=way, **keys).schedule)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("grid", [axonn(2, 1, 2), megatron(1, 2), megatron(2), megatron(1, 1, 2, shape="mlp")], ids=str)
def test_every_kernel_trains_like_the_unsharded_model(grid: Grid, kernel: Softmax) -> None:
    """Where classes are whole, the loss takes the kernel too."""
    named = replace(grid, softmax=kernel)
    wanted = "" if kernel == "fused" else kernel
    ops = [op for role in named.schedule.roles for _, op in role.instances() if isinstance(op, Compute)]
    assert {op.kernel for op in ops if op.name == "softmax"} <= {wanted}
    whole = not any(op.kind == "loss_max" for op in ops)
    assert {op.kernel for op in ops if op.name == "loss"} == {wanted if whole else ""}
    agrees(named.schedule)


# ── finite whatever the logits are ──


def raise_logits(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks and the unsharded model begin with a head whose weights are so many times as large."""

    def high(schedule: Schedule, seed: int) -> Weights:
        weights = initial_weights(schedule, seed)
        return {key: factor * values if key[0] == "head.weight" else values for key, values in weights.items()}

    for module in (train, reference):
        monkeypatch.setattr(module, "initial_weights", high)


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("tensor", [1, 4])
@pytest.mark.parametrize("way", WAYS)
def test_logits_of_tens_of_thousands_give_the_loss_of_all_classes(
    way: CrossEntropy, tensor: int, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exponentials of anything but differences to the largest would overflow, unless their powers of two are kept
    apart."""
    raise_logits(3e4, monkeypatch)
    made = megatron(tensor, cross_entropy=way, precision=precision).schedule
    ours = train.train_in_one_process(made, training(1))
    theirs = reference.train_unsharded(made, training(1), precision)
    assert ours.losses[0] > 1e4
    assert loss_distance(ours.losses, theirs.losses) <= EQUAL[precision]
    assert distance(ours.weights, theirs.weights) <= 10 * EQUAL[precision]


def test_exponents_that_float32_does_not_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^24 ln 2 = 1.16e7: beyond it not every whole number is a float32."""
    raise_logits(1e9, monkeypatch)
    with pytest.raises(SimfrontierError, match=r"loss.pairs: a logit of .* makes an exponent that float32 does not"):
        train.train_in_one_process(megatron(2, cross_entropy="mn-merge", precision="fp32").schedule, training(1))
    other = megatron(2, cross_entropy="one-gather", precision="fp32").schedule
    assert math.isfinite(train.train_in_one_process(other, training(1)).losses[0])
