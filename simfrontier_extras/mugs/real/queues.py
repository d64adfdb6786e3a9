"""Mugs' queues and memories as array functions: what enters, and the rows most similar to a query."""

from __future__ import annotations

from typing import Any

from simfrontier_extras.mugs.real.features import unit
from simfrontier_real.ops.arrays import Array


def entered(xp: Any, queue: Array, rows: Array, at: int) -> tuple[Array, int]:
    """([k, h] with rows in its places from `at` on, the first one after the last; the place after them). At most k
    rows."""
    size, count = queue.shape[0], rows.shape[0]
    assert count <= size, "refused before the first step"
    here = min(count, size - at)
    beyond = count - here
    parts = [rows[here:], queue[beyond:at], rows[:here], queue[at + here :]]
    return xp.concat(parts, axis=0), (at + count) % size


def similarity(xp: Any, rows: Array, memory: Array) -> Array:
    """Cosines of every row with every row of the memory."""
    return xp.matmul(unit(xp, rows), xp.permute_dims(unit(xp, memory), (1, 0)))


def nearest(xp: Any, similarity: Array, rows: Array, memory: Array, neighbours: int) -> Array:
    """[b, 1 + neighbours, h]: each row, then the most similar ones of the memory, the most similar first; of equally
    similar ones the first."""
    order = xp.argsort(-similarity, axis=-1, stable=True)[:, :neighbours]
    near = xp.take(memory, xp.reshape(order, (-1,)), axis=0)
    near = xp.reshape(near, (*order.shape, memory.shape[-1]))
    return xp.concat([rows[:, None, :], near], axis=1)
