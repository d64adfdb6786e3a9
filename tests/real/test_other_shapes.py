"""What people train, at tiny sizes: GPTs of every kind trained for real, equal to the unsharded model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import Schedule, check
from simfrontier.core.workload import Attention, Checkpointing, gpt
from simfrontier_real.ops.attention import slopes
from simfrontier_real.train.initial_states import initial_weights
from simfrontier_real.train.train import train_in_one_process
from tests.core.program.builders import mesh_of, options_of
from tests.real.grids import OTHERS, Grid, axonn, megatron
from tests.real.schedules import PLAIN, distance, loss_distance, training, unsharded


def agrees(made: Schedule, steps: int = 2) -> None:
    assert str(check(made)) == "no findings"
    ours, theirs = train_in_one_process(made, training(steps)), unsharded(made, training(steps), "fp64")
    assert distance(ours.weights, theirs.weights) <= 1e-10
    assert loss_distance(ours.losses, theirs.losses) <= 1e-10
    assert distance(ours.weights, initial_weights(made, 0)) > 1e-3  # it moved


def data_parallel(
    family: str, shape: str, attention: Attention, checkpointing: Checkpointing, engine: Engine
) -> Schedule:
    mesh = mesh_of(2, 1, 2)
    workload = gpt(OTHERS[shape], 8, checkpointing, precision="fp64", attention=attention)
    return build(workload, make_plan(family, options_of(family), mesh), mesh, engine, 2)


@pytest.mark.parametrize("shape", OTHERS)
@pytest.mark.parametrize("family", ["ddp", "zero3"])
def test_every_shape_trains_like_the_unsharded_model(family: str, shape: str) -> None:
    engine = replace(PLAIN, persistence_elements=0)
    agrees(data_parallel(family, shape, "plain", "full", engine))
    agrees(data_parallel(family, shape, "fused", "none", engine))


GRIDS = {
    "tensor": megatron(2, 1, 2),
    "sequence": megatron(2, sequence_parallel=True),
    "stages": megatron(2, 2, data="zero1"),
    "fused": megatron(2, 1, attention="fused", checkpointing="none"),
    "x, y, z": axonn(2, 2, 2),
    "selective": megatron(2, 2, checkpointing="selective", sequence_parallel=True),
    "selective x": axonn(2, 2, 1, checkpointing="selective"),
    "fused x": axonn(2, 1, 1, attention="fused"),
}


@pytest.mark.parametrize("shape", OTHERS)
@pytest.mark.parametrize("grid", GRIDS)
def test_every_shape_trains_on_grids_like_the_unsharded_model(grid: str, shape: str) -> None:
    made: Grid = replace(GRIDS[grid], shape=shape)
    agrees(made.schedule)


def test_slopes_of_twelve_heads_by_hand() -> None:
    """Eight heads: 1/2, 1/4 … 1/256. Then the first, third … of sixteen: 2^−0.5, 2^−1.5, 2^−2.5, 2^−3.5."""
    by_hand = [2.0**-n for n in range(1, 9)] + [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]
    assert np.allclose(slopes(12), by_hand, rtol=1e-15, atol=0)
