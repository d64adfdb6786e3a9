"""Plain numbers: casts. What is too large for a type becomes infinite and travels as such, which is what dynamic loss
scaling looks for."""

from __future__ import annotations

from simfrontier.core.codecs import Plain
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.encoded import Encoded


def encode(backend: Backend, pieces: Array, codec: Plain) -> Encoded:
    """[pieces, elements] as numbers of the codec's type."""
    return Encoded(backend.cast(pieces, codec.name), None)


def decode(backend: Backend, encoded: Encoded, codec: Plain, length: int, dtype: str) -> Array:
    """Encoded pieces → [pieces, length] of `dtype`."""
    return backend.cast(encoded.data, dtype)
