"""Cross-validation: each device count predicted by a fit that has seen none of its points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simfrontier.accuracy.fitting.least_squares import FitProblem, FitResult, fit, shown
from simfrontier.accuracy.predictors.fitted_rows import was_fitted
from simfrontier.accuracy.predictors.harness import Harness
from simfrontier.arrays import Floats
from simfrontier.collectives import Library
from simfrontier.errors import InputError
from simfrontier.measured import CallRow
from simfrontier.records import dataclass
from simfrontier.workers import Local, Workers

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
    return tuple(dict.fromkeys((row.machine, row.devices) for row in problem.rows))


def cross_validated(
    problem: FitProblem, progress: Callable[[Where], None] = lambda place: None, workers: Workers | None = None
) -> CrossValidation:
    """Leave out whole device counts, one after the other; `progress` is called with each as its fit is handed out.
    `workers`: who fits, a device count at a time (None: this process).

    Every fit begins from the values of the library's file, whatever the times that are left out. With shipped rows
    these values come from a fit to all of them: they choose the minimum that is found, not its place. What only the
    points left out show stays as in the file, which for such rows would be what they were fitted to: that is a fault.
    With one device count there is nothing to fit to: no errors, no fits.
    """
    errors = np.full(len(problem.rows), np.nan)
    fits: dict[Where, FitResult] = {}
    faults: dict[Where, str] = {}
    places = places_of(problem)

    def calls() -> Iterator[tuple[Library, tuple[Harness, ...], Sequence[CallRow], Where]]:
        for place in places if len(places) > 1 else ():
            progress(place)
            yield problem.library, problem.harnesses, problem.rows, place

    made = (workers or Workers(Local())).in_order(_without, calls())
    for place, found in zip(places, made, strict=False):
        if isinstance(found, str):
            faults[place] = found
            continue
        fits[place], errors[_is_of(problem.rows, place)] = found
    return CrossValidation(errors=errors, fits=fits, faults=faults)


def _is_of(rows: Sequence[CallRow], place: Where) -> NDArray[np.bool_]:
    return np.array([(row.machine, row.devices) == place for row in rows])


def _without(
    library: Library, harnesses: tuple[Harness, ...], rows: Sequence[CallRow], place: Where
) -> tuple[FitResult, Floats] | str:
    """The fit without a device count, and its log errors there; or why there is none."""
    problem, left = FitProblem(library=library, harnesses=harnesses, rows=rows), _is_of(rows, place)
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
