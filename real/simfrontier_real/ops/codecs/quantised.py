"""The codecs int8 and int4: blocks of numbers, stored as integer multiples of one FP32 scale per block."""

from __future__ import annotations

from typing import Final

from simfrontier.core.codecs import Quantised
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.encoded import Encoded, refuse_not_finite

_LARGEST: Final = {"int8": 127, "int4": 7}
_TOP: Final = {
    127: float.fromhex("0x1.020406p121"),
    7: float.fromhex("0x1.249248p125"),
}  # multiples of larger ones overflow FP32
_LEAST_NORMAL: Final = 2.0**-126
_LEAST: Final = 2.0**-149


def encode(backend: Backend, pieces: Array, codec: Quantised) -> Encoded:
    """Quantise each block of `codec.block` elements: scale = max |x| / 127 (int8) or / 7 (int4), numbers rounded to the
    nearest multiple of the scale. int4 packs two numbers into a byte, the first in the low half.

    The error is at most half a scale plus two FP32 roundings: 2^-22 of the block's largest magnitude, or 2^-149.
    """
    xp = backend.xp
    largest = _LARGEST[codec.name]
    count, length = pieces.shape
    blocks = -(-length // codec.block)
    wide = narrow = backend.cast(pieces, "fp32")
    padding = blocks * codec.block - length
    if padding:
        wide = xp.concat([wide, xp.zeros((count, padding), dtype=wide.dtype, device=backend.device)], axis=1)
    wide = xp.reshape(wide, (count, blocks, codec.block))
    peaks = xp.max(xp.abs(wide), axis=-1)
    if not bool(xp.all(xp.isfinite(peaks))):
        refuse_not_finite(backend, narrow, codec)
    scales = _scales(backend, peaks, largest)
    divisors = xp.where(scales > 0, scales, xp.ones_like(scales))
    rounded = xp.clip(_nearest(backend, wide / divisors[..., None]), -largest, largest)
    levels = xp.reshape(rounded, (count, -1))[:, :length]
    numbers = backend.cast(levels + (largest + 1), "uint8")  # 1 … 255, or 1 … 15: always positive
    return Encoded(_packed(backend, numbers) if codec.name == "int4" else numbers, scales)


def decode(backend: Backend, encoded: Encoded, codec: Quantised, length: int, dtype: str) -> Array:
    """Decode pieces to [pieces, length] of `dtype`."""
    xp = backend.xp
    numbers = _unpacked(backend, encoded.data, length) if codec.name == "int4" else encoded.data
    levels = backend.cast(numbers, "fp32") - (_LARGEST[codec.name] + 1)
    scales = xp.repeat(encoded.scales, codec.block, axis=1)[:, :length]
    return backend.cast(levels * scales, dtype)


def _nearest(backend: Backend, values: Array) -> Array:
    """Round numbers to the nearest integer, ties to even."""
    return backend.xp.round(values)


def _scales(backend: Backend, peaks: Array, largest: int) -> Array:
    """Return peak / largest, rounded so that all multiples of the scale are finite. Scales with few significant digits
    (subnormal numbers) are rounded up: if rounded down, their largest multiple would be well below the peak."""
    xp = backend.xp
    scales = xp.clip(peaks / largest, max=_TOP[largest])
    short = (scales < _LEAST_NORMAL) & (scales * largest < peaks)
    return xp.where(short, scales + _LEAST, scales)


def _packed(backend: Backend, numbers: Array) -> Array:
    xp = backend.xp
    if numbers.shape[1] % 2:
        numbers = xp.concat(
            [numbers, xp.zeros((numbers.shape[0], 1), dtype=numbers.dtype, device=backend.device)], axis=1
        )
    return numbers[:, 0::2] | (numbers[:, 1::2] << 4)


def _unpacked(backend: Backend, packed: Array, length: int) -> Array:
    xp = backend.xp
    both = xp.stack([packed & 15, packed >> 4], axis=-1)
    return xp.reshape(both, (packed.shape[0], -1))[:, :length]
