"""Quantiles of distributions, against their cumulative functions and hand-worked values."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.sweep.distributions import quantiles
from simfrontier.sweep.form import SamplesTable

SHARES = st.floats(0.001, 0.999)
QUARTILE = NormalDist().inv_cdf(0.75)
NORMAL = {"distribution": "normal", "mean": 10.0, "sd": 2.0}


def quantile(share: float, **table: Any) -> float:
    return float(quantiles(SamplesTable(**table), [share])[0])


@pytest.mark.parametrize(
    ("table", "share", "value"),
    [
        ({"distribution": "uniform", "low": 2.0, "high": 6.0}, 0.25, 3.0),
        ({"distribution": "log-uniform", "low": 1e-6, "high": 1e-2}, 0.5, 1e-4),  # half of the four decades
        # below the mode lies (4 - 2) / (10 - 2) = a quarter; below 3 lies (3 - 2)² / ((10 - 2) (4 - 2)) = 1/16
        ({"distribution": "triangular", "low": 2.0, "mode": 4.0, "high": 10.0}, 1 / 16, 3.0),
        # above 7 lies (10 - 7)² / ((10 - 2) (10 - 4)) = 9/48
        ({"distribution": "triangular", "low": 2.0, "mode": 4.0, "high": 10.0}, 1 - 9 / 48, 7.0),
        (NORMAL, 0.5, 10.0),
        ({"distribution": "log-normal", "median": 5.0, "sd": 0.3}, 0.5, 5.0),
        ({"distribution": "log-normal", "median": 5.0, "sd": 0.3}, NormalDist().cdf(1.0), 5.0 * math.exp(0.3)),
        ({**NORMAL, "low": 10.0}, 0.0, 10.0),  # the upper half: its lowest, and its median
        ({**NORMAL, "low": 10.0}, 0.5, 10.0 + 2.0 * QUARTILE),
        ({**NORMAL, "high": 10.0}, 0.5, 10.0 - 2.0 * QUARTILE),  # the lower half: its median
        # half of what lies within a standard deviation of the mean is below it
        ({**NORMAL, "low": 8.0, "high": 12.0}, 0.5, 10.0),
        ({"distribution": "log-normal", "median": 5.0, "sd": 0.3, "high": 5.0}, 0.5, 5.0 * math.exp(-0.3 * QUARTILE)),
    ],
)
def test_a_share_of_all_lies_below_its_quantile(table: dict[str, Any], share: float, value: float) -> None:
    assert quantile(share, **table) == pytest.approx(value, rel=1e-9)


@given(first=SHARES, second=SHARES, ends=st.tuples(st.floats(-3, 3), st.floats(0.1, 5)))
def test_quantiles_rise_and_stay_between_the_ends(first: float, second: float, ends: tuple[float, float]) -> None:
    low, high = ends[0], ends[0] + ends[1]
    for table in (
        {"distribution": "uniform"},
        {"distribution": "triangular", "mode": low},
        {"distribution": "triangular", "mode": (low + high) / 2},
        {"distribution": "normal", "mean": 0.5, "sd": 2.0},
    ):
        values = [quantile(share, **table, low=low, high=high) for share in sorted((first, second))]
        assert low <= values[0] <= values[1] <= high


def test_a_share_of_nought_and_of_one_have_values() -> None:
    for share in (0.0, 1.0):
        assert math.isfinite(quantile(share, **NORMAL))
