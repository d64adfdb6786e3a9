"""zfp at a fixed rate: blocks of 4 numbers with a common exponent (zfpy's streams without their header)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import BLOCK, Zfp
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.encoded import Encoded, from_octets, octets, refuse_not_finite

LEAST: Final = 2.0**-98  # zfp scales a block by 2^(30 - exponent), which is infinite in FP32 for smaller ones
_MOST: Final = float(np.finfo(np.float32).max)


def encode(backend: Backend, pieces: Array, codec: Zfp) -> Encoded:
    """Encode each piece as a stream of whole 64-bit words; fp16 and bf16 numbers are widened to fp32 first.

    From a rate of 6 bits per value on, the error is at most 20 * 2^(3 - rate) * 2^floor(log2 m), with m the largest
    magnitude of the block; at lower rates it is at most 6 * 2^floor(log2 m), because a value of only two bit planes can
    overflow zfp's 32-bit integers. Blocks below 2^-98, which zfp 1.0 would turn into numbers up to five times as large,
    are sent as zeros. Arrays on a device are copied to the host, encoded there and copied back.
    """
    import zfpy

    values: Any = np.ascontiguousarray(backend.numpy(backend.cast(pieces, "fp32")))
    count, length = values.shape
    raw = np.zeros((count, codec.payload_bytes(length)), dtype=np.uint8)
    if length:
        peaks = _peaks(values)
        if not np.isfinite(peaks).all():
            refuse_not_finite(backend, values, codec)
        if ((peaks < LEAST) & (peaks > 0)).any():
            values = np.where(np.repeat(peaks < LEAST, BLOCK, axis=1)[:, :length], np.float32(0), values)
        for row, out in zip(values, raw, strict=True):
            out[:] = np.frombuffer(zfpy.compress_numpy(row, rate=codec.rate, write_header=False), dtype=np.uint8)
    return Encoded(from_octets(backend, raw, "uint8"), None)


def decode(backend: Backend, encoded: Encoded, codec: Zfp, length: int, dtype: str) -> Array:
    """Decode pieces to [pieces, length] of `dtype`, on the host like `encode`. Values beyond the largest fp32 number,
    due to the coding error, are clamped to it."""
    import zfpy

    raw = octets(encoded.data)
    if raw.shape[1] != codec.payload_bytes(length):
        raise SimfrontierError(
            f"codec {codec}: a piece has {raw.shape[1]} bytes, {length} elements have {codec.payload_bytes(length)}"
        )
    values = np.empty((raw.shape[0], length), dtype=np.float32)
    if length:
        for row, out in zip(raw, values, strict=True):
            zfpy._decompress(row, zfpy.type_float, (length,), out=out, rate=codec.rate)
        np.clip(values, -_MOST, _MOST, out=values)
    return backend.cast(from_octets(backend, values.view(np.uint8), "fp32"), dtype)


def _peaks(values: Any) -> Any:
    """Return [pieces, blocks]: the largest magnitude of each block, NaN for a block that contains NaN."""
    whole = values.shape[1] - values.shape[1] % BLOCK
    a, b, c, d = np.moveaxis(np.abs(values[:, :whole]).reshape(len(values), -1, BLOCK), -1, 0)
    peaks = np.maximum(np.maximum(a, b), np.maximum(c, d))
    if whole == values.shape[1]:
        return peaks
    return np.concatenate([peaks, np.abs(values[:, whole:]).max(axis=1, keepdims=True)], axis=1)
