"""64-bit hashes of numbers, equal for numbers that are equal up to rounding."""

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats

Hashes = NDArray[np.uint64]

SPREAD = 1.2345678901234567  # moves round numbers away from the edges of the bins that `number_hash` rounds to
DROPPED_BITS = np.uint64(16)  # of 52: numbers within about 1e-11 of each other count as equal


def mix(values: Hashes) -> Hashes:
    """Return values hashed by the splitmix64 finaliser (Steele, Lea and Flood, OOPSLA 2014), a bijection of 64-bit
    words."""
    out = values + np.uint64(0x9E3779B97F4A7C15)
    out ^= out >> np.uint64(30)
    out *= np.uint64(0xBF58476D1CE4E5B9)
    out ^= out >> np.uint64(27)
    out *= np.uint64(0x94D049BB133111EB)
    out ^= out >> np.uint64(31)
    return out


def number_hash(values: Floats) -> Hashes:
    """Return hashes of positive floats, equal for numbers that differ only by rounding."""
    bits = (np.ascontiguousarray(values) * SPREAD).view(np.uint64)
    bits += np.uint64(1) << (DROPPED_BITS - np.uint64(1))
    return mix(bits >> DROPPED_BITS)


def combine(*columns: Hashes) -> Hashes:
    """Return element-wise hashes of several columns; the order of the columns matters."""
    out = mix(columns[0])
    for column in columns[1:]:
        out = mix(out * np.uint64(3) + column)
    return out
