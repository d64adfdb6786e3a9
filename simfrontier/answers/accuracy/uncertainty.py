"""Uncertainty of predictions and of fitted parameters, both normal in the logarithm."""

from __future__ import annotations

import math

import numpy as np

from simfrontier.answers.step import NORMAL_90
from simfrontier.base.arrays import Floats


def factor_90(sd: float) -> float:
    """Factor from the median to the ends of the central 90 % interval of a log-normal; `sd` is of the logarithm."""
    return math.exp(NORMAL_90 * sd)


def covariance(slopes: Floats, weights: Floats, prior_sd: Floats) -> Floats:
    """Covariance of fitted parameters: (JᵀWJ + P)⁻¹.

    `slopes`: J, how the points move with the parameters, [points, parameters]. `weights`: diagonal of W, the inverse
    variance of each point times the weight that a robust loss gives it, [points]. `prior_sd`: P is diag(prior_sd⁻²),
    what is known of the parameters without the points, [parameters].
    """
    precision = slopes.T @ (weights[:, None] * slopes) + np.diag(prior_sd**-2.0)
    return np.asarray(np.linalg.inv(precision), np.float64)
