"""Kernels of experts: the choice of experts for every position, the copies of rows to experts and back, and grouped
matrix products.

An expert takes the rows that come first in a sample (or in this rank's part of it) until its places are full; further
rows are dropped: they add nothing to their position.
"""

from __future__ import annotations

from typing import NamedTuple

from simfrontier.base.errors import SimfrontierError
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.operands import Kernel, Operands


def route(operands: Operands) -> None:
    """Choose the experts with the largest scores of every position, and weigh them; backward, the gradient of the
    scores."""
    xp, wide = operands.xp, operands.wide
    is_sigmoid = operands.context.schedule.meta.get("router") == "sigmoid"
    if operands.is_backward:
        (_, gradient), (_, scores), (_, choices) = operands.activations()
        chosen = xp.take_along_axis(wide(scores), choices, axis=-1)
        weights = _weights(operands, chosen, is_sigmoid)
        within = wide(gradient) - xp.sum(wide(gradient) * weights, axis=-1, keepdims=True)
        slope = weights * within * ((1 - _logistic(xp, chosen)) if is_sigmoid else 1)
        rows = xp.reshape(xp.arange(slope.shape[0] * slope.shape[1], device=operands.backend.device), (-1, 1))
        places = xp.reshape(rows * scores.shape[-1] + xp.reshape(choices, (-1, choices.shape[-1])), (-1,))
        total = operands.backend.scatter_rows(
            scores.shape[0] * scores.shape[1] * scores.shape[2], places, xp.reshape(slope, (-1, 1))
        )
        operands.put(xp.reshape(total, scores.shape))
        return
    scores = wide(operands.one())
    order = xp.argsort(scores, axis=-1, descending=True, stable=True)
    choices = order[..., : _num_choices(operands)]
    operands.put(choices)
    operands.put(_weights(operands, xp.take_along_axis(scores, choices, axis=-1), is_sigmoid), 1)


def _num_choices(operands: Operands) -> int:
    ref = operands.context.program.writes[operands.index][0]
    return operands.context.schedule.tensors[ref.name].shape[-1]


def _weights(operands: Operands, chosen: Array, is_sigmoid: bool) -> Array:
    """Return the weights of the chosen experts, which add up to 1, from their scores."""
    xp = operands.xp
    raw = _logistic(xp, chosen) if is_sigmoid else xp.exp(chosen - xp.max(chosen, axis=-1, keepdims=True))
    return raw / xp.sum(raw, axis=-1, keepdims=True)


def _logistic(xp: object, values: Array) -> Array:
    return 0.5 * (1 + xp.tanh(0.5 * values))  # type: ignore[attr-defined]


class _Rows(NamedTuple):
    """Dispatched rows on this rank: for each, its place among the experts' rows [experts, samples, rows], the pair
    (position, choice) and the position it comes from; `shape` is that of the places."""

    place: Array
    pair: Array
    position: Array
    shape: tuple[int, int, int]


