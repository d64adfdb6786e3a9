"""Predictions of fitted rows by fits that have not seen any row of their number of devices (`validate --cross`)."""

from __future__ import annotations

from collections.abc import Iterator

from simfrontier.accuracy import FITS, CallPredictor, Prediction, cross_validated, fitted_rows, problem_of, with_numbers
from simfrontier.measured import CallRow, Row
from simfrontier.workers import Workers


def left_out(workers: Workers) -> dict[Row, Prediction]:
    """Every row that a shipped library was fitted to, as fits without its number of devices predict it; rows are
    lacking where such a fit cannot be made."""
    return {row: made for library in FITS for row, made in _of_library(library, workers)}


def _of_library(name: str, workers: Workers) -> Iterator[tuple[CallRow, Prediction]]:
    rows = fitted_rows(name)
    problem = problem_of(name, rows)
    for place, fitted in cross_validated(problem, workers=workers).fits.items():
        library, added = with_numbers(problem.library, problem.harnesses, fitted.values)
        caller = CallPredictor(libraries={name: library}, harnesses=added)
        for row in rows:
            made = caller.predict(row) if (row.machine, row.devices) == place else None
            if isinstance(made, Prediction):
                yield row, made
