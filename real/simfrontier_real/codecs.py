"""Codecs as they are on the wire: block-quantised int8 and int4 with FP32 scales, and plain narrower floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simfrontier.schedule.codec import Codec
from simfrontier_real.arrays import Array, Backend

_LARGEST: Final = {"int8": 127, "int4": 7}


@dataclass(frozen=True, slots=True)
class Encoded:
    """Pieces of equal length as they travel: [pieces, payload] and, where the codec has them, [pieces, scales]."""

    data: Array
    scales: Array | None

    @property
    def parts(self) -> tuple[Array, ...]:
        return (self.data,) if self.scales is None else (self.data, self.scales)


def encode(backend: Backend, pieces: Array, codec: Codec) -> Encoded:
    """[pieces, elements] → encoded, each piece by itself.

    Quantised: per block of `codec.block` elements a scale = max |x| / 127 (int8) or / 7 (int4), numbers rounded to
    the nearest multiple of it: an error of at most half a scale per element. int4 packs two numbers into a byte, the
    first low.
    """
    xp = backend.xp
    if not codec.is_quantised:
        return Encoded(backend.cast(pieces, codec.name), None)
    largest = _LARGEST[codec.name]
    count, length = pieces.shape
    blocks = -(-length // codec.block)
    wide = backend.cast(pieces, "fp32")
    padding = blocks * codec.block - length
    if padding:
        wide = xp.concat([wide, xp.zeros((count, padding), dtype=wide.dtype, device=backend.device)], axis=1)
    wide = xp.reshape(wide, (count, blocks, codec.block))
    scales = xp.max(xp.abs(wide), axis=-1) / largest
    divisors = xp.where(scales > 0, scales, xp.ones_like(scales))
    rounded = xp.clip(xp.round(wide / divisors[..., None]), -largest, largest)
    levels = xp.reshape(rounded, (count, -1))[:, :length]
    numbers = backend.cast(levels + (largest + 1), "uint8")  # 1 … 255, or 1 … 15: always positive
    return Encoded(_packed(backend, numbers) if codec.name == "int4" else numbers, scales)


def decode(backend: Backend, encoded: Encoded, codec: Codec, length: int, dtype: str) -> Array:
    """Encoded pieces → [pieces, length] of `dtype`."""
    xp = backend.xp
    if encoded.scales is None:
        return backend.cast(encoded.data, dtype)
    numbers = _unpacked(backend, encoded.data, length) if codec.name == "int4" else encoded.data
    levels = backend.cast(numbers, "fp32") - (_LARGEST[codec.name] + 1)
    scales = xp.repeat(encoded.scales, codec.block, axis=1)[:, :length]
    return backend.cast(levels * scales, dtype)


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
