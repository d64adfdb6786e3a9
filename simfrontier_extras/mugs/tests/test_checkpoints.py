"""Mugs goes on from a checkpoint: teacher, queues, memories and centre are states that it holds, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfrontier.core.program import saved_states
from simfrontier_extras.mugs.tests.schedules import EQUAL, schedule, training
from tests.real.checkpointed import Run, far


@pytest.mark.parametrize("statistics", [False, True])
def test_a_restart_continues_bit_for_bit(statistics: bool, tmp_path: Path) -> None:
    """The second step also reads where the first has left off in its queues."""
    made, how = schedule(sizes=(2, 1, 1), overlap_statistics=statistics), training()
    assert {state.tensor.role for state in saved_states(made)} >= {"weight", "master", "optimizer", "state"}
    whole = Run(made, training=how).train(1)
    at = whole.save(tmp_path)
    again = Run(made, at, how).train(2)
    assert again.buffers() == whole.train(2).buffers()


def test_a_restart_on_another_mesh_reaches_the_same_states(tmp_path: Path) -> None:
    source, target = schedule(sizes=(2, 1, 2)), schedule(sizes=(1, 2, 1))
    how: Any = training()
    whole = Run(source, training=how).train(1)
    went_on = Run(target, whole.save(tmp_path), how).train(2)
    assert far(went_on.weights(), whole.train(2).weights()) <= EQUAL["fp64"]
