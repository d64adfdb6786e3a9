"""Fits the numbers that several libraries share (NCCL in one node) to the measured calls of all of them, and predicts
calls by fits without their size, their number of devices, or their device: `make refit-calls`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.accuracy.fit_rows import fits_without
from simfrontier.answers.accuracy.least_squares import SOFT, WIDEST, FitProblem, allowed, problem_of, shown
from simfrontier.answers.accuracy.predictors import FITS, Fit, fitted_rows
from simfrontier.base.arrays import Floats
from simfrontier.inputs.measured import CallRow, load_tables

SMALL: Final = 32 * 1024  # bytes of messages that show the launch and the hops of a device
PRIOR_SD: Final = 1.0  # of the logarithm of a parameter: a factor of e
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A fitted number with its value in the files, and the libraries that have it from one file."""

    key: str
    value: float
    libraries: tuple[str, ...]


@dataclass(frozen=True)
class Joint:
    """Measured calls of several libraries (`fitted`: those that the files were fitted to) and the numbers that these
    calls depend on."""

    problems: Sequence[FitProblem]

    @cached_property
    def rows(self) -> list[CallRow]:
        return [row for problem in self.problems for row in problem.rows]

    @cached_property
    def fitted(self) -> Mask:
        known = {row for problem in self.problems for row in fitted_rows(problem.library.name)}
        return np.array([row in known for row in self.rows])

    @cached_property
    def parameters(self) -> list[Shared]:
        libraries: dict[tuple[str, float], list[str]] = {}
        for problem in self.problems:
            seen = set(shown(problem)[0])
            for number in problem.library.provenance():
                if number.key in seen and number.kind == "fitted":
                    libraries.setdefault((number.key, float(number.value)), []).append(problem.library.name)
        return [Shared(key=key, value=value, libraries=tuple(of)) for (key, value), of in libraries.items()]

    def log_errors(self, values: Sequence[float]) -> Floats:
        """Return log(predicted / measured) of every row."""
        each = list(zip(self.parameters, values, strict=True))
        return np.concatenate(
            [
                problem.log_errors({one.key: value for one, value in each if problem.library.name in one.libraries})
                for problem in self.problems
            ]
        )

    def fit(self, seen: Mask, prior: Sequence[float]) -> list[float]:
        """Return the values that fit the rows of a mask, each with a prior of a factor of e around `prior`."""
        from scipy.optimize import least_squares

        about = np.log(prior)
        ends = np.array([[max(end, 1e-300) for end in allowed(one.key)] for one in self.parameters])
        low, high = np.maximum(about - WIDEST, np.log(ends[:, 0])), np.minimum(about + WIDEST, np.log(ends[:, 1]))

        def errors(logs: Floats) -> Floats:
            return np.concatenate((self.log_errors(np.exp(logs).tolist())[seen], SOFT * (logs - about) / PRIOR_SD))

        begin = np.clip(about, low + 1e-6, high - 1e-6)
        solved = least_squares(errors, begin, loss="soft_l1", f_scale=SOFT, bounds=(low, high), xtol=1e-6)
        return np.exp(solved.x).tolist()

    def without_device(self, machine: str) -> list[float]:
        """Return the values by the rows of other machines. What only the library of this machine has begins at the mean
        of the other libraries; where no other machine has it, messages up to `SMALL` show it."""
        (library,) = {row.library for row in self.rows if row.machine == machine}
        prior = []
        for one in self.parameters:
            others = [other.value for other in self.parameters if other.key == one.key and other is not one]
            own = one.libraries == (library,) and others
            prior.append(math.exp(np.log(others).mean()) if own else one.value)
        of_it = np.array([row.machine == machine for row in self.rows])
        of_library = np.array([row.library == library for row in self.rows]) & ~of_it
        small = np.array([row.num_bytes <= SMALL for row in self.rows])
        seen = (self.fitted & ~of_it) | (of_library if of_library.any() else of_it & small)
        return self.fit(seen, prior)


def joint(fit: Fit) -> Joint:
    """Return the rows of a fit, and those of other machines with the same libraries."""
    problems = []
    for library in fit.libraries:
        rows = fitted_rows(library)
        machines = {row.machine for row in rows}
        calls = (row for table in load_tables() for row in table.rows if isinstance(row, CallRow))
        others = [row for row in calls if row.library == library and row.machine not in machines]
        problems.append(problem_of(library, (*rows, *others)))
    return Joint(problems)


def show(what: str, errors: Floats) -> None:
    off = np.abs(np.expm1(errors))
    sys.stdout.write(f"  {what}: mean error {off.mean():.1%}, 90th percentile {np.quantile(off, 0.9):.1%}\n")


def print_left_out(what: str, calls: Joint, group: Callable[[CallRow], Hashable]) -> None:
    """Print the errors of rows by fits without their group."""
    prior = [one.value for one in calls.parameters]
    groups = [group(row) if old else None for row, old in zip(calls.rows, calls.fitted.tolist(), strict=True)]
    errors = np.full(len(groups), np.nan)
    for name, left, values in fits_without(groups, lambda left: calls.fit(calls.fitted & ~left, prior)):
        if name is not None:
            errors[left] = calls.log_errors(values)[left]
    for machine in dict.fromkeys(row.machine for row in calls.rows):
        of_it = np.array([row.machine == machine for row in calls.rows]) & calls.fitted
        if of_it.any():
            show(f"{machine}, left out by {what}", errors[of_it])
    show(f"all, left out by {what}", errors[calls.fitted])


def refit(fit: Fit) -> None:
    calls = joint(fit)
    sys.stdout.write(f"{', '.join(fit.libraries)}: {calls.fitted.sum()} rows, {len(calls.parameters)} parameters\n")
    values = calls.fit(calls.fitted, [one.value for one in calls.parameters])
    for one, value in zip(calls.parameters, values, strict=True):
        sys.stdout.write(f"  {one.libraries[0]} {one.key}: {one.value:.4g} → {value:.4g}\n")
    show("fitted", calls.log_errors(values)[calls.fitted])
    print_left_out("size", calls, lambda row: row.num_bytes)
    if any("caps." in one.key for one in calls.parameters):  # rates of a number of devices: no other one shows them
        return
    print_left_out("number of devices", calls, lambda row: row.devices)
    for machine in dict.fromkeys(row.machine for row, old in zip(calls.rows, calls.fitted, strict=True) if old):
        here = np.array([row.machine == machine for row in calls.rows])
        show(f"{machine}, device left out", calls.log_errors(calls.without_device(machine))[here & calls.fitted])


def main() -> None:
    for fit in FITS:
        if len(fit.libraries) > 1:
            refit(fit)


if __name__ == "__main__":
    main()
