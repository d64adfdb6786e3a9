"""A row held against a prediction: its error, whether it is covered, whether it counts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from simfrontier.accuracy.residual import Prediction, Use, around
from tests.accuracy.standins import held

SECONDS = st.floats(1e-9, 1e3)


def test_the_error_is_predicted_over_measured_minus_one() -> None:
    assert held(2e-3, 3e-3).error == pytest.approx(0.5)
    assert held(2e-3, 1e-3).error == pytest.approx(-0.5)


def test_there_is_no_error_where_either_time_is_lacking() -> None:
    assert held(None, 1.0).error is None
    assert held(1.0, None).error is None


@pytest.mark.parametrize(("measured_s", "is_covered"), [(0.9, True), (1.19, True), (1.21, False), (0.82, False)])
def test_a_time_is_covered_inside_the_interval(measured_s: float, is_covered: bool) -> None:
    """Predicted 1 s, by a factor of 1.2 to both sides: 0.833 s to 1.2 s."""
    assert held(measured_s, 1.0).is_covered is is_covered


def test_without_an_interval_nothing_is_said_of_coverage() -> None:
    row = replace(held(1.0, 1.0), prediction=Prediction(value=1.0, low=math.nan, high=math.nan))
    assert row.is_covered is None and row.error == 0.0
    assert held(1.0, None).is_covered is None and held(None, 1.0).is_covered is None


def test_an_interval_is_90_percent_of_a_normal_in_log_time() -> None:
    made = around(2.0, 0.1)
    assert (made.value, made.low * made.high) == (2.0, pytest.approx(4.0))
    assert math.log(made.high / 2.0) == pytest.approx(0.164485, rel=1e-5)
    bare = around(2.0, math.nan)
    assert bare.value == 2.0 and math.isnan(bare.low) and math.isnan(bare.high)


@pytest.mark.parametrize("use", get_args(Use))
def test_only_rows_with_an_error_that_are_no_pathology_count(use: Use) -> None:
    assert held(1.0, 1.1, use).is_averaged is (use in ("fitted", "left out", "held"))
    assert not held(1.0, None, use).is_averaged and not held(None, 1.0, use).is_averaged


@given(measured_s=SECONDS, predicted_s=SECONDS)
def test_the_error_is_positive_where_the_model_is_slower(measured_s: float, predicted_s: float) -> None:
    error = held(measured_s, predicted_s).error
    assert error is not None and error > -1.0
    assert (error > 0) == (predicted_s / measured_s > 1)
