"""Plain codecs: casts to another number type. Numbers too large for the type become infinite and are sent as such, so
that dynamic loss scaling detects the overflow."""

from __future__ import annotations

from simfrontier.core.codecs import Plain
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.encoded import Encoded


def encode(backend: Backend, pieces: Array, codec: Plain) -> Encoded:
    """Cast [pieces, elements] to the codec's type."""
    return Encoded(backend.cast(pieces, codec.name), None)


def decode(backend: Backend, encoded: Encoded, codec: Plain, length: int, dtype: str) -> Array:
    """Cast encoded pieces to [pieces, length] of `dtype`."""
    return backend.cast(encoded.data, dtype)
