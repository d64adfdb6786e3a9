"""Rows that a fit is made to, and cross-validation: points of a group are predicted by a fit that has not seen them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.accuracy.least_squares import FitProblem, FitResult, fit, problem_of, shown, with_numbers
from simfrontier.answers.accuracy.predictors import FITS, fitted_rows, was_fitted
from simfrontier.answers.accuracy.predictors.calls import Harness, lacking, other_place, predict_call, shown_fault
from simfrontier.answers.accuracy.residual import NotCovered, Prediction
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError, nearest
from simfrontier.base.units import counted
from simfrontier.base.workers import Local, Workers
from simfrontier.core.collectives import Library
from simfrontier.inputs.measured import CallRow, Pathology, Row, call_faults

Reason = TypeVar("Reason", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRows:
    """Rows to fit to, and how many others are left out, by reason."""

    library: str
    machines: tuple[str, ...]
    rows: tuple[CallRow, ...]
    set_aside: Mapping[NotCovered, int]


def choose(rows: Sequence[CallRow], machines: Sequence[str], library: str | None, min_bytes: int) -> FitRows:
    """Return the rows of a library on these machines (none named: those of the rows, if they are of one).

    Raises InputError where the rows are of several and none is named, a name has no rows, or no row can be fitted to.
    """
    libraries = (library,) if library is not None else ()
    (one,) = named("library", (row.library for row in rows), libraries)
    of_library = [row for row in rows if row.library == one]
    where = named("machine", (row.machine for row in of_library), machines)
    faults = call_faults()
    kept, reasons = set_apart(rows, lambda row: _missing(row, one, where, min_bytes, faults))
    if not kept:
        missing, number = reasons.most_common(1)[0]
        raise InputError(f"none of {len(rows):,} rows can be fitted to: {missing} ({number:,})")
    return FitRows(library=one, machines=where, rows=tuple(kept), set_aside=dict(reasons))


def set_apart(
    rows: Iterable[CallRow], reason: Callable[[CallRow], Reason | None]
) -> tuple[list[CallRow], Counter[Reason]]:
    """Return the rows without a reason to leave them out, and how many others there are by reason."""
    kept: list[CallRow] = []
    others: Counter[Reason] = Counter()
    for row in rows:
        if (why := reason(row)) is None:
            kept.append(row)
        else:
            others[why] += 1
    return kept, others


def named(what: Literal["library", "machine"], there: Iterable[str], asked: Sequence[str]) -> tuple[str, ...]:
    """Return the requested names, all of which must exist; without any, the only one that exists. Raises InputError."""
    counts = Counter(there)
    for name in asked:
        if name not in counts:
            raise InputError(f"--{what}: no rows of {what} {name!r}, {nearest(name, counts)}")
    if not asked and len(counts) > 1:
        text = ", ".join(f"{name} ({counted(number, 'row')})" for name, number in counts.items())
        many = {"library": "libraries", "machine": "machines"}[what]
        raise InputError(f"the rows are of several {many}: {text}; allowed: one of them, --{what} NAME")
    return tuple(dict.fromkeys(asked or counts))


def _missing(
    row: CallRow, library: str, machines: Sequence[str], min_bytes: int, faults: Sequence[Pathology]
) -> NotCovered | None:
    """Return why a row is not among those to fit; None if it is."""
    if row.library != library or row.machine not in machines:
        return NotCovered(reason="of other libraries or machines")
    if row.num_bytes < min_bytes:
        return NotCovered(reason=f"below {min_bytes:,} bytes (--min-bytes)")
    if missing := lacking(row) or other_place(row):
        return missing
    fault = shown_fault(row, faults)
    return None if fault is None else NotCovered(reason=fault)


Mask = NDArray[np.bool_]
Group = TypeVar("Group", bound=Hashable)
Fit = TypeVar("Fit")


def fits_without(
    groups: Sequence[Group],
    fit: Callable[[Mask], Fit],
    workers: Workers | None = None,
    progress: Callable[[Group], None] = lambda group: None,
) -> Iterator[tuple[Group, Mask, Fit]]:
    """Leave out each group of points in turn and fit the others: the group, which points are of it, and the fit.

    `groups`: the group of every point. `fit`: takes which points are left out. `workers`: who fits, a group at a time
    (None: this process); `progress` is called with each group as its fit is handed out.
    """
    members = {group: np.array([each == group for each in groups]) for group in dict.fromkeys(groups)}

    def calls() -> Iterator[tuple[Mask]]:
        for group, mask in members.items():
            progress(group)
            yield (mask,)

    made = (workers or Workers(Local())).in_order(fit, calls())
    for (group, mask), fitted in zip(members.items(), made, strict=True):
        yield group, mask, fitted


Where = tuple[str, int]  # machine, devices


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidation:
    """Log errors of every point by a fit without its machine's and device count's points; NaN where no fit could be
    made. `fits` by (machine, devices) that were left out; `faults` say why there is none."""

    errors: Floats
    fits: Mapping[Where, FitResult]
    faults: Mapping[Where, str]


def places_of(problem: FitProblem) -> tuple[Where, ...]:
    """Return the device counts of every machine, in the order of the points."""
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
    """Predict every row that a shipped library was fitted to by a fit without its device count; rows for which no such
    fit can be made are missing."""
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
    """Return the fit without some points, and its log errors there; or why there is none."""
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
