"""Searches by asking and telling, Sobol' indices of known functions, and quantiles of distributions."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from simfrontier.answers.sweep.adaptive import Search
from simfrontier.answers.sweep.axes import SampledAxis, quantiles
from simfrontier.answers.sweep.form import SamplesTable
from simfrontier.answers.sweep.indices import Indices, design, indices_of
from tests.answers.sweep.studies import HOOK, MICRO

SPACE = (
    SampledAxis(key=HOOK, number=0, between=(1e-3, 10.0), is_log=True),
    SampledAxis(key=MICRO, number=1, between=(1, 8)),
    SampledAxis(key="engine.granularity", number=2, among=("module", "layer", "op")),
)
Drawn = tuple[Any, ...]


def result(point: Drawn) -> float:
    """The least is 0, at x = 1, n = 3 and `layer`; eight have none."""
    x, n, way = point
    return math.nan if n == 8 else abs(x - 1.0) + abs(n - 3) + (way != "layer")


def searched(rounds: int, seed: int = 1, is_most: bool = False) -> list[Drawn]:
    search = Search(axes=SPACE, is_most=is_most, seed=seed)
    out = []
    for _ in range(rounds):
        points = search.ask(8)
        search.tell([-result(point) if is_most else result(point) for point in points])
        out += points
    return out


@pytest.mark.parametrize("is_most", [False, True])
def test_a_search_finds_better_points_than_chance(is_most: bool) -> None:
    """Of 80 points the last 40 are better on average than the first ten, which are drawn at random, by a factor."""
    found = [each for each in map(result, searched(10, is_most=is_most)) if not math.isnan(each)]
    assert sum(found[-40:]) / 40 < 0.5 * sum(found[:8]) / 8


def test_the_same_results_give_the_same_points() -> None:
    assert searched(4) == searched(4)
    assert searched(4) != searched(4, seed=2)


def by_key(found: Indices) -> dict[str, tuple[float, float]]:
    return {each.key: (each.first, each.total) for each in found.unknowns}


def test_a_sum_is_explained_by_its_terms() -> None:
    """x + 2 y of uniform numbers has the variance 1/12 + 4/12: a fifth is of x, four fifths of y."""
    points = design(2, 512, 1)
    found = indices_of(("x", "y"), points[..., 0] + 2.0 * points[..., 1], 1)
    assert [each.key for each in found.unknowns] == ["y", "x"]
    assert by_key(found)["x"] == pytest.approx((0.2, 0.2), abs=0.02)
    assert by_key(found)["y"] == pytest.approx((0.8, 0.8), abs=0.02)
    assert found.mean == pytest.approx(1.5, abs=0.01)
    assert found.sd == pytest.approx(math.sqrt(5.0 / 12.0), rel=0.02)
    # without y the variance is 1/12, without x it is 4/12
    assert found.unknowns[0].sd_left == pytest.approx(math.sqrt(1.0 / 12.0), rel=0.1)
    assert found.unknowns[1].sd_left == pytest.approx(math.sqrt(4.0 / 12.0), rel=0.02)


def test_ishigami() -> None:
    """sin a + 7 sin^2 b + 0.1 c^4 sin a of angles: 0.314, 0.442 and 0; in all 0.558, 0.442 and 0.244 (Ishigami and
    Homma, 1990)."""
    a, b, c = np.moveaxis((2.0 * design(3, 2048, 7) - 1.0) * np.pi, -1, 0)
    found = indices_of(("a", "b", "c"), np.sin(a) + 7.0 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a), 7)
    known = {"a": (0.3139, 0.5576), "b": (0.4424, 0.4424), "c": (0.0, 0.2437)}
    for each in found.unknowns:
        first, total = known[each.key]
        assert each.first == pytest.approx(first, abs=0.05)
        assert each.total == pytest.approx(total, abs=0.05)
        assert each.first_interval[0] <= each.first <= each.first_interval[1]
        assert each.total_interval[0] <= each.total <= each.total_interval[1]


def test_the_spread_is_that_of_independent_points() -> None:
    """Results of 4 and 2 in the two points of each round: 3 and 1 apart from it. The mixed points repeat coordinates of
    both, so that their results are no further draws."""
    found = indices_of(("x", "y"), np.tile([4.0, 2.0, 3.0, 3.0], (16, 1)), 1)
    assert (found.mean, found.sd) == (3.0, 1.0)


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
        ({"distribution": "log-normal", "median": 5.0, "sd": 0.3}, 0.5, 5.0),
        ({"distribution": "log-normal", "median": 5.0, "sd": 0.3}, NormalDist().cdf(1.0), 5.0 * math.exp(0.3)),
        ({**NORMAL, "low": 10.0}, 0.5, 10.0 + 2.0 * QUARTILE),
        # half of what lies within a standard deviation of the mean is below it
        ({**NORMAL, "low": 8.0, "high": 12.0}, 0.5, 10.0),
        ({"distribution": "log-normal", "median": 5.0, "sd": 0.3, "high": 5.0}, 0.5, 5.0 * math.exp(-0.3 * QUARTILE)),
    ],
)
def test_a_share_of_all_lies_below_its_quantile(table: dict[str, Any], share: float, value: float) -> None:
    assert quantile(share, **table) == pytest.approx(value, rel=1e-9)
