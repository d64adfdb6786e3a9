"""Codecs as they are on the wire: for each family of simfrontier.core.codecs a module of the same name, with `encode`
and `decode`."""

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
    """[pieces, elements] → encoded, each piece by itself.

    int8, int4 and zfp share exponents between neighbours, so they refuse numbers that are not finite (SimfrontierError)
    before anything is sent; mpc keeps every bit, of fp16 and bf16 that are widened for `mpc:fp32` every value. Raises
    InputError for types that the codec cannot take.
    """
    codec = codec.on(type_of(pieces))
    with np.errstate(over="ignore"):
        encoded: Encoded = _family(codec).encode(backend, pieces, codec)
    return encoded


def decode(backend: Backend, encoded: Encoded, codec: Codec, length: int, dtype: str) -> Array:
    """Encoded pieces → [pieces, length] of `dtype`. mpc of no type in particular was of that one."""
    with np.errstate(over="ignore"):
        return _family(codec).decode(backend, encoded, codec, length, dtype)
