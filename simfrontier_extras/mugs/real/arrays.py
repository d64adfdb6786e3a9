"""Mugs as array functions, forward and backward: tokens' positions, pooling, joined crops, unit rows; and its losses
over the pairs of a teacher's and a student's crop of an image.

`xp` is the array library. Rows of a stream lie image by image: image x crops + crop. Pairs of an image come view by
view of the teacher, within one the student's crops but that view's own.
"""

from __future__ import annotations

from typing import Any

from simfrontier_real.ops.arrays import Array


def with_positions(xp: Any, patches: Array, cls: Array, table: Array) -> Array:
    """[b, n, h] → [b, n + 1, h]: the class token before the patches, and to each the row of its position."""
    first = xp.broadcast_to(cls[None, None, :], (patches.shape[0], 1, cls.shape[0]))
    return xp.concat([first, patches], axis=1) + table[: patches.shape[1] + 1]


def with_positions_backward(xp: Any, gradient: Array, num_positions: int) -> tuple[Array, Array, Array]:
    """(of patches, of the class token, of the whole table of positions, zero where there is no token)."""
    of_rows = xp.sum(gradient, axis=0)
    beyond = xp.zeros_like(of_rows[:1])
    table = xp.concat([of_rows, *[beyond] * (num_positions - of_rows.shape[0])], axis=0)
    return gradient[:, 1:], of_rows[0], table


def pooled(xp: Any, tokens: Array) -> tuple[Array, Array]:
    """[b, s, h] → the class token and the mean of all tokens, [b, h] each."""
    return tokens[:, 0], xp.mean(tokens, axis=1)


def pooled_backward(xp: Any, cls: Array, mean: Array, num_tokens: int) -> Array:
    """Gradient of the tokens: each has its share of the mean, the first one the class token's too."""
    share = mean[:, None, :] / num_tokens
    return xp.concat([share + cls[:, None, :], *[share] * (num_tokens - 1)], axis=1)


def joined(xp: Any, parts: tuple[Array, ...], crops: tuple[int, ...]) -> Array:
    """Join the rows of streams, of which stream i has `crops[i]` crops of an image, to rows of one stream with all of
    them."""
    width = parts[0].shape[-1]
    by_image = [xp.reshape(part, (-1, count, width)) for part, count in zip(parts, crops, strict=True)]
    return xp.reshape(xp.concat(by_image, axis=1), (-1, width))


def taken_apart(xp: Any, rows: Array, crops: tuple[int, ...]) -> tuple[Array, ...]:
    """The inverse of `joined`."""
    width = rows.shape[-1]
    by_image = xp.reshape(rows, (-1, sum(crops), width))
    starts = [sum(crops[:number]) for number in range(len(crops))]
    return tuple(
        xp.reshape(by_image[:, start : start + count], (-1, width)) for start, count in zip(starts, crops, strict=True)
    )


def lengths(xp: Any, rows: Array) -> Array:
    """Return the Euclidean lengths of rows, as [..., 1]."""
    return xp.sqrt(xp.sum(rows * rows, axis=-1, keepdims=True))


def unit(xp: Any, rows: Array) -> Array:
    """Return rows scaled to length 1."""
    return rows / lengths(xp, rows)


def unit_backward(xp: Any, gradient: Array, rows: Array) -> Array:
    """With u = x/|x|: dx = (g - u (u·g)) / |x|."""
    length = lengths(xp, rows)
    u = rows / length
    return (gradient - u * xp.sum(u * gradient, axis=-1, keepdims=True)) / length


def of_length(xp: Any, directions: Array, norms: Array) -> Array:
    """Return rows scaled to these lengths: norm v/|v|."""
    return norms[:, None] * unit(xp, directions)


def of_length_backward(xp: Any, gradient: Array, directions: Array, norms: Array) -> tuple[Array, Array]:
    """(of the directions, of the norms): dv as of a unit row times its norm, d norm = g·v/|v|."""
    of_norms = xp.sum(gradient * unit(xp, directions), axis=-1)
    return norms[:, None] * unit_backward(xp, gradient, directions), of_norms


