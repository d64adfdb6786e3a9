"""Fits of a library's parameters to times of calls: made-up times, cross-validation, and the shipped constants."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from simfrontier.answers.accuracy.fit_rows import cross_validated, places_of
from simfrontier.answers.accuracy.least_squares import (
    STEPPED,
    FitProblem,
    allowed,
    fit,
    free_parameters,
    problem_of,
    with_numbers,
    with_partners,
)
from simfrontier.answers.accuracy.predictors import FITS, fitted_rows
from simfrontier.core.collectives import Library, libraries, load_library
from simfrontier.core.machine import Provenance
from tests.answers.accuracy.fitting.rings import DEVICES, TRUE, calls, problem, rings, timed
from tests.refit_calls import joint
from tests.some import some


def test_known_parameters_come_back() -> None:
    fitted = fit(problem())
    assert fitted.values == pytest.approx(TRUE, rel=1e-6)
    assert np.abs(fitted.errors).max() < 1e-6
    assert fitted.unseen == ("tree.hop_between_nodes_s",)  # all-gathers do not go by tree


def test_intervals_hold_the_truth_about_nine_times_in_ten() -> None:
    """120 intervals at 90 %: 108 expected, standard deviation 3.3; 96 to 117 is 80 to 98 %."""
    inside = Counter[bool]()
    for seed in range(40):
        fitted = fit(problem(noise=0.05, seed=seed))
        inside.update(fitted.intervals[key][0] <= true <= fitted.intervals[key][1] for key, true in TRUE.items())
    assert 96 <= inside[True] <= 117


def test_outliers_move_the_fit_little() -> None:
    """3 of 30 points take five times as long. Least squares of logs would be pulled by log(5) / 10: 16 %."""
    before = problem(noise=0.03, seed=1)
    rows = [
        replace(row, seconds=row.seconds * (5.0 if place in (3, 12, 21) else 1.0))
        for place, row in enumerate(before.rows)
    ]
    after = fit(FitProblem(library=before.library, harnesses=(), rows=rows))
    moved = {key: abs(after.values[key] / fit(before).values[key] - 1.0) for key in TRUE}
    assert max(moved.values()) < 0.08, moved
    assert all(after.intervals[key][0] <= true <= after.intervals[key][1] for key, true in TRUE.items())


def tuned() -> Library:
    """The library, choosing between its protocols as RCCL does, with the weight of one as a free parameter."""
    tuning = load_library("rccl").tuning
    assert tuning is not None
    weight = Provenance(key=STEPPED, value=1.0, unit="", kind="fitted", source="made up")
    library = rings()
    return replace(library, tuning=replace(tuning, simple_weight=1.0), sources=(*library.sources, weight))


def test_the_stepped_parameter_comes_back_as_the_run_of_values_that_sort_the_points_alike() -> None:
    library = tuned()
    sizes = tuple(2**20 * number for number in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256))
    bare = calls(sizes=sizes)
    truth = {**TRUE, STEPPED: 0.85}
    made = FitProblem(library=library, harnesses=(), rows=timed(bare, library, truth))
    fitted = fit(made)
    low, high = fitted.intervals[STEPPED]
    assert 0.70 < low <= 0.85 <= high < 1.30
    assert low <= fitted.values[STEPPED] <= high
    assert {key: fitted.values[key] for key in TRUE} == pytest.approx(TRUE, rel=1e-6)
    for inside in (low, high):
        assert np.abs(made.log_errors({**truth, STEPPED: inside})).max() < 1e-9
    for outside in (low - 0.01, high + 0.01):
        assert np.abs(made.log_errors({**truth, STEPPED: outside})).max() > 1e-3


def slowed(made: FitProblem, devices: int, factor: float) -> FitProblem:
    """The same points, those on some devices slower."""
    rows = [replace(row, seconds=row.seconds * (factor if row.devices == devices else 1.0)) for row in made.rows]
    return FitProblem(library=made.library, harnesses=(), rows=rows)


def test_points_left_out_do_not_come_into_their_prediction() -> None:
    """Times of a device count that are three times as long are predicted just as before, so that the log errors go down
    by log 3; and the fit is that of the other points alone."""
    made = problem(noise=0.05)
    before, after = cross_validated(made), cross_validated(slowed(made, 64, 3.0))
    here = np.array([row.devices == 64 for row in made.rows])
    assert after.fits["frontier", 64].values == before.fits["frontier", 64].values
    assert after.errors[here] == pytest.approx(before.errors[here] - math.log(3.0), abs=1e-12)
    assert before.fits["frontier", 64].values == fit(made.only(~here)).values


def test_every_point_is_left_out_once_and_only_with_its_device_count() -> None:
    made = problem(noise=0.02)
    results: list[tuple[str, int]] = []
    crossed = cross_validated(made, results.append)
    assert tuple(results) == places_of(made) == tuple(crossed.fits) == tuple(("frontier", number) for number in DEVICES)
    assert not np.isnan(crossed.errors).any() and crossed.faults == {}
    for place, fitted in crossed.fits.items():
        assert len(fitted.errors) == len([row for row in made.rows if row.devices != place[1]])


WITH_PARAMETERS = [name for name in libraries() if free_parameters(load_library(name), ())]


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_a_changed_parameter_is_what_a_file_with_that_number_says(name: str) -> None:
    library = load_library(name)
    for key, value in some(free_parameters(library, ()).items()):
        other = 0.99 * value if allowed(key)[1] == 1.0 else 1.01 * value
        (changed, _) = with_numbers(library, (), {key: other})
        expected = load_library(name, with_partners(name, {key: other}))
        assert changed != library, key
        assert replace(changed, sources=()) == replace(expected, sources=()), key


WITHIN = 0.01


@pytest.mark.parametrize("name", [each.libraries[0] for each in FITS if len(each.libraries) == 1])
def test_the_shipped_constants_are_those_of_a_refit(name: str) -> None:
    problem = problem_of(name, fitted_rows(name))
    shipped = free_parameters(problem.library, problem.harnesses)
    fitted = fit(problem)
    assert set(fitted.unseen) == set(), "marked as fitted, but none of its rows shows them"
    different = {
        key: f"{key}: the file says {shipped[key]:.6g}, a fit {value:.6g}"
        for key, value in fitted.values.items()
        if key != STEPPED and abs(shipped[key] / value - 1.0) > WITHIN
    }
    assert different == {}
    if STEPPED in fitted.values:
        low, high = fitted.intervals[STEPPED]
        assert low <= shipped[STEPPED] <= high


@pytest.mark.parametrize(("library", "number"), [("nccl-ampere", 26), ("nccl-l40s", 25)])
def test_a_number_that_libraries_share_is_fitted_once(library: str, number: int) -> None:
    """What a file takes over from another one is one parameter; a number of its own is another."""
    calls = joint(next(each for each in FITS if library in each.libraries))
    assert len(calls.parameters) == number
    launches = [one for one in calls.parameters if one.key == "in_node.base_s"]
    assert [one.libraries for one in launches] == [(problem.library.name,) for problem in calls.problems]
    values = [one.value for one in calls.parameters]
    (first, *_), alone = calls.problems, calls.log_errors(values)
    assert alone[: len(first.rows)] == pytest.approx(first.log_errors({}))
    assert np.abs(calls.log_errors([2.0 * value for value in values]) - alone).max() > 0.5
