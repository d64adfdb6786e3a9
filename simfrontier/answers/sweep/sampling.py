"""Shares between 0 and 1, a row for each sample and a column for each axis: random, a Latin hypercube, or Sobol'."""

from __future__ import annotations

import warnings

from simfrontier.answers.sweep.form import Method
from simfrontier.base.arrays import Floats


def shares(method: Method, count: int, num_axes: int, seed: int) -> Floats:
    """(count, num_axes) shares in [0, 1), the same for the same seed. A Latin hypercube has one sample in each of
    `count` equal parts of every axis; Sobol' numbers are scrambled. Of `saltelli` as many times more as a round of its
    design has points."""
    if method == "saltelli":
        from simfrontier.answers.sweep.indices import design

        return design(num_axes, count, seed).reshape(-1, num_axes)
    import numpy as np

    if method == "random":
        return np.random.default_rng(seed).random((count, num_axes))
    from scipy.stats import qmc

    kind = qmc.LatinHypercube if method == "latin-hypercube" else qmc.Sobol
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of Sobol' where the count is no power of two: it is the user's
        made: Floats = kind(num_axes, rng=np.random.default_rng(seed)).random(count)
    return made
