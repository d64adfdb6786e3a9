"""Covariance of fitted parameters, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.accuracy.uncertainty import covariance, factor_90


def test_points_and_what_is_known_add_their_precision() -> None:
    """Two points of variance 0.04 that move twice as the first parameter: 2 · 2² / 0.04 = 200, and 1 / 0.1² = 100 of
    what is known: 1 / 300. No point moves with the second one: it stays as it was known, 0.5²."""
    made = covariance(np.array([[2.0, 0.0], [2.0, 0.0]]), np.array([25.0, 25.0]), np.array([0.1, 0.5]))
    assert made == pytest.approx(np.array([[1 / 300, 0.0], [0.0, 0.25]]))


def test_ninety_percent_of_a_normal_lie_within_1_645_deviations() -> None:
    assert np.log(factor_90(0.1)) == pytest.approx(0.1644854, rel=1e-6)
    assert factor_90(0.0) == 1.0
