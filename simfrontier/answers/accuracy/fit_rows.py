"""Selection of the rows to fit, and cross-validation: each group of points is predicted by a fit that
has not seen it.
"""

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
    """Rows to fit, and the number of other rows that were left out, by reason."""

    library: str
    machines: tuple[str, ...]
    rows: tuple[CallRow, ...]
    set_aside: Mapping[NotCovered, int]


def choose(rows: Sequence[CallRow], machines: Sequence[str], library: str | None, min_bytes: int) -> FitRows:
    """Return the rows of a library on the named machines (by default on the machine of the rows, if there is only one).

    Raises InputError if the rows belong to several machines or libraries and none is named, if a name has no rows, or
    if no row can be used for a fit.
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
    """Return the rows that `reason` gives no reason to leave out, and the number of the other rows by reason."""
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
    """Return the reason why a row cannot be used for the fit; None if it can."""
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
    """Leave out each group of points in turn and fit the others. Yield the group, the mask of its points, and the fit.

    `groups`: the group of every point. `fit`: called with the mask of the points to leave out. `workers`: run the fits
    in parallel, one group at a time (None: in this process). `progress`: called with each group when its fit is
    yielded.
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
    """Log error of every point by a fit without the points of the same machine and device count; NaN where no fit was
    possible. `fits`: by the (machine, devices) that were left out; `faults`: reasons why a fit is missing.
    """

    errors: Floats
    fits: Mapping[Where, FitResult]
    faults: Mapping[Where, str]


def places_of(problem: FitProblem) -> tuple[Where, ...]:
    """Return the pairs (machine, device count) of a fit problem, in the order of the points."""
    return tuple(dict.fromkeys(map(_place, problem.rows)))


def cross_validated(
    problem: FitProblem, progress: Callable[[Where], None] = lambda place: None, workers: Workers | None = None
) -> CrossValidation:
    """Cross-validate a fit: leave out one (machine, device count) after the other (see `fits_without`).

    Every fit starts from the values of the library's file, whichever points are left out. For shipped rows these values
    come from a fit to all of them: they determine which minimum is found, but not its position. Parameters on which
    only the left-out points depend keep the values of the file; for shipped rows those values were fitted to these same
    points, which counts as a fault. With a single device count nothing can be fitted: no errors, no fits.
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
    """Predict every row that a shipped library was fitted to by a fit that leaves out the device count of the row. Rows
    for which no such fit is possible, and those of libraries that were fitted together, are missing.
    """
    alone = [each.libraries[0] for each in FITS if len(each.libraries) == 1]
    return {row: made for library in alone for row, made in _shipped_left_out(library, workers)}


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
    """Return the fit without the points `left`, and its log errors at these points; or the reason why there is no such
    fit.
    """
    problem = FitProblem(library=library, harnesses=harnesses, rows=rows)
    try:
        fitted, alone = fit(problem.only(~left)), problem.only(left)
        _refuse_known(alone, fitted)
    except InputError as error:
        return str(error)
    return fitted, alone.log_errors(fitted.values)


def _refuse_known(alone: FitProblem, fitted: FitResult) -> None:
    """Raise InputError if values of the library's file that the fit kept had been fitted to the left-out points."""
    if fitted.unseen and any(map(was_fitted, alone.rows)):
        known = [key for key in shown(alone)[0] if key in fitted.unseen]
        if known:
            raise InputError(f"no other points show {', '.join(known)}, and the file's value was fitted to these")
