"""Codecs as they are on the wire: block-quantised int8 and int4, zfp, mpc, and plain narrower floats."""

from __future__ import annotations

import numpy as np

from simfrontier.schedule.codec import Codec
from simfrontier_real.arrays import Array, Backend
from simfrontier_real.codecs import mpc, quantised, zfp
from simfrontier_real.codecs.encoded import Encoded, type_of

__all__ = ["Encoded", "decode", "encode"]


def encode(backend: Backend, pieces: Array, codec: Codec) -> Encoded:
    """[pieces, elements] → encoded, each piece by itself.

    int8, int4 and zfp share exponents between neighbours, so they refuse numbers that are not finite (SimfrontierError)
    before anything is sent. Plain numbers are casts: what is too large for the type becomes infinite and travels as
    such, which is what dynamic loss scaling looks for. mpc keeps every bit, of fp16 and bf16 that are widened for
    `mpc:fp32` every value. Raises InputError for types that the codec cannot take.
    """
    codec = codec.on(type_of(pieces))
    with np.errstate(over="ignore"):
        if codec.is_quantised:
            return quantised.encode(backend, pieces, codec)
        if codec.name == "zfp":
            return zfp.encode(backend, pieces, codec)
        if codec.name == "mpc":
            return mpc.encode(backend, backend.cast(pieces, codec.of))
        return Encoded(backend.cast(pieces, codec.name), None)


def decode(backend: Backend, encoded: Encoded, codec: Codec, length: int, dtype: str) -> Array:
    """Encoded pieces → [pieces, length] of `dtype`. mpc of no type in particular was of that one."""
    with np.errstate(over="ignore"):
        if codec.is_quantised:
            return quantised.decode(backend, encoded, codec, length, dtype)
        if codec.name == "zfp":
            return zfp.decode(backend, encoded, codec, length, dtype)
        if codec.name == "mpc":
            return backend.cast(mpc.decode(backend, encoded, length, codec.of or dtype), dtype)
        return backend.cast(encoded.data, dtype)
