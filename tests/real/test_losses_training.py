"""Every way to form the loss over cut classes, and every kernel of a softmax, trained for real like the unsharded
model; by explicit transfers too, and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from simfrontier.core.program import digest, save
from simfrontier.core.program.ir import Compute
from simfrontier.core.workload import CrossEntropy, Softmax
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.verify.verdict import scheduled_bytes
from tests.real.grids import Grid, axonn, megatron
from tests.real.ranks import trained
from tests.real.schedules import training
from tests.real.test_grid_training import agrees
from tests.real.together import Training, bytes_sent, replaying

WAYS = get_args(CrossEntropy)
KERNELS = get_args(Softmax)
every_way = pytest.mark.parametrize("way", WAYS)
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
LIMIT_S = 400.0  # of a whole launch, on a box that is busy with other tests


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
    agrees(make(*sizes, cross_entropy=way, **keys))


@every_way
def test_bytes_of_training_and_replay_are_those_of_the_schedule(way: str) -> None:
    made = megatron(2, 2, 2, cross_entropy=way, shape="tied").schedule
    programs = programs_of(made)
    expected = [scheduled_bytes(made, programs.of(rank)) for rank in range(made.mesh.num_ranks)]
    trained_ranks = Training(made, training(1))
    trained_ranks.train_step(0)
    assert bytes_sent(trained_ranks) == expected
    replayed = replaying(made, "real")
    replayed.run_step()
    assert bytes_sent(replayed) == expected


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
    agrees(named)


def test_real_ranks_train_every_way_and_kernel(tmp_path: Path) -> None:
    """Two processes over gloo, with torch's arrays; the four ways, and a kernel."""
    grids = [megatron(2, cross_entropy=way) for way in WAYS]
    grids += [axonn(1, 2, 1, cross_entropy="mn-merge", precision="fp32"), replace(megatron(1, 2), softmax="two-pass")]
    files = []
    for number, grid in enumerate(grids):
        files.append(str(tmp_path / f"schedule-{number:02}.json"))
        save(grid.schedule, Path(files[-1]))
    report = tmp_path / "trained.json"
    trained(["train", *files, "--steps", "2", "--json", str(report)], 2, LIMIT_S)
    for grid, result in zip(grids, json.loads(report.read_text(encoding="utf-8")), strict=True):
        limit = {"fp64": 1e-10, "fp32": 1e-5}[grid.precision]
        assert result["must_agree"] and result["is_good"], (str(grid), result)
        assert max(result["weights_error"], result["loss_error"]) <= limit, str(grid)
        assert result["message_bytes"] == result["scheduled_bytes"] > 0, str(grid)
    assert len({digest(grid.schedule) for grid in grids}) == len(grids)
