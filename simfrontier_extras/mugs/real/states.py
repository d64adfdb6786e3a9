"""Initial values of Mugs' queues, memories and centre."""

from __future__ import annotations

from typing import Any

from simfrontier.core.program import Tensor


def initial_state(state: Tensor, numbers: Any) -> Any:
    """Queues and memories: random rows of length 1 (columns of a queue); the centre: 0; lengths of prototypes: about 1;
    None of anything else. `numbers` is a generator of numpy."""
    import numpy as np

    if state.quantity == "cluster.centre":
        return np.zeros(state.shape)
    if state.quantity == "last.norm":
        return numbers.normal(1.0, 0.1, state.shape)
    if state.quantity in ("instance.queue", "group.queue"):
        columns = numbers.normal(size=state.shape)
        return columns / np.linalg.norm(columns, axis=0)
    if state.quantity in ("memory", "memory.others"):
        rows = numbers.normal(size=state.shape)
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return None
