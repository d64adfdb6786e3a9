"""Sobol' indices of functions of which they are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simfrontier.errors import InputError
from simfrontier.sweep.indices import LEAST_ROUNDS, Indices, design, indices_of


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


def test_more_rounds_begin_with_the_fewer() -> None:
    assert (design(4, 64, 3)[:16] == design(4, 16, 3)).all()


def test_each_mixed_point_has_one_coordinate_of_b() -> None:
    points = design(3, 8, 5)
    for number in range(3):
        differs = points[:, 2 + number] != points[:, 0]
        assert differs[:, number].all() and differs.sum() == len(points)
        assert (points[:, 2 + number, number] == points[:, 1, number]).all()


def test_rounds_without_a_result_are_left_out() -> None:
    points = design(2, 64, 1)
    values = points[..., 0] + 2.0 * points[..., 1]
    values[3, 2] = math.nan
    found = indices_of(("x", "y"), values, 1)
    assert (found.num_rounds, found.num_planned) == (32, 64)


def test_too_few_rounds_are_one_line() -> None:
    values = np.full((16, 4), math.nan)
    values[: LEAST_ROUNDS - 1] = 1.0
    with pytest.raises(InputError, match="7 of 16 rounds of the design have all results; indices take 8 rounds"):
        indices_of(("x", "y"), values, 1)


def test_a_result_that_nothing_changes_is_explained_by_nothing() -> None:
    found = indices_of(("x", "y"), np.full((16, 4), 3.0), 1)
    assert (found.mean, found.sd, by_key(found)) == (3.0, 0.0, {"x": (0.0, 0.0), "y": (0.0, 0.0)})


def test_the_spread_is_that_of_independent_points() -> None:
    """Results of 4 and 2 in the two points of each round: 3 and 1 apart from it. The mixed points repeat coordinates of
    both, so that their results are no further draws."""
    found = indices_of(("x", "y"), np.tile([4.0, 2.0, 3.0, 3.0], (16, 1)), 1)
    assert (found.mean, found.sd) == (3.0, 1.0)


def test_intervals_are_the_same_again() -> None:
    points = design(2, 64, 1)
    values = np.exp(points[..., 0]) * points[..., 1]
    assert indices_of(("x", "y"), values, 3) == indices_of(("x", "y"), values, 3)
