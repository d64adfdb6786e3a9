"""mpc, a lossless codec on 32-bit words (Yang et al., Pricing 2015; dimension 1). The encoder takes differences,
transposes the bits of each group of 32 words, takes differences again and keeps the non-zero words. A stream consists
of the words 0x63706d00 and n, ceil(n / 32) bitmaps that mark the non-zero words, and these words. Arrays on a device
are encoded and decoded on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import WORD_BYTES, Mpc
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.encoded import Encoded, Octets, from_octets, octets

Words = npt.NDArray[np.uint32]  # [rows, words]

_MAGIC: Final = 0x63706D00
_HEAD: Final = 2  # words before the bitmaps
_GROUP: Final = 32
_CHUNK: Final = 1024  # words; differences are taken within a chunk
_TILE: Final = 2**15  # words at a time: what fits into a core's cache
_WORD: Final = np.dtype("<u4")
_BUTTERFLY: Final = ((16, 0x0000FFFF), (8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555))


def num_words(length: int, dtype: str) -> int:
    """Return the number of 32-bit words of `length` numbers, the last one padded with zeros."""
    return -(-length * DTYPE_BYTES[dtype] // WORD_BYTES)


def capacity_bytes(length: int, dtype: str) -> int:
    """Return the size in bytes of the longest possible stream of a piece: even an incomplete last group may yield 32
    non-zero words."""
    return WORD_BYTES * (_HEAD + (1 + _GROUP) * _groups(num_words(length, dtype)))


def stream_bytes(data: Array) -> npt.NDArray[np.int64]:
    """Return [pieces]: the size in bytes of each piece's stream, computed from its bitmaps; `data` may have zeros
    behind a stream."""
    words = octets(data).view(_WORD)
    if not len(words):
        return np.zeros(0, dtype=np.int64)
    end = _HEAD + _groups(int(words[0, 1]))
    result: npt.NDArray[np.int64] = np.bitwise_count(words[:, _HEAD:end]).sum(axis=1, dtype=np.int64)
    return (result + end) * WORD_BYTES


def encode(backend: Backend, pieces: Array, codec: Mpc) -> Encoded:
    """Encode [pieces, elements] as streams of numbers of the codec's type; narrower numbers are first widened to it."""
    return compressed(backend, backend.cast(pieces, codec.of))


def decode(backend: Backend, encoded: Encoded, codec: Mpc, length: int, dtype: str) -> Array:
    """Decode pieces to [pieces, length] of `dtype`, which is also the type of the encoded numbers if the codec names
    none."""
    return backend.cast(decompressed(backend, encoded, length, codec.of or dtype), dtype)


def compressed(backend: Backend, pieces: Array) -> Encoded:
    """Return [pieces, elements] of any type as the bytes of streams, each padded with zeros to `capacity_bytes`."""
    raw = octets(pieces)
    padding = -raw.shape[1] % WORD_BYTES
    words = np.pad(raw, ((0, 0), (0, padding))).view(_WORD) if padding else raw.view(_WORD)
    count, total = words.shape
    groups = _groups(total)
    left = np.empty((count, groups * _GROUP), dtype=_WORD)
    left[:, :total] = words
    left[:, total:] = words[:, -1:]  # a difference of zero
    left = _by_chunk(_forward, left)
    kept = left != 0
    out = np.zeros((count, _HEAD + (1 + _GROUP) * groups), dtype=_WORD)
    out[:, 0], out[:, 1] = _MAGIC, total
    out[:, _HEAD : _HEAD + groups] = np.packbits(kept, axis=1, bitorder="little").view(_WORD)
    body = out[:, _HEAD + groups :]
    body[_first(np.count_nonzero(kept, axis=1), body.shape[1])] = left[kept]
    return Encoded(from_octets(backend, out.view(np.uint8), "uint8"), None)


