"""Every way to form the loss over cut classes, and every kernel of a softmax, trained for real like the unsharded
model; by explicit transfers too, and replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest

from simfrontier.core.program.ir import Compute
from simfrontier.core.workload import CrossEntropy, Softmax
from tests.real.grids import Grid, axonn, megatron
from tests.real.together import agrees

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
