"""Mugs' features as array functions, forward and backward: tokens' positions, pooling, joined crops, unit rows.

`xp` is the array library. Rows of a stream lie image by image: image x crops + crop.
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
    """Rows of streams with so many crops of an image each, as rows of one stream with all of them."""
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
    """Euclidean lengths of rows, as [..., 1]."""
    return xp.sqrt(xp.sum(rows * rows, axis=-1, keepdims=True))


def unit(xp: Any, rows: Array) -> Array:
    """Rows brought to length 1."""
    return rows / lengths(xp, rows)


def unit_backward(xp: Any, gradient: Array, rows: Array) -> Array:
    """With u = x/|x|: dx = (g - u (u·g)) / |x|."""
    length = lengths(xp, rows)
    u = rows / length
    return (gradient - u * xp.sum(u * gradient, axis=-1, keepdims=True)) / length


def of_length(xp: Any, directions: Array, norms: Array) -> Array:
    """Rows brought to these lengths: norm v/|v|."""
    return norms[:, None] * unit(xp, directions)


def of_length_backward(xp: Any, gradient: Array, directions: Array, norms: Array) -> tuple[Array, Array]:
    """(of the directions, of the norms): dv as of a unit row times its norm, d norm = g·v/|v|."""
    of_norms = xp.sum(gradient * unit(xp, directions), axis=-1)
    return norms[:, None] * unit_backward(xp, gradient, directions), of_norms