def decompressed(backend: Backend, encoded: Encoded, length: int, dtype: str) -> Array:
    """Decode streams to [pieces, length]; the padding behind the longest stream may be missing. Raises SimfrontierError
    if the data are not streams of `length` numbers of type `dtype`."""
    raw = octets(encoded.data)
    total = num_words(length, dtype)
    words = raw[:, : raw.shape[1] // WORD_BYTES * WORD_BYTES].view(_WORD)
    kept = _maps(words, total)
    body = words[:, _HEAD + _groups(total) :]
    used = np.count_nonzero(kept, axis=1)
    if used.max(initial=0) > body.shape[1]:
        raise SimfrontierError(f"mpc: a stream ends {4 * (int(used.max()) - body.shape[1])} bytes early")
    left = np.zeros(kept.shape, dtype=_WORD)
    left[kept] = body[_first(used, body.shape[1])]
    left = _by_chunk(_backward, left)
    return from_octets(backend, _octets(left)[:, : length * DTYPE_BYTES[dtype]], dtype)


def _maps(words: Words, total: int) -> npt.NDArray[np.bool_]:
    """Return a mask [pieces, words of whole groups] of the positions of the non-zero words, which follow the bitmaps in
    a stream."""
    groups = _groups(total)
    if words.shape[1] < _HEAD + groups:
        raise SimfrontierError(f"mpc: {words.shape[1]} words are no stream of {total} words")
    wrong = np.flatnonzero((words[:, 0] != _MAGIC) | (words[:, 1] != total))
    if len(wrong):
        piece = int(wrong[0])
        start = ", ".join(f"{int(word):#x}" for word in words[piece, :_HEAD])
        raise SimfrontierError(
            f"mpc: piece {piece} starts with {start}; a stream of {total} words starts with {_MAGIC:#x}, {total:#x}"
        )
    maps = _octets(words[:, _HEAD : _HEAD + groups])
    return np.unpackbits(maps, axis=1, bitorder="little").view(np.bool_)


def _by_chunk(kernel: Callable[[Words], Words], words: Words) -> Words:
    """Apply a kernel for rows of up to one chunk to rows of any number of complete groups."""
    count, total = words.shape
    whole = total - total % _CHUNK
    out = np.empty_like(words)
    if whole:
        rows = np.ascontiguousarray(words[:, :whole]).reshape(-1, _CHUNK)
        out[:, :whole] = _by_tile(kernel, rows).reshape(count, whole)
    if whole < total:
        out[:, whole:] = _by_tile(kernel, words[:, whole:])
    return out


def _by_tile(kernel: Callable[[Words], Words], rows: Words) -> Words:
    step = max(1, _TILE // rows.shape[1])
    out = np.empty_like(rows)
    for start in range(0, len(rows), step):
        out[start : start + step] = kernel(rows[start : start + step])
    return out


def _forward(rows: Words) -> Words:
    return _differences(_transposed(_differences(rows)))


def _backward(rows: Words) -> Words:
    return _sums(_transposed(_sums(rows)))


def _differences(rows: Words) -> Words:
    out = rows.copy()
    out[:, 1:] -= rows[:, :-1]
    return out


def _sums(rows: Words) -> Words:
    return np.cumsum(rows, axis=1, dtype=_WORD)


def _transposed(rows: Words) -> Words:
    """Transpose the bits of every 32 words: bit i of word k becomes bit k of word i. Blocks of halving size are swapped
    (Warren, Hacker's Delight, section 7-3)."""
    squares = np.ascontiguousarray(rows.reshape(-1, _GROUP).T)
    for width, mask in _BUTTERFLY:
        halves = squares.reshape(_GROUP // (2 * width), 2, width, -1)
        low, high = halves[:, 0], halves[:, 1]
        moved = ((low >> width) ^ high) & mask
        high ^= moved
        low ^= moved << width
    return np.ascontiguousarray(squares.T).reshape(rows.shape)


def _first(used: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.bool_]:
    """Return a mask [pieces, width] of the first `used` entries of each row."""
    return np.arange(width) < used[:, None]


def _octets(words: Words) -> Octets:
    return np.ascontiguousarray(words).view(np.uint8)


def _groups(words: int) -> int:
    return -(-words // _GROUP)
