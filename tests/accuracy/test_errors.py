"""Errors of several rows, by table and use; the bounds that they are held to; and tables held against models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.accuracy.bounds import ErrorBound, judge, load_bounds
from simfrontier.accuracy.errors import EVERYTHING, errors_of, summaries_of, summary_of
from simfrontier.accuracy.residual import Prediction, Residual
from simfrontier.accuracy.validation import ONLY_BOUNDED, validate
from simfrontier.measured import Pathology, load_tables
from tests.accuracy.standins import held, models, predicted, table, training
from tests.rows import MIB, call
from tests.some import some


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


def test_one_row_is_its_own_percentile() -> None:
    errors = errors_of(rows_of([-0.25]))
    assert errors is not None
    assert (errors.median, errors.mean_abs, errors.p90_abs) == pytest.approx((-0.25, 0.25, 0.25))


def test_what_does_not_count_makes_no_errors() -> None:
    assert errors_of([]) is None
    assert errors_of([held(1.0, 9.0, "pathology"), held(1.0, None, "no model"), held(None, None, "no model")]) is None


def test_rows_without_an_interval_are_left_out_of_the_coverage() -> None:
    bare = replace(held(1.0, 1.0), prediction=Prediction(value=1.0, low=math.nan, high=math.nan))
    none, half = errors_of([bare]), errors_of([bare, held(1.0, 1.0), held(1.0, 2.0)])
    assert none is not None and none.covered is None
    assert half is not None and (half.count, half.covered) == (3, 0.5)


@given(st.lists(st.floats(-0.9, 5.0), min_size=1, max_size=40))
def test_averages_lie_between_the_extremes(errors: list[float]) -> None:
    result = errors_of(rows_of(errors))
    assert result is not None and result.worst.error is not None
    farthest = abs(result.worst.error)
    assert result.mean_abs <= farthest * (1 + 1e-12) and result.p90_abs <= farthest * (1 + 1e-12)
    assert min(errors) - 1e-12 <= result.median <= max(errors) + 1e-12


def test_a_summary_counts_uses_apart_and_pathologies_beside() -> None:
    rows = [
        held(1.0, 1.1, "fitted"),
        held(1.0, 1.3, "held"),
        held(1.0, 0.01, "pathology"),
        held(1.0, None, "no model"),
    ]
    made = summary_of("one", rows)
    assert (made.num_rows, made.num_pathologies, made.num_unknown) == (4, 1, 1)
    assert made.errors is not None and made.errors.mean_abs == pytest.approx(0.2)
    assert {use: each.mean_abs for use, each in made.by_use.items()} == pytest.approx({"fitted": 0.1, "held": 0.3})


def test_tables_are_summed_up_in_their_order_and_once_all_together() -> None:
    rows = [*rows_of([0.1], table="b"), *rows_of([0.2], table="a")]
    assert [each.name for each in summaries_of(rows)] == ["b", "a", EVERYTHING]
    assert [each.name for each in summaries_of(rows[:1])] == ["b"]
    assert summaries_of([]) == ()


def test_rows_that_no_fit_had_seen_are_summed_up_apart() -> None:
    rows = [held(1.0, 1.5, "fitted"), held(1.0, 1.1, "left out"), held(1.0, 1.3)]
    made = summary_of("one", rows)
    assert made.unseen is not None and (made.unseen.count, made.unseen.mean_abs) == (2, pytest.approx(0.2))
    assert summary_of("one", rows[:1]).unseen is None


def test_a_rate_of_training_is_not_among_what_is_not_predicted() -> None:
    rows = [replace(held(None, None, "no model"), why=ONLY_BOUNDED), held(1.0, None, "no model")]
    assert summary_of("one", rows).num_unknown == 1


# ── bounds ──


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


def test_a_bound_on_some_uses_looks_at_no_others() -> None:
    rows = [held(1.0, 1.0, "fitted"), held(1.0, 1.5, "held")]
    fitted, unseen = (ErrorBound(table="one", series="", mean_abs=0.1, uses=uses) for uses in (["fitted"], ["held"]))
    assert [each.holds for each in judge([fitted, unseen], rows)] == [True, False]


def test_a_series_is_judged_by_what_was_left_out_where_anything_was() -> None:
    """Fitted rows are 50 % off and left-out ones 5 %: only these and held ones count, and which is said."""
    fitted, out, unseen = held(1.0, 1.5, "fitted"), held(1.0, 1.05, "left out"), held(1.0, 1.03)
    bound = ErrorBound(table="one", series="all", mean_abs=0.1)
    [judged] = judge([bound], [fitted, out, unseen])
    assert judged.errors is not None and (judged.errors.count, judged.uses) == (2, ("left out", "held"))
    assert judged.errors.mean_abs == pytest.approx(0.04) and judged.holds
    [without] = judge([bound], [fitted, unseen])
    assert without.uses == ("fitted", "held") and not without.holds


def test_a_bound_without_rows_is_missed() -> None:
    [judged] = judge([ErrorBound(table="gone", series="all", mean_abs=1.0)], [held(1.0, 1.0)])
    assert judged.errors is None and not judged.holds


def test_every_shipped_bound_has_rows_to_judge_by() -> None:
    """The fields that a bound names are those of its table's rows, and some rows are of its series."""
    done = validate(load_tables(), *models(fitted=lambda row: "lumi" not in row.machine))
    for bound in some(load_bounds()):
        shown = replace(bound, uses=("fitted", "left out", "held", "pathology", "no model"))
        assert any(map(shown.covers, done.rows)), bound.series
        assert 0 < bound.mean_abs < 0.3


