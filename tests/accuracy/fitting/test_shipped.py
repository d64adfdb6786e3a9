"""The shipped constants are those of a fit to the shipped tables: who changes one of the two makes the other."""

from __future__ import annotations

import pytest

from simfrontier.accuracy.fitting.least_squares import fit, problem_of
from simfrontier.accuracy.fitting.parameters import STEPPED, free_parameters
from simfrontier.accuracy.predictors.fitted_rows import FITS, fitted_rows

WITHIN = 0.01


@pytest.mark.parametrize("name", sorted(FITS))
def test_the_shipped_constants_are_those_of_a_refit(name: str) -> None:
    problem = problem_of(name, fitted_rows(name))
    shipped = free_parameters(problem.library, problem.harnesses)
    fitted = fit(problem)
    assert set(fitted.unseen) == set(), f"marked as fitted, but no row of {', '.join(FITS[name])} shows them"
    different = {
        key: f"{key}: the file says {shipped[key]:.6g}, a fit {value:.6g}"
        for key, value in fitted.values.items()
        if key != STEPPED and abs(shipped[key] / value - 1.0) > WITHIN
    }
    assert different == {}
    if STEPPED in fitted.values:
        low, high = fitted.intervals[STEPPED]
        assert low <= shipped[STEPPED] <= high
