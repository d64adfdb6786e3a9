"""Attention kernels, causal or not, for the heads of this rank: as separate matrix products, or fused in one op."""

from __future__ import annotations

import math
from typing import Any

from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.losses import softmax_by_maximum, softmax_by_pairs
from simfrontier_real.ops.operands import Operands, block_number

NORM_EPSILON = 1e-5
_NAMES = {"query": "rotary.query", "key": "rotary.key", "value": "value.out"}  # where they lie apart


def heads_here(operands: Operands) -> tuple[int, int]:
    """Return the numbers of query heads, and of key and value heads, that this rank holds."""
    meta, whole, here = operands.context.schedule.meta, dict(operands.op.iteration)["a"], operands.sizes()["a"]
    every = int(meta["heads"])
    return every * here // whole, int(meta.get("kv_heads", every)) * here // whole


def by_head(operands: Operands, values: Array, of_keys: bool = False) -> Array:
    """Rearrange an activation from [b, s, a] to [b, s, head, feature], for the heads of this rank."""
    return operands.xp.reshape(values, (*values.shape[:2], heads_here(operands)[of_keys], -1))


def taken_apart(operands: Operands, qkv: Array) -> tuple[Array, Array, Array]:
    """Split the fused query-key-value activation [b, s, (group, queries and key and value, feature)] into queries, keys
    and values, each [b, s, head, feature]."""
    xp, (heads, groups) = operands.xp, heads_here(operands)
    rows, size = qkv.shape[:2], heads // groups
    parts = xp.reshape(qkv, (*rows, groups, size + 2, -1))
    return xp.reshape(parts[..., :size, :], (*rows, heads, -1)), parts[..., size, :], parts[..., size + 1, :]