def test_a_file_of_bounds_is_read_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "bounds.toml"
    path.write_text(
        '[[bounds]]\ntable = "b"\nseries = "x"\nmean_abs = 0.1\n[[bounds]]\ntable = "a"\nseries = ""\nmean_abs = 0.2\n'
    )
    assert [(bound.table, bound.mean_abs) for bound in load_bounds(path)] == [("b", 0.1), ("a", 0.2)]


# ── tables held against models ──

ODD = Pathology(reason="a stall", bytes_from=MIB, bytes_to=MIB, devices_from=128)


def test_a_users_row_is_a_known_pathology_only_where_it_is_outside_its_interval() -> None:
    """The model is 10 % off, inside its interval, and 50 % off, outside; others' tables are taken as they are told."""
    row = call(3.0, 128)
    for factor, citation, use in ((1.1, "", "held"), (1.5, "", "pathology"), (1.1, "a paper", "pathology")):
        done = validate([table([row], pathologies=(ODD,), citation=citation)], *models(factor))
        assert [each.use for each in done.rows] == [use]


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


def test_predictions_of_fits_that_left_rows_out_take_the_models_place() -> None:
    crossed, other = call(1.0), call(2.0)
    done = validate([table([crossed, other])], *models(fitted=lambda row: True), (), {crossed: predicted(1.4)})
    assert [(row.use, row.error) for row in done.rows] == [
        ("left out", pytest.approx(0.4)),
        ("fitted", pytest.approx(0.1)),
    ]


@pytest.mark.parametrize(("published", "holds"), [(50e12, True), (70e12, False)])
def test_a_rate_of_training_is_held_against_its_bound(published: float, holds: bool) -> None:
    done = validate([table([training(published)])], *models(most_flops_per_s=60e12))
    assert (done.rows[0].use, done.rows[0].why) == ("no model", ONLY_BOUNDED)
    assert [each.holds for each in done.bounded] == [holds] and done.holds is holds


def test_a_missed_bound_makes_the_validation_fail() -> None:
    tight = ErrorBound(table="one", series="all", mean_abs=0.05)
    assert not validate([table([call()])], *models(1.1), [tight]).holds
    assert validate([table([call()])], *models(1.04), [tight]).holds