# ── losses over pairs of crops, and the queues ──


def pairs_of(views: int, crops: int) -> tuple[tuple[int, int], ...]:
    """(view, crop) of every pair of an image; the first `views` crops are the student's own of those views."""
    return tuple((view, crop) for view in range(views) for crop in range(crops) if crop != view)


def contrast_scores(xp: Any, query: Array, keys: tuple[Array, ...], queue: Array) -> Array:
    """[images · pairs, 1 + k]: each pair's query times its key, then times the columns of the queue [e, k].

    `query` is [images · crops, e]; `keys` has [images, e] of every view.
    """
    pairs, by_image = _paired(xp, query, keys)
    own = [query_of * keys[view] for (view, _), query_of in zip(pairs, by_image, strict=True)]
    positive = xp.stack([xp.sum(products, axis=-1, keepdims=True) for products in own], axis=1)
    negative = xp.matmul(xp.stack(by_image, axis=1), queue)
    return xp.reshape(xp.concat([positive, negative], axis=-1), (-1, 1 + queue.shape[1]))


def contrast_scores_backward(xp: Any, gradient: Array, keys: tuple[Array, ...], queue: Array, crops: int) -> Array:
    """Gradient of the queries, [images · crops, e]: summed over the pairs that a crop is in."""
    pairs = pairs_of(len(keys), crops)
    by_pair = xp.reshape(gradient, (-1, len(pairs), gradient.shape[-1]))
    turned = xp.permute_dims(queue, (1, 0))
    parts: list[Any] = [None] * crops
    for number, (view, crop) in enumerate(pairs):
        of_query = by_pair[:, number, :1] * keys[view] + xp.matmul(by_pair[:, number, 1:], turned)
        parts[crop] = of_query if parts[crop] is None else parts[crop] + of_query
    return xp.reshape(xp.stack(parts, axis=1), (-1, queue.shape[0]))


def contrast(xp: Any, scores: Array, temperature: float) -> tuple[Array, Array]:
    """(sum over the rows of the cross-entropy with the first column as target, gradient of the scores)."""
    logs = log_softmax(xp, scores / temperature)
    probabilities = xp.exp(logs)
    gradient = xp.concat([probabilities[:, :1] - 1, probabilities[:, 1:]], axis=1) / temperature
    return -xp.sum(logs[:, 0]), gradient


def cluster(
    xp: Any, student: Array, teacher: Array, centre: Array, temperatures: tuple[float, float], views: int, crops: int
) -> tuple[Array, Array]:
    """Return (sum over pairs of the cross-entropy between the teacher's and the student's distribution over prototypes,
    gradient of the student's scores).

    `student` is [images · crops, w], `teacher` [images · views, w]; `temperatures` are theirs, and the teacher's scores
    are taken less the `centre` [w].
    """
    soft, sharp = temperatures
    logs = xp.reshape(log_softmax(xp, student / soft), (-1, crops, centre.shape[0]))
    targets = xp.exp(log_softmax(xp, (teacher - centre) / sharp))
    targets = xp.reshape(targets, (-1, views, centre.shape[0]))
    total, parts = xp.sum(xp.zeros_like(centre)), [xp.zeros_like(logs[:, crop]) for crop in range(crops)]
    for view, crop in pairs_of(views, crops):
        total = total - xp.sum(targets[:, view] * logs[:, crop])
        parts[crop] = parts[crop] + (xp.exp(logs[:, crop]) - targets[:, view]) / soft
    return total, xp.reshape(xp.stack(parts, axis=1), student.shape)


def log_softmax(xp: Any, values: Array) -> Array:
    """Return the log-softmax over the last dimension."""
    shifted = values - xp.max(values, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def _paired(xp: Any, query: Array, keys: tuple[Array, ...]) -> tuple[tuple[tuple[int, int], ...], list[Array]]:
    """(pairs of an image, the queries of each pair)."""
    by_crop = xp.reshape(query, (keys[0].shape[0], -1, query.shape[-1]))
    pairs = pairs_of(len(keys), by_crop.shape[1])
    return pairs, [by_crop[:, crop] for _, crop in pairs]


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
