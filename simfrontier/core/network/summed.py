"""Sums of amounts by key, as every network's pools need them."""

import numpy as np

from simfrontier.base.arrays import Floats, Ints


def summed(key: Ints, amount: Floats) -> tuple[Ints, Floats]:
    """The different keys in ascending order, and the sum of the amounts of each."""
    unique, which = np.unique(key, return_inverse=True)
    return unique, np.bincount(which, amount).astype(np.float64, copy=False)