def _rows(operands: Operands, choices: Array) -> _Rows:
    xp, sizes = operands.xp, operands.sizes()
    samples, length, per_position = choices.shape
    every, experts, rows = dict(operands.op.iteration)["E"], sizes["E"], sizes["s"]
    if every != operands.context.schedule.meta["experts"]:
        raise SimfrontierError(f"op {operands.op.name}: {every} blocks of experts; allowed: a block for every expert")
    device = operands.backend.device
    pairs = xp.reshape(choices, (samples, -1))
    own = xp.astype(pairs[:, :, None] == xp.arange(every, device=device)[None, None, :], xp.int64)
    before = xp.take_along_axis(xp.cumulative_sum(own, axis=1), pairs[:, :, None], axis=-1)[:, :, 0] - 1
    expert = pairs - operands.first("E")
    sample = xp.arange(samples, device=device)[:, None]
    place = (expert * samples + sample) * rows + before
    pair = sample * (length * per_position) + xp.arange(length * per_position, device=device)[None, :]
    kept = xp.reshape((expert >= 0) & (expert < experts) & (before < rows), (-1,))
    pair = xp.reshape(pair, (-1,))[kept]
    return _Rows(xp.reshape(place, (-1,))[kept], pair, pair // per_position, (experts, samples, rows))


def _to_experts(operands: Operands, rows: _Rows, values: Array, source: Array) -> Array:
    """Return the rows of `values` [n, features] with the numbers `source`, each at its place with an expert."""
    xp = operands.xp
    taken = xp.take(values, source, axis=0)
    count = rows.shape[0] * rows.shape[1] * rows.shape[2]
    return xp.reshape(operands.backend.scatter_rows(count, rows.place, taken), (*rows.shape, -1))


def _from_experts(operands: Operands, rows: _Rows, values: Array, target: Array, count: int) -> Array:
    """Return [count, features]: the sums of the experts' rows with equal numbers `target`."""
    xp = operands.xp
    taken = xp.take(xp.reshape(values, (-1, values.shape[-1])), rows.place, axis=0)
    return operands.backend.scatter_rows(count, target, taken)


def dispatch(operands: Operands) -> None:
    """Copy positions, and their weights, to the rows of the experts that they chose; backward, add the gradients of
    the rows at their positions."""
    xp, wide = operands.xp, operands.wide
    (_, first), (_, second), (_, third) = operands.activations()
    if operands.is_backward:
        rows = _rows(operands, third)
        num_pairs = third.shape[0] * third.shape[1] * third.shape[2]
        values = _from_experts(operands, rows, wide(first), rows.position, third.shape[0] * third.shape[1])
        weights = _from_experts(operands, rows, second[..., None], rows.pair, num_pairs)
        operands.put(xp.reshape(values, (*third.shape[:2], -1)))
        operands.put(xp.reshape(weights, third.shape), 1)
        return
    rows = _rows(operands, second)
    operands.put(_to_experts(operands, rows, xp.reshape(first, (-1, first.shape[-1])), rows.position))
    operands.put(_to_experts(operands, rows, xp.reshape(third, (-1, 1)), rows.pair)[..., 0], 1)


def combine(operands: Operands) -> None:
    """Add the outputs of experts at the positions that chose them; backward, copy the gradients of positions to the
    experts' rows."""
    xp = operands.xp
    (_, values), (_, choices) = operands.activations()
    rows = _rows(operands, choices)
    if operands.is_backward:
        operands.put(_to_experts(operands, rows, xp.reshape(values, (-1, values.shape[-1])), rows.position))
        return
    total = _from_experts(operands, rows, operands.wide(values), rows.position, choices.shape[0] * choices.shape[1])
    operands.put(xp.reshape(total, (*choices.shape[:2], -1)))


def grouped_matmul(operands: Operands) -> None:
    """Multiply the rows of every expert by the expert's weight; backward, the gradients of rows or of weights."""
    xp, part, name = operands.xp, operands.op.named.part, f"{operands.module}.weight"

    def by_expert(values: Array) -> Array:
        return xp.reshape(values, (values.shape[0], -1, values.shape[-1]))

    (_, first), *others = operands.activations()
    if part == "wgrad":
        (_, source) = others[0]
        operands.gradient(name, xp.matmul(xp.permute_dims(by_expert(first), (0, 2, 1)), by_expert(source)))
        return
    weight = operands.weight(name)
    assert weight is not None
    turned = weight if part == "dgrad" else xp.permute_dims(weight, (0, 2, 1))
    out = xp.matmul(by_expert(first), turned)
    operands.put(xp.reshape(out, (*first.shape[:-1], out.shape[-1])))


EXPERT_KERNELS: dict[str, Kernel] = {
    "route": route,
    "dispatch": dispatch,
    "combine": combine,
    "grouped_matmul": grouped_matmul,
}
