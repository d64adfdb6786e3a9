"""Attention computed for real, causal or not, of the heads that a rank holds: product by product, or all in one op."""

from __future__ import annotations

import math
from typing import Any

from simfrontier.opnames import OpName
from simfrontier.schedule import Compute
from simfrontier_real.arrays import Array, Backend
from simfrontier_real.exponentials import softmax_by_maximum, softmax_by_pairs
from simfrontier_real.operands import Operands
from simfrontier_real.rank_context import RankContext

Heads = tuple[Array, Array, Array]  # query, key and value, each as b head s feature


def by_head(operands: Operands, values: Array) -> Array:
    """b s a → b s head feature, of the heads that this rank holds."""
    every, here = int(operands.context.schedule.meta["heads"]), operands.sizes()["a"]
    heads = every * here // dict(operands.op.iteration)["a"]
    return operands.xp.reshape(values, (*values.shape[:2], heads, -1))


def _query_key_value(operands: Operands) -> Heads:
    """qkv.out is b s (head part feature)."""
    xp = operands.xp
    qkv = operands.activation("qkv.out")
    heads = operands.sizes()["a"]
    parts = xp.reshape(qkv, (*qkv.shape[:2], heads, 3, -1))
    query, key, value = (xp.permute_dims(parts[:, :, :, number, :], (0, 2, 1, 3)) for number in range(3))
    return query, key, value


def _rows_of_heads(operands: Operands, name: str) -> Array:
    """b s a → b head s feature."""
    return operands.xp.permute_dims(by_head(operands, operands.activation(name)), (0, 2, 1, 3))


def _put_rows(operands: Operands, values: Array, number: int = 0) -> None:
    """b head s feature → b s a."""
    rows = operands.xp.permute_dims(values, (0, 2, 1, 3))
    operands.put(operands.xp.reshape(rows, (*rows.shape[:2], -1)), number)


def _turned(xp: Any, values: Array) -> Array:
    return xp.permute_dims(values, (0, 1, 3, 2))


def _scores_of(xp: Any, query: Array, key: Array) -> Array:
    return xp.matmul(query, _turned(xp, key)) / math.sqrt(query.shape[-1])


# ── one by one ──


def _scores(operands: Operands) -> None:
    query, key, _ = _query_key_value(operands)
    operands.put(_scores_of(operands.xp, query, key))


def _context(operands: Operands) -> None:
    _, _, value = _query_key_value(operands)
    _put_rows(operands, operands.xp.matmul(operands.activation("probabilities"), value))


def _d_probabilities(operands: Operands) -> None:
    _, _, value = _query_key_value(operands)
    operands.put(operands.xp.matmul(_rows_of_heads(operands, "d.context"), _turned(operands.xp, value)))


def _d_value(operands: Operands) -> None:
    turned = _turned(operands.xp, operands.activation("probabilities"))
    _put_rows(operands, operands.xp.matmul(turned, _rows_of_heads(operands, "d.context")))


def _d_query(operands: Operands) -> None:
    _, key, _ = _query_key_value(operands)
    _put_rows(operands, operands.xp.matmul(operands.activation("d.scores"), key) / math.sqrt(key.shape[-1]))


def _d_key(operands: Operands) -> None:
    query, _, _ = _query_key_value(operands)
    turned = _turned(operands.xp, operands.activation("d.scores"))
    _put_rows(operands, operands.xp.matmul(turned, query) / math.sqrt(query.shape[-1]))


ATTENTION_PRODUCTS = {
    OpName("scores"): _scores,
    OpName("context"): _context,
    OpName("context", "dprobabilities"): _d_probabilities,
    OpName("context", "dvalue"): _d_value,
    OpName("scores", "dquery"): _d_query,
    OpName("scores", "dkey"): _d_key,
}
"""The matrix products of attention, by the names of their ops."""


def softmax(context: RankContext, index: int, op: Compute) -> None:
    """Softmax over the last dimension by the op's kernel, causal where the model is, and its backward."""
    operands, wide = Operands(context, index, op), context.backend.wide
    if operands.is_backward:
        gradient = wide(operands.activation("d.probabilities"))
        probabilities = wide(operands.activation("probabilities"))
        operands.put(_d_scores(operands.xp, gradient, probabilities))
    else:
        operands.put(_probabilities(context, wide(operands.one()), op.kernel))


def _probabilities(context: RankContext, scores: Array, kernel: str = "") -> Array:
    xp = context.backend.xp
    if context.schedule.meta.get("causal", 1):
        scores = _without_later(context.backend, scores)
    return softmax_by_pairs(xp, scores) if kernel == "two-pass" else softmax_by_maximum(xp, scores)


def _without_later(backend: Backend, scores: Array) -> Array:
    """No position sees a later one."""
    xp = backend.xp
    places = xp.arange(scores.shape[-1], device=backend.device)
    later = places[None, :] > places[:, None]
    return xp.where(later, xp.asarray(-math.inf, dtype=scores.dtype, device=backend.device), scores)


def _d_scores(xp: Any, gradient: Array, probabilities: Array) -> Array:
    along = xp.sum(gradient * probabilities, axis=-1, keepdims=True)
    return probabilities * (gradient - along)


# ── all in one ──


def attention(context: RankContext, index: int, op: Compute) -> None:
    """Fused attention, and its backward, which forms the scores again."""
    operands, xp, wide = Operands(context, index, op), context.backend.xp, context.backend.wide
    query, key, value = (wide(part) for part in _query_key_value(operands))
    probabilities = _probabilities(context, _scores_of(xp, query, key))
    if not operands.is_backward:
        _put_rows(operands, xp.matmul(probabilities, value))
        return
    above = wide(_rows_of_heads(operands, "d.context"))
    scores = _d_scores(xp, xp.matmul(above, _turned(xp, value)), probabilities) / math.sqrt(query.shape[-1])
    d_query, d_key = xp.matmul(scores, key), xp.matmul(_turned(xp, scores), query)
    for number, gradient in enumerate((d_query, d_key, xp.matmul(_turned(xp, probabilities), above))):
        _put_rows(operands, gradient, number)
