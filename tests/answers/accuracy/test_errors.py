"""Errors of several rows, the bounds on them, and predictions that have not seen the row they are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfrontier.answers.accuracy.fit_rows import Mask, fits_without
from simfrontier.answers.accuracy.residual import Residual, around, covariance, errors_of
from simfrontier.answers.accuracy.validation import ONLY_BOUNDED, ErrorBound, judge, validate
from simfrontier.inputs.measured import Pathology
from tests.answers.accuracy.standins import held, models, predicted, table, training
from tests.rows import MIB, call


def rows_of(errors: Sequence[float], **more: str) -> list[Residual[Any]]:
    return [held(1.0, 1.0 + error, table=more.get("table", "one")) for error in errors]


def test_errors_of_five_rows() -> None:
    """−30, −10, 0, +10 and +20 %: median 0, mean of absolute errors 70/5 = 14 %. Absolute errors in order are 0, 10,
    10, 20, 30; the 90th percentile lies at 0.9 × 4 = 3.6 of them: 20 + 0.6 × 10 = 26 %. Measured 1 s is inside ± a
    factor of 1.2 of 0.9, 1.0, 1.1 and 1.2 s, and not of 0.7 s (up to 0.84 s)."""
    rows = rows_of([-0.1, 0.0, 0.1, -0.3, 0.2])
    errors = errors_of(rows)
    assert errors is not None
    assert (errors.count, errors.worst, errors.covered) == (5, rows[3], pytest.approx(0.8))
    assert errors.median == pytest.approx(0.0)
    assert errors.mean_abs == pytest.approx(0.14)
    assert errors.p90_abs == pytest.approx(0.26)


def test_a_bound_judges_only_the_rows_of_its_series() -> None:
    bound = ErrorBound(
        table="one", series="large groups", mean_abs=0.1, at_least={"devices": 9}, one_of={"library": ["rccl"]}
    )
    rows = [held(1.0, 1.05), held(1.0, 3.0, devices=8), held(1.0, 3.0, table="two"), held(1.0, 3.0, "pathology")]
    other = replace(rows[0], row=call(library="nccl"), prediction=predicted(3.0))
    [judged] = judge([bound], [*rows, other])
    assert judged.errors is not None and judged.errors.count == 1 and judged.holds


@pytest.mark.parametrize(
    ("mean_abs", "p90_abs", "holds"),
    [(0.15, None, True), (0.14, None, False), (0.15, 0.2, True), (0.15, 0.18, False)],
)
def test_a_bound_holds_where_mean_and_percentile_are_within_it(
    mean_abs: float, p90_abs: float | None, holds: bool
) -> None:
    """10 % and 20 %: on average 15 %, 90th percentile 19 %."""
    rows = [held(1.0, 1.1), held(1.0, 0.8)]
    bound = ErrorBound(table="one", series="all", mean_abs=mean_abs + 1e-12, p90_abs=p90_abs)
    assert judge([bound], rows)[0].holds is holds


ODD = Pathology(reason="a stall", bytes_from=MIB, bytes_to=MIB, devices_from=128)


def test_each_row_is_used_as_what_it_is() -> None:
    fitted, unseen, odd, other = call(1.0), call(2.0, 32), call(3.0, 128), call(4.0, library="mpi")
    done = validate(
        [table([fitted, unseen, odd, other], pathologies=(ODD,))], *models(fitted=lambda row: row == fitted)
    )
    assert [(row.use, row.reason) for row in done.rows] == [
        ("fitted", ""),
        ("held", ""),
        ("pathology", "a stall"),
        ("no model", "no model of library 'mpi'; allowed: rccl"),
    ]
    assert [row.error for row in done.rows] == [pytest.approx(0.1)] * 3 + [None]
    assert done.holds and done.overall.errors is not None and done.overall.errors.count == 2


@pytest.mark.parametrize(("published", "holds"), [(50e12, True), (70e12, False)])
def test_a_rate_of_training_is_held_against_its_bound(published: float, holds: bool) -> None:
    done = validate([table([training(published)])], *models(most_flops_per_s=60e12))
    assert (done.rows[0].use, done.rows[0].why) == ("no model", ONLY_BOUNDED)
    assert [each.holds for each in done.bounded] == [holds] and done.holds is holds


def test_an_interval_is_90_percent_of_a_normal_in_log_time() -> None:
    made = around(2.0, 0.1)
    assert (made.value, made.low * made.high) == (2.0, pytest.approx(4.0))
    assert math.log(made.high / 2.0) == pytest.approx(0.164485, rel=1e-5)
    bare = around(2.0, math.nan)
    assert bare.value == 2.0 and math.isnan(bare.low) and math.isnan(bare.high)


VALUES = np.array([1.0, 2.0, 4.0, 8.0])
GROUPS = ["b", "a", "b", "c"]


def mean_of_others(left: Mask) -> float:
    return float(VALUES[~left].mean())


def test_each_group_is_predicted_by_the_others() -> None:
    """Without b (1 and 4) the mean is 5, without a 13 / 3, without c 7 / 3."""
    asked: list[str] = []
    made = list(fits_without(GROUPS, mean_of_others, progress=asked.append))
    assert [(group, left.tolist(), fit) for group, left, fit in made] == [
        ("b", [True, False, True, False], 5.0),
        ("a", [False, True, False, False], 13 / 3),
        ("c", [False, False, False, True], 7 / 3),
    ]
    assert asked == ["b", "a", "c"]


def test_points_and_what_is_known_add_their_precision() -> None:
    """Two points of variance 0.04 that move twice as the first parameter: 2 · 2² / 0.04 = 200, and 1 / 0.1² = 100 of
    what is known: 1 / 300. No point moves with the second one: it stays as it was known, 0.5²."""
    made = covariance(np.array([[2.0, 0.0], [2.0, 0.0]]), np.array([25.0, 25.0]), np.array([0.1, 0.5]))
    assert made == pytest.approx(np.array([[1 / 300, 0.0], [0.0, 0.25]]))
