"""Checkpoint and restart, in one process: every family on the same plan bit for bit, and across plans and ranks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from simfrontier.core.program import REPLICATE, Mesh, Schedule, Tensor
from simfrontier_real.train.checkpoints.states import ChunkReader, part
from tests.real.checkpointed import STEPS, Run, far, same_batch
from tests.real.grids import axonn, megatron
from tests.real.lowerings import lowered_of
from tests.real.schedules import EXACT, QUANTISED, STALE, Sizes, schedule

PLANS = {**EXACT, **QUANTISED, "stale": STALE}
USUAL = {"ddp", "zero1", "zero3", "zero-topo", "odd order", "qwz and qgz", "stale"}  # the others are long
GRIDS = {
    "tensors": megatron(2, 1, 2),
    "pipeline": megatron(1, 2, 2),
    "three dimensions": megatron(2, 2, 1, shape="tied"),
    "pipeline of zero1": megatron(1, 2, 2, data="zero1"),
    "axonn": axonn(2, 1, 2),
    "axonn and data": axonn(1, 2, 1, 2),
}


def restarted(made: Schedule, folder: Path, steps: int = STEPS, **how: Any) -> None:
    """A run that goes on from a checkpoint has the same bits as the one that was never ended, on every rank."""
    whole = Run(made, **how).train(steps // 2)
    at = whole.save(folder)
    whole.train(steps)
    again = Run(made, at, **how)
    assert again.first == steps // 2
    again.train(steps)
    assert again.buffers() == whole.buffers()
    assert [rank.losses for rank in again.ranks] == [rank.losses[steps // 2 :] for rank in whole.ranks]
    assert again.ranks[0].training_state.step == whole.ranks[0].training_state.step


@pytest.mark.parametrize(
    "name", [name if name in USUAL else pytest.param(name, marks=pytest.mark.long) for name in PLANS]
)
def test_a_restart_on_the_same_plan_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    precision = "fp64" if name in EXACT or name == "stale" else "fp32"
    restarted(schedule(PLANS[name], (2, 1, 2), grad_accum=2, precision=precision), tmp_path)


def test_copies_that_coding_per_hop_sets_apart_go_on_each_by_itself(tmp_path: Path) -> None:
    """Every rank writes what it holds, so that all have their own values back."""
    keys: dict[str, Any] = {"compression": "naive-zfp:16", "compress_from": 0, "compress_per_hop": True}
    made = megatron(1, 1, 4, data="zero1", precision="fp32", **keys).schedule
    restarted(made, tmp_path, lowered=lowered_of(made, channels=1, slices=1))
    (saved,) = tmp_path.iterdir()
    names = ChunkReader(saved).read_metadata().state_dict_metadata
    assert {name.partition("/")[0] for name in names} >= {f"rank-{rank:05}" for rank in range(4)}


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("pipeline of zero1", "three dimensions", "axonn")
        else pytest.param(name, marks=pytest.mark.long)
        for name in GRIDS
    ],
)
def test_a_restart_of_a_grid_or_pipeline_continues_bit_for_bit(name: str, tmp_path: Path) -> None:
    restarted(GRIDS[name].schedule, tmp_path)


@pytest.mark.parametrize(
    ("plan", "types"),
    [
        ("zero3", {"precision": "fp16"}),
        ("zero-topo", {"precision": "fp32"}),
        ("hsdp", {"optimizer": "lamb"}),
        ("zero3", {"model": "adapters"}),
    ],
)
def test_a_restart_in_other_types_and_of_lamb_continues_bit_for_bit(
    plan: str, types: dict[str, Any], tmp_path: Path
) -> None:
    restarted(schedule(PLANS[plan], (2, 1, 2), **types), tmp_path)


PAIRS: list[tuple[str, Sizes, str, Sizes]] = [
    ("zero3", (2, 1, 2), "ddp", (1, 1, 2)),
    ("ddp", (1, 1, 2), "zero-topo", (2, 2, 2)),
    ("hsdp", (2, 1, 2), "zeropp", (2, 2, 1)),
]
MORE: list[tuple[str, Sizes, str, Sizes]] = [
    ("odd order", (2, 2, 2), "reversed", (2, 2, 2)),
    ("zero1 next", (2, 1, 2), "copy", (2, 2, 1)),
    ("zero2", (2, 2, 2), "zero1", (1, 2, 2)),
]


@pytest.mark.parametrize(
    ("plan", "sizes", "other", "others"), [*PAIRS, *(pytest.param(*each, marks=pytest.mark.long) for each in MORE)]
)
def test_a_restart_on_another_plan_and_number_of_ranks_reaches_the_same_weights(
    plan: str, sizes: Sizes, other: str, others: Sizes, tmp_path: Path
) -> None:
    """Two steps by one plan and two by another: the weights of four steps by either, but for rounding."""
    whole = Run(same_batch(PLANS[plan], sizes)).train(STEPS // 2)
    at = whole.save(tmp_path)
    went_on = Run(same_batch(PLANS[other], others), at).train(STEPS)
    whole.train(STEPS)
    assert 0 < len(went_on.weights()) == len(whole.weights())
    assert far(went_on.weights(), whole.weights()) <= 1e-10


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("pipeline", "tensors"),
        ("axonn", "pipeline of zero1"),
        pytest.param("tensors", "axonn and data", marks=pytest.mark.long),
        pytest.param("pipeline of zero1", "axonn", marks=pytest.mark.long),
    ],
)
def test_a_restart_on_another_grid_reaches_the_same_weights(source: str, target: str, tmp_path: Path) -> None:
    made, other = GRIDS[source].schedule, GRIDS[target].schedule
    assert made.meta["batch"] == other.meta["batch"]
    whole = Run(made).train(STEPS // 2)
    at = whole.save(tmp_path)
    went_on = Run(other, at).train(STEPS)
    assert far(went_on.weights(), whole.train(STEPS).weights()) <= 1e-10


def test_a_restart_of_a_restart_continues_bit_for_bit(tmp_path: Path) -> None:
    made = schedule(PLANS["zero3"], (2, 1, 2))
    whole = Run(made).train(6)
    first = Run(made).train(2).save(tmp_path)
    second = Run(made, first).train(4).save(tmp_path)
    third = Run(made, second).train(6)
    assert third.buffers() == whole.buffers()
    assert third.before is not None
    losses = [sum(parts) for parts in zip(*(rank.losses for rank in whole.ranks), strict=True)]
    assert list(third.before.losses) == losses[:4]
    assert [each.steps for each in third.before.history] == [4]


@settings(max_examples=30)
@given(shape=st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple), sizes=st.permutations((2, 3, 2)))
def test_the_boxes_of_all_ranks_are_the_whole_tensor_once(shape: tuple[int, ...], sizes: list[int]) -> None:
    """Flat over two of three axes, not the two innermost ones: parts that lie apart in rows."""
    mesh = Mesh(tuple(zip(("a", "b", "c"), sizes, strict=True)))
    placement = replace(REPLICATE, flat=frozenset({"a", "c"}))
    tensor = Tensor(name="w", shape=shape, dtype="fp64", role="weight", placement=placement, nesting=("a", "b", "c"))
    numbers = torch.arange(math.prod(shape))
    padded = torch.cat([numbers, torch.zeros(-len(numbers) % math.prod(sizes), dtype=torch.int64)])
    seen = torch.full(shape, -1)
    for a, c in itertools.product(range(mesh["a"]), range(mesh["c"])):
        line = padded.reshape(*sizes, -1)[a, :, c].reshape(-1)
        for offsets, values in part(tensor, mesh, {"a": a, "b": 0, "c": c}, line).chunks.items():
            box = seen[tuple(slice(at, at + size) for at, size in zip(offsets, values.shape, strict=True))]
            assert bool((box == -1).all())
            box.copy_(values)
    assert torch.equal(seen, numbers.reshape(shape))


def test_steps_of_a_plan_that_loses_something_are_not_compared_with_what_loses_nothing(tmp_path: Path) -> None:
    """Its bounds are not known to the plan that goes on; with the same plan they are."""
    lossy, exact = (same_batch(PLANS[name], (2, 1, 2)) for name in ("quantised topo", "zero3"))
    at = Run(lossy).train(2).save(tmp_path)
    points = {name: Run(made, at).start for name, made in (("same", lossy), ("exact", exact))}
    assert points["same"].loses == ""
    assert points["exact"].loses.startswith("moves are coded as int")
    went_on = Run(exact, at).train(3)
    again = Run(exact, went_on.save(tmp_path))
    assert again.start.loses == points["exact"].loses  # it is not forgotten
    assert again.before is not None
    assert [(each.steps, each.plan, bool(each.loses)) for each in again.before.history] == [
        (2, "zero-topo", True),
        (3, "zero3", False),
    ]
