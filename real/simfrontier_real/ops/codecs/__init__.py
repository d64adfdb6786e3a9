"""Codecs with the data that is really sent: for each codec family of simfrontier.core.codecs, the module of the same
name has `encode` and `decode`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np

from simfrontier.core.codecs import Codec
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.encoded import Encoded, type_of

__all__ = ["Encoded", "decode", "encode"]


def _family(codec: Codec) -> ModuleType:
    return import_module(f"{__name__}.{codec.family}")


def encode(backend: Backend, pieces: Array, codec: Codec) -> Encoded:
    """Encode [pieces, elements], each piece separately.

    int8, int4 and zfp share exponents between neighbouring numbers, so they raise SimfrontierError for non-finite
    numbers before anything is sent. mpc is lossless: it preserves every bit, and with `mpc:fp32` every value of fp16
    and bf16 numbers, which are widened. Raises InputError for types that the codec cannot encode.
    """
    codec = codec.on(type_of(pieces))
    with np.errstate(over="ignore"):
        encoded: Encoded = _family(codec).encode(backend, pieces, codec)
    return encoded


def decode(backend: Backend, encoded: Encoded, codec: Codec, length: int, dtype: str) -> Array:
    """Decode pieces to [pieces, length] of type `dtype`. An mpc codec without a type of its own was applied to numbers
    of `dtype`."""
    with np.errstate(over="ignore"):
        return _family(codec).decode(backend, encoded, codec, length, dtype)
