"""What Mugs' queues, memories, centre and teacher start from."""

from __future__ import annotations

from typing import Any

from simfrontier.opnames import in_its_stream, parameter_of, without_stream
from simfrontier.schedule import Schedule

TEACHER = "teacher"


def followed(schedule: Schedule, name: str) -> str:
    """The student's weight or state that one of the teacher starts from; others start from themselves."""
    source = without_stream(name, TEACHER)
    return source if source in schedule.tensors else name


def initial_state(name: str, shape: tuple[int, ...], numbers: Any) -> Any:
    """Queues and memories: random rows of length 1 (columns of a queue); the centre: 0; None of anything else.
    `numbers` is a generator of numpy."""
    import numpy as np

    if name == "cluster.centre":
        return np.zeros(shape)
    if parameter_of(name) == "queue":
        columns = numbers.normal(size=shape)
        return columns / np.linalg.norm(columns, axis=0)
    if in_its_stream(name) in ("memory", "memory.others"):
        rows = numbers.normal(size=shape)
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return None
