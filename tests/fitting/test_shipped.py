"""The shipped constants are those of a fit to the shipped tables: who changes one of the two makes the other."""

from __future__ import annotations

import pytest

from simfrontier.collectives import load_library
from simfrontier.fitting.fit import Problem, fit
from simfrontier.fitting.parameters import STEPPED, free_parameters
from simfrontier.validation.fits import FITS, fitted_rows
from simfrontier.validation.harness import shipped_harnesses

WITHIN = 0.01


@pytest.mark.parametrize("name", sorted(FITS))
def test_the_shipped_constants_are_those_of_a_refit(name: str) -> None:
    rows = fitted_rows(name)
    harnesses = tuple(one for one in shipped_harnesses() if any(map(one.covers, rows)))
    library = load_library(name)
    shipped = free_parameters(library, harnesses)
    fitted = fit(Problem(library=library, harnesses=harnesses, rows=rows))
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
