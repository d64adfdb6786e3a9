"""Cross-validation of a library's fit: each device count predicted by a fit that has seen none of its points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from simfrontier.answers.accuracy.fitting.least_squares import FitProblem, FitResult, fit, problem_of, shown
from simfrontier.answers.accuracy.fitting.parameters import with_numbers
from simfrontier.answers.accuracy.leave_out import Mask, fits_without
from simfrontier.answers.accuracy.predictors.calls import predict_call
from simfrontier.answers.accuracy.predictors.fitted_rows import FITS, fitted_rows, was_fitted
from simfrontier.answers.accuracy.predictors.harness import Harness
from simfrontier.answers.accuracy.residual import Prediction
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError
from simfrontier.base.workers import Workers
from simfrontier.core.collectives import Library
from simfrontier.inputs.measured import CallRow, Row

Where = tuple[str, int]  # machine, devices


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidation:
    """Log errors of every point by a fit without its machine's and device count's points; NaN where no fit could be
    made. `fits` by (machine, devices) that were left out; `faults` say why there is none."""

    errors: Floats
    fits: Mapping[Where, FitResult]
    faults: Mapping[Where, str]


def places_of(problem: FitProblem) -> tuple[Where, ...]:
    """The device counts of every machine, in the order of the points."""
    return tuple(dict.fromkeys(map(_place, problem.rows)))


def cross_validated(
    problem: FitProblem, progress: Callable[[Where], None] = lambda place: None, workers: Workers | None = None
) -> CrossValidation:
    """Leave out whole device counts, one after the other (see `fits_without`).

    Every fit begins from the values of the library's file, whatever the times that are left out. With shipped rows
    these values come from a fit to all of them: they choose the minimum that is found, not its place. What only the
    points left out show stays as in the file, which for such rows would be what they were fitted to: that is a fault.
    With one device count there is nothing to fit to: no errors, no fits.
    """
    errors = np.full(len(problem.rows), np.nan)
    fits: dict[Where, FitResult] = {}
    faults: dict[Where, str] = {}
    places = [_place(row) for row in problem.rows] if len(places_of(problem)) > 1 else []
    fit_without = partial(_without, problem.library, problem.harnesses, problem.rows)
    for place, left, found in fits_without(places, fit_without, workers, progress):
        if isinstance(found, str):
            faults[place] = found
        else:
            fits[place], errors[left] = found
    return CrossValidation(errors=errors, fits=fits, faults=faults)


def shipped_rows_left_out(workers: Workers | None = None) -> dict[Row, Prediction]:
    """Every row that a shipped library was fitted to, as fits without its number of devices predict it; rows are
    lacking where such a fit cannot be made."""
    return {row: made for library in FITS for row, made in _shipped_left_out(library, workers)}


def _shipped_left_out(name: str, workers: Workers | None) -> Iterator[tuple[CallRow, Prediction]]:
    rows = fitted_rows(name)
    problem = problem_of(name, rows)
    for place, fitted in cross_validated(problem, workers=workers).fits.items():
        library, added = with_numbers(problem.library, problem.harnesses, fitted.values)
        for row in rows:
            made = predict_call(row, added, library) if _place(row) == place else None
            if isinstance(made, Prediction):
                yield row, made


def _place(row: CallRow) -> Where:
    return row.machine, row.devices


def _without(
    library: Library, harnesses: tuple[Harness, ...], rows: Sequence[CallRow], left: Mask
) -> tuple[FitResult, Floats] | str:
    """The fit without some points, and its log errors there; or why there is none."""
    problem = FitProblem(library=library, harnesses=harnesses, rows=rows)
    try:
        fitted, alone = fit(problem.only(~left)), problem.only(left)
        _refuse_known(alone, fitted)
    except InputError as error:
        return str(error)
    return fitted, alone.log_errors(fitted.values)


def _refuse_known(alone: FitProblem, fitted: FitResult) -> None:
    """Raise InputError where the file's values, which the fit without these points kept, were fitted to them."""
    if fitted.unseen and any(map(was_fitted, alone.rows)):
        known = [key for key in shown(alone)[0] if key in fitted.unseen]
        if known:
            raise InputError(f"no other points show {', '.join(known)}, and the file's value was fitted to these")