def put_together(operands: Operands, query: Array, key: Array, value: Array) -> Array:
    """Join queries, keys and values, each [b, s, a], into one fused activation; the inverse of `taken_apart`."""
    xp, (heads, groups) = operands.xp, heads_here(operands)
    rows = query.shape[:2]
    sizes = ((query, heads // groups), (key, 1), (value, 1))
    together = xp.concat([xp.reshape(part, (*rows, groups, size, -1)) for part, size in sizes], axis=3)
    return xp.reshape(together, (*rows, -1))


def _part(operands: Operands, name: str) -> Array:
    """Return the query, key or value as [b, head, s, feature]; keys and values are repeated for every query head that
    shares them."""
    xp, held = operands.xp, dict(operands.activations())
    if "qkv.out" in held:
        part = taken_apart(operands, held["qkv.out"])[list(_NAMES).index(name)]
    else:
        part = by_head(operands, held[_NAMES[name]], of_keys=name != "query")
    turned = xp.permute_dims(part, (0, 2, 1, 3))
    heads, groups = heads_here(operands)
    if name == "query" or heads == groups:
        return turned
    batch, _, length, features = turned.shape
    shared = xp.broadcast_to(turned[:, :, None, :, :], (batch, groups, heads // groups, length, features))
    return xp.reshape(shared, (batch, heads, length, features))


def _rows_of_heads(operands: Operands, name: str) -> Array:
    """Return an activation [b, s, a] as [b, head, s, feature]."""
    return operands.xp.permute_dims(by_head(operands, operands.activation(name)), (0, 2, 1, 3))


def _put_rows(operands: Operands, values: Array, number: int = 0) -> None:
    """Write an output [b, head, s, feature] as [b, s, a]."""
    operands.put(_as_rows(operands, values), number)


def _put_shared(operands: Operands, values: Array, number: int = 0) -> None:
    """Write gradients of a key or a value, [b, head, s, feature], as [b, s, a], summed over the query heads that share
    it."""
    heads, groups = heads_here(operands)
    if heads != groups:
        batch, _, *rest = values.shape
        values = operands.xp.sum(operands.xp.reshape(values, (batch, groups, heads // groups, *rest)), axis=2)
    _put_rows(operands, values, number)


def _as_rows(operands: Operands, values: Array) -> Array:
    rows = operands.xp.permute_dims(values, (0, 2, 1, 3))
    return operands.xp.reshape(rows, (*rows.shape[:2], -1))


def _turned(xp: Any, values: Array) -> Array:
    return xp.permute_dims(values, (0, 1, 3, 2))


def _scores_of(xp: Any, query: Array, key: Array) -> Array:
    return xp.matmul(query, _turned(xp, key)) / math.sqrt(query.shape[-1])


# ── separate matrix products ──


def _scores(operands: Operands) -> None:
    operands.put(_scores_of(operands.xp, _part(operands, "query"), _part(operands, "key")))


def _context(operands: Operands) -> None:
    _put_rows(operands, operands.xp.matmul(_weights(operands), _part(operands, "value")))


def _weights(operands: Operands) -> Array:
    """Return the weights by which values are summed: the attention probabilities, after dropout if there is any."""
    return operands.activations()[0][1]


def _d_probabilities(operands: Operands) -> None:
    value = _part(operands, "value")
    operands.put(operands.xp.matmul(_rows_of_heads(operands, "d.context"), _turned(operands.xp, value)))


def _d_value(operands: Operands) -> None:
    turned = _turned(operands.xp, _weights(operands))
    _put_shared(operands, operands.xp.matmul(turned, _rows_of_heads(operands, "d.context")))


def _d_query(operands: Operands) -> None:
    key = _part(operands, "key")
    _put_rows(operands, operands.xp.matmul(operands.activation("d.scores"), key) / math.sqrt(key.shape[-1]))


def _d_key(operands: Operands) -> None:
    query = _part(operands, "query")
    turned = _turned(operands.xp, operands.activation("d.scores"))
    _put_shared(operands, operands.xp.matmul(turned, query) / math.sqrt(query.shape[-1]))


def scores(operands: Operands) -> None:
    """Compute the product of queries and keys, or its gradient with respect to either."""
    kernels = {None: _scores, "dquery": _d_query, "dkey": _d_key}
    kernels[operands.op.named.part](operands)


def context_of_scores(operands: Operands) -> None:
    """Compute the product of probabilities and values, or its gradient with respect to either."""
    kernels = {None: _context, "dprobabilities": _d_probabilities, "dvalue": _d_value}
    kernels[operands.op.named.part](operands)


def softmax(operands: Operands) -> None:
    """Compute the softmax over the last dimension, or its backward, with the op's kernel; causal if the model is
    causal."""
    wide = operands.wide
    if operands.is_backward:
        gradient = wide(operands.activation("d.probabilities"))
        probabilities = wide(operands.activation("probabilities"))
        operands.put(_d_scores(operands.xp, gradient, probabilities))
    else:
        operands.put(_probabilities(operands, wide(operands.one()), operands.op.kernel))


def _probabilities(operands: Operands, scores: Array, kernel: str = "") -> Array:
    xp, scores = operands.xp, masked(operands, scores)
    return softmax_by_pairs(xp, scores) if kernel == "two-pass" else softmax_by_maximum(xp, scores)


def masked(operands: Operands, scores: Array) -> Array:
    """Return scores with the biases of their distances, and -inf at later positions if the model is causal."""
    context = operands.context
    if context.schedule.meta.get("positions") == "alibi":
        scores = scores + _distances(operands, scores)
    if context.schedule.meta.get("causal", 1):
        scores = _without_later(operands, scores)
    return scores


def _distances(operands: Operands, scores: Array) -> Array:
    """Return the ALiBi bias of the scores: minus the head's slope times the distance from the query position back to
    the key position."""
    backend, xp = operands.context.backend, operands.xp
    heads, _ = heads_here(operands)
    first = operands.first("a") * heads // operands.sizes()["a"]
    every = slopes(int(operands.context.schedule.meta["heads"]))
    own = xp.asarray(every[first : first + heads], dtype=scores.dtype, device=backend.device)
    rows, columns = (xp.astype(places, scores.dtype) for places in _positions(operands, scores))
    return own[None, :, None, None] * (columns[None, :] - rows[:, None])


def _positions(operands: Operands, scores: Array) -> tuple[Array, Array]:
    """Return the positions of the queries and of the keys of a block of scores."""
    xp, device = operands.xp, operands.backend.device
    piece = operands.op.piece
    block = 0 if piece is None else block_number(operands.context, piece)
    begins = (operands.first("s"), block * scores.shape[-1])
    first, second = (
        xp.arange(begin, begin + size, device=device) for begin, size in zip(begins, scores.shape[-2:], strict=True)
    )
    return first, second


def slopes(heads: int) -> list[float]:
    """Return ALiBi's slope of each head: 2^(−8/n), 2^(−16/n) … for n heads if n is a power of two; otherwise the slopes
    for the next lower power of two, followed by every other slope for the next higher one (arXiv 2108.12409,
    ofirpress/attention_with_linear_biases)."""
    power = 2 ** (heads.bit_length() - 1)
    out = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    return out + [2.0 ** (-4 * (2 * head + 1) / power) for head in range(heads - power)]


def _without_later(operands: Operands, scores: Array) -> Array:
    """Return the scores with -inf at later key positions, so that no position attends to later ones."""
    xp = operands.xp
    rows, columns = _positions(operands, scores)
    nothing = xp.asarray(-math.inf, dtype=scores.dtype, device=operands.backend.device)
    return xp.where(columns[None, :] > rows[:, None], nothing, scores)


def _d_scores(xp: Any, gradient: Array, probabilities: Array) -> Array:
    along = xp.sum(gradient * probabilities, axis=-1, keepdims=True)
    return probabilities * (gradient - along)


# ── fused ──


def attention(operands: Operands) -> None:
    """Compute fused attention, or its backward, which recomputes the scores."""
    xp, wide = operands.xp, operands.wide
    if operands.op.piece is not None:
        (_attention_piece_backward if operands.is_backward else _attention_piece)(operands)
        return
    query, key, value = (wide(_part(operands, name)) for name in _NAMES)
    probabilities = _probabilities(operands, _scores_of(xp, query, key))
    if not operands.is_backward:
        _put_rows(operands, xp.matmul(probabilities, value))
        return
    above = wide(_rows_of_heads(operands, "d.context"))
    scores = _d_scores(xp, xp.matmul(above, _turned(xp, value)), probabilities) / math.sqrt(query.shape[-1])
    d_query, d_key = xp.matmul(scores, key), xp.matmul(_turned(xp, scores), query)
    _put_rows(operands, d_query)
    for number, gradient in enumerate((d_key, xp.matmul(_turned(xp, probabilities), above)), 1):
        _put_shared(operands, gradient, number)


# ── fused, piece by piece: to one block of keys and values after the other ──


def _attention_piece(operands: Operands) -> None:
    """Continue attention with another block: a running softmax, whose maxima and sums are kept as the logarithms of the
    sums of exponentials."""
    xp, wide = operands.xp, operands.wide
    query, key, value = (wide(_part(operands, name)) for name in _NAMES)
    scores, result = masked(operands, _scores_of(xp, query, key)), operands.context.program.writes[operands.index][0]
    top = xp.max(scores, axis=-1, keepdims=True)
    assert operands.op.piece is not None
    if operands.op.piece.number == 0:  # the own block, where every position attends at least to itself
        logs = top + xp.log(xp.sum(xp.exp(scores - top), axis=-1, keepdims=True))
        made = xp.matmul(xp.exp(scores - logs), value)
    else:
        before, made = operands.context.buffers.running[result]
        top = xp.maximum(top, before)
        logs = top + xp.log(xp.exp(before - top) + xp.sum(xp.exp(scores - top), axis=-1, keepdims=True))
        made = made * xp.exp(before - logs) + xp.matmul(xp.exp(scores - logs), value)
    operands.context.buffers.running[result] = logs, made
    _put_rows(operands, made)


def _attention_piece_backward(operands: Operands) -> None:
    """Compute the gradients of one block's keys and values, and add to those of queries."""
    xp, wide, running = operands.xp, operands.wide, operands.context.buffers.running
    reads, (target, *_) = (
        operands.context.program.reads[operands.index],
        operands.context.program.writes[operands.index],
    )
    query, key, value = (wide(_part(operands, name)) for name in _NAMES)
    tensors = operands.context.schedule.tensors
    result = next(ref for ref in reads if tensors[ref.name].quantity == "context")  # perhaps back from the host
    logs, made = running[result if result in running else result._replace(name=tensors[result.name].value)]
    probabilities = xp.exp(masked(operands, _scores_of(xp, query, key)) - logs)
    above = wide(_rows_of_heads(operands, "d.context"))
    along = xp.sum(above * made, axis=-1, keepdims=True)
    scores = probabilities * (xp.matmul(above, _turned(xp, value)) - along) / math.sqrt(query.shape[-1])
    d_query = xp.matmul(scores, key)
    assert operands.op.piece is not None
    running[target] = d_query if operands.op.piece.number == 0 else running[target] + d_query
    _put_rows(operands, running[target])
    d_key, d_value = xp.matmul(_turned(xp, scores), query), xp.matmul(_turned(xp, probabilities), above)
    for number, gradient in enumerate((d_key, d_value), 1):
        _put_shared(operands, gradient, number)


# ── rotary positions ──

_ROTARY_BASE = 10_000.0


def rotary(operands: Operands) -> None:
    """Apply rotary embeddings: rotate queries and keys by the angles of their positions. Backward, rotate the gradients
    back."""
    if operands.context.schedule.meta.get("nope_features"):
        _rotary_of_latents(operands)
        return
    for number, (_, values) in enumerate(operands.activations()):
        rows = operands.wide(by_head(operands, values, of_keys=number == 1))
        operands.put(operands.xp.reshape(_rotated(operands, rows), values.shape), number)


def _rotated(operands: Operands, rows: Array) -> Array:
    """Return rows [b, s, head, feature] rotated by the angles of their positions, pairing the first half of the
    features with the second half (GPT-NeoX's order for arXiv 2104.09864); backward, rotated back."""
    backend, xp = operands.backend, operands.xp
    half, length = rows.shape[-1] // 2, rows.shape[1]
    first = operands.first("s")
    places = xp.astype(xp.arange(first, first + length, device=backend.device), rows.dtype)
    pace = xp.asarray([_ROTARY_BASE ** (-each / half) for each in range(half)], dtype=rows.dtype)
    angles = places[:, None] * xp.asarray(pace, device=backend.device)[None, :]
    cos, sin = xp.cos(angles)[None, :, None, :], xp.sin(angles)[None, :, None, :]
    if operands.is_backward:
        sin = -sin
    left, right = rows[..., :half], rows[..., half:]
    return xp.concat([left * cos - right * sin, right * cos + left * sin], axis=-1)


def _rotary_of_latents(operands: Operands) -> None:
    """Rotate the last features of queries, and those that the keys of all heads share, which are joined to each head's
    own; backward, the inverse."""
    xp, wide, nope = operands.xp, operands.wide, int(operands.context.schedule.meta["nope_features"])
    (_, query), (_, second), (_, third) = operands.activations()
    query, second = wide(by_head(operands, query)), wide(by_head(operands, second))
    query = xp.concat([query[..., :nope], _rotated(operands, query[..., nope:])], axis=-1)
    if operands.is_backward:  # second: of keys, third: of values
        of_shared = _rotated(operands, xp.sum(second[..., nope:], axis=2, keepdims=True))
        joint = xp.concat([second[..., :nope], wide(by_head(operands, third))], axis=-1)
        made = query, joint, of_shared
    else:  # second: keys and values, third: the shared part of keys
        shared = _rotated(operands, wide(third)[:, :, None, :])
        shared = xp.broadcast_to(shared, (*second.shape[:3], shared.shape[-1]))
        made = query, xp.concat([second[..., :nope], shared], axis=-1), second[..., nope:]
    for number, each in enumerate(made):
        operands.put(xp.reshape(each, (*each.shape[:2], -1)), number)


# ── norms of heads ──


def head_norm(operands: Operands) -> None:
    """Compute the RMSNorm of every head's features, or its backward."""
    xp, wide, name = operands.xp, operands.wide, f"{operands.module}.weight"
    weight = operands.weight(name)
    assert weight is not None
    every = [wide(values) for _, values in operands.activations()]
    *above, x = (xp.reshape(values, (*values.shape[:2], -1, weight.shape[0])) for values in every)
    inverse = 1 / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + NORM_EPSILON)
    normal = x * inverse
    if not above:
        operands.put(xp.reshape(normal * wide(weight), every[0].shape))
        return
    scaled = above[0] * wide(weight)
    out = inverse * (scaled - normal * xp.mean(scaled * normal, axis=-1, keepdims=True))
    operands.put(xp.reshape(out, every[0].shape))
    operands.gradient(name, xp.sum(above[0] * normal, axis=(0, 1, 2)))
