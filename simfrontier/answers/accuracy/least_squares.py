"""Robust least-squares fit, in log time, of the numbers that the file of a library or harness marks as fitted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress, groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.accuracy.predictors.calls import KINDS, Harness, groups_of, shipped_harnesses
from simfrontier.answers.accuracy.residual import covariance
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library, load_library
from simfrontier.core.cost import EqualGroups
from simfrontier.inputs.measured import CallRow

STEPPED = "tuning.simple_weight"  # moves thresholds only: the error is a staircase in it
_NOT_OF_THE_LAW = ("residual.",)
# Numbers that are one with a free parameter: the file says so, and marks only the first of them as fitted.
_ONE_WITH: Mapping[str, Mapping[str, str]] = {
    "cray-mpich": {
        "ring.hop_in_node_s": "ring.hop_between_nodes_s",
        "ring_ll.hop_in_node_s": "ring_ll.hop_between_nodes_s",
    },
    "recursive-halving-mpi4py": {"direct.hop_in_node_s": "direct.hop_between_nodes_s"},
}
_LEVELS = ("levels.", "harness.")

_Said = TypeVar("_Said")  # of a parameter: its value, or its interval
_Value = TypeVar("_Value")


def free_parameters(library: Library, harnesses: Sequence[Harness]) -> dict[str, float]:
    """Return dotted key → value of every number that the library and the harnesses mark as fitted.

    For a two-level library: only the numbers of its own file; the two underlying libraries have parameters of their
    own.
    """
    numbers = [*library.provenance(), *(number for harness in harnesses for number in harness.provenance)]
    return {
        number.key: float(number.value)
        for number in numbers
        if number.kind == "fitted"
        and not number.key.startswith(_NOT_OF_THE_LAW)
        and (library.two_level is None or number.key.startswith(_LEVELS))
    }


def allowed(key: str) -> tuple[float, float]:
    """Return the lower and upper limit of a parameter: a share is at most 1, the sharpness of a corner at least 1."""
    if key.startswith(("shares.", "ring_shares.")) or key.endswith(("_share", "bandwidth_ratio")):
        return 0.0, 1.0
    return (1.0, math.inf) if key.endswith(".sharpness") else (0.0, math.inf)


def with_partners(library: str, known: Mapping[str, _Said]) -> dict[str, _Said]:
    """Return `known` (by dotted key), extended by the library's numbers that are always equal to one of
    its parameters.
    """
    partners = _ONE_WITH.get(library, {})
    return dict(known) | {partners[key]: each for key, each in known.items() if key in partners}


def with_numbers(
    library: Library, harnesses: Sequence[Harness], numbers: Mapping[str, float]
) -> tuple[Library, tuple[Harness, ...]]:
    """Return the library and the harnesses with new values for some numbers, by dotted key."""
    changed = {harness.name: harness for harness in harnesses}
    for key, value in with_partners(library.name, numbers).items():
        if key.startswith("harness."):
            _, whose, name = key.split(".")
            changed[whose] = with_number(changed[whose], (name,), value)
        else:
            for path, number in _places(library, key, value):
                library = with_number(library, path, number)
    return library, tuple(changed.values())


def with_number(whole: _Value, path: Sequence[Any], number: float) -> _Value:
    """Return a copy of `whole` with the number at a path of attributes and mapping keys replaced."""
    first, *rest = path
    if isinstance(whole, Mapping):
        part = with_number(whole[first], rest, number) if rest else number
        return {**whole, first: part}  # type: ignore[return-value]
    part = with_number(getattr(whole, first), rest, number) if rest else number
    return replace(whole, **{first: part})  # type: ignore[type-var]


def _places(library: Library, key: str, value: float) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Yield each path in a library that a dotted key of its file refers to, with the number there."""
    part, name = key.rsplit(".", 1)
    match part.split("."):
        case ["levels"]:
            assert library.two_level is not None, "a library of one level has no number of two"
            for kind, levels in library.two_level.calls.items():
                between = ("two_level", "calls", kind, "between")
                if name == "rate_share":
                    for link, share in _shares_of(levels.between.name).items():
                        yield (*between, "shares", link), share * value
                else:
                    yield (*between, "ring", name), value
        case ["levels", kind] if name == "hop_between_nodes_s":
            for law in ("ring", "direct"):
                yield ("two_level", "calls", kind, "between", law, name), value
        case ["levels", kind]:
            yield ("two_level", "calls", kind, name), value
        case _:
            yield (*part.split("."), name), value


@lru_cache(maxsize=16)
def _shares_of(library: str) -> Mapping[str, float]:
    """Return the share of the bandwidth of each link class that a library reaches by itself."""
    return load_library(library).shares


SOFT = 0.1  # log errors beyond this count less and less than their square (soft l1)
STEPS = np.round(np.arange(0.70, 1.31, 0.01), 2)  # values tried of the stepped parameter
LEAST_EFFECT = 1e-6  # of a parameter on any log time, where it is changed by its own size: below it is not seen
WIDEST = 3.0  # in logs: a parameter stays within a factor of 20 of where it began
INSIDE = 1e-3  # in logs: a fit begins so far within what a parameter may be
EXACT = 1e-6  # log errors smaller than that are those of arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """Result of a fit: values by dotted key, 90 % confidence intervals, and the remaining log error of every point.

    The interval of the stepped parameter is the range of values that sort the points in the same way: within it the fit
    does not change.

    `unseen`: parameters on which no point depends; they keep their values.
    """

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    unseen: tuple[str, ...]
    errors: Floats

    @property
    def num_parameters(self) -> int:
        return len(self.values)


@dataclass(eq=False)
class FitProblem:
    """Measured points of one library with all inputs of their model, prepared once and evaluated many times."""

    library: Library
    harnesses: tuple[Harness, ...]
    rows: Sequence[CallRow]

    def __post_init__(self) -> None:
        self.groups: list[EqualGroups] = [groups_of(row.machine, row.devices) for row in self.rows]
        self.log_times = np.log([row.seconds for row in self.rows])
        self.added = [[each.covers(row) for each in self.harnesses] for row in self.rows]

    def log_errors(self, numbers: Mapping[str, float]) -> Floats:
        """Return log(predicted / measured) of every point."""
        library, harnesses = with_numbers(self.library, self.harnesses, numbers)
        times = [
            groups.seconds(library, KINDS[row.collective], row.num_bytes)
            + sum(each.seconds(row.devices, row.num_bytes) for each in compress(harnesses, added))
            for row, groups, added in zip(self.rows, self.groups, self.added, strict=True)
        ]
        return np.log(times) - self.log_times

    def only(self, keep: NDArray[np.bool_]) -> FitProblem:
        """Return the same problem restricted to some of its points."""
        return FitProblem(library=self.library, harnesses=self.harnesses, rows=list(compress(self.rows, keep)))


def problem_of(library: str, rows: Sequence[CallRow]) -> FitProblem:
    """Return the fit problem of rows of a library (given by name), with the shipped harnesses that cover any of the
    rows. Raises InputError.
    """
    harnesses = tuple(one for one in shipped_harnesses() if any(map(one.covers, rows)))
    return FitProblem(library=load_library(library), harnesses=harnesses, rows=rows)


def fit(problem: FitProblem) -> FitResult:
    """Fit the free parameters, starting from the values of the files. Raises InputError if there are too few points."""
    free, name, number = free_parameters(problem.library, problem.harnesses), problem.library.name, len(problem.rows)
    if not free:
        raise InputError(
            f"fit of library {name}: its file marks no number as fitted; allowed: a library whose file does"
        )
    seen, unseen = shown(problem) if number else ([], list(free))
    smooth = [key for key in seen if key != STEPPED]
    if not smooth:
        raise InputError(f"fit of library {name}: {number} points show none of its parameters: {', '.join(unseen)}")
    if number <= len(seen):
        raise InputError(
            f"fit of library {name}: got {number} points for {len(seen)} parameters; "
            "allowed: more points than parameters"
        )
    if STEPPED in seen:
        steps = {run[len(run) // 2]: (run[0], run[-1]) for run in _runs(problem, free)}
        fits = {step: _least_squares(problem, smooth, {**free, STEPPED: step}) for step in steps}
        step = min(fits, key=lambda step: fits[step][0])
        best, stepped, alike = fits[step][1], {STEPPED: step}, {STEPPED: steps[step]}
    else:
        best, stepped, alike = _least_squares(problem, smooth, free)[1], {}, {}
    values = dict(zip(smooth, best.tolist(), strict=True)) | stepped
    return FitResult(
        values=values,
        intervals=_intervals(problem, smooth, values) | alike,
        unseen=tuple(unseen),
        errors=problem.log_errors(values),
    )


def shown(problem: FitProblem) -> tuple[list[str], list[str]]:
    """Return the free parameters on which some point depends, and those on which no point depends."""
    free = free_parameters(problem.library, problem.harnesses)
    base = problem.log_errors(free)
    seen = [
        key
        for key, value in free.items()
        if any(np.abs(problem.log_errors({**free, key: value * by}) - base).max() > LEAST_EFFECT for by in (0.5, 1.5))
    ]
    return seen, [key for key in free if key not in seen]


def _runs(problem: FitProblem, free: Mapping[str, float]) -> list[list[float]]:
    """Return every way in which the stepped parameter sorts the points, as lists of neighbouring values that all sort
    the points in the same way.
    """

    def sorted_points(step: float) -> bytes:
        return np.round(problem.log_errors({**free, STEPPED: step}), 12).tobytes()

    return [list(steps) for _, steps in groupby(STEPS.tolist(), sorted_points)]


def _least_squares(problem: FitProblem, keys: Sequence[str], free: Mapping[str, float]) -> tuple[float, Floats]:
    """Return the cost and the values of the parameters `keys` that minimise it, the other parameters unchanged;
    computed in logarithms, so that all values stay positive.
    """
    from scipy.optimize import least_squares

    def errors(logs: Floats) -> Floats:
        return problem.log_errors({**free, **dict(zip(keys, np.exp(logs).tolist(), strict=True))})

    begin = np.log([free[key] for key in keys])
    least, most = (_logs(ends) for ends in zip(*map(allowed, keys), strict=True))
    bounds = np.maximum(begin - WIDEST, least), np.minimum(begin + WIDEST, most)
    begin = np.clip(begin, bounds[0] + INSIDE, bounds[1] - INSIDE)
    solved = least_squares(errors, begin, loss="soft_l1", f_scale=SOFT, bounds=bounds, xtol=1e-6)
    return float(solved.cost), np.exp(solved.x)


def _intervals(problem: FitProblem, keys: Sequence[str], values: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return 90 % confidence intervals from the curvature at the solution (`covariance` of the logarithms). The weights
    are those that the robust loss gives the points, divided by the weighted mean square error per degree of freedom.

    The prior states that each parameter was sought within a factor of e^WIDEST. It determines the interval where no
    point depends on a parameter near the solution, and has almost no effect elsewhere.
    """
    from scipy.stats import t

    base = problem.log_errors(values)
    step = 1e-4
    columns = [(problem.log_errors({**values, key: values[key] * (1 + step)}) - base) / step for key in keys]
    slopes = np.array(columns).T
    weights = 1.0 / np.sqrt(1.0 + (base / SOFT) ** 2)
    freedom = max(1, len(base) - len(values))
    spread = max(float((weights * base**2).sum() / freedom), EXACT**2)
    quantile = t.ppf(0.95, freedom)
    sought_sd = np.full(len(keys), WIDEST / quantile)
    halves = quantile * np.sqrt(np.diag(covariance(slopes, weights / spread, sought_sd)))
    return {key: _around(values[key], half, key) for key, half in zip(keys, halves.tolist(), strict=True)}


def _around(value: float, half: float, key: str) -> tuple[float, float]:
    """Return the interval from value × e^-half to value × e^half, clipped to the limits of the parameter."""
    least, most = allowed(key)
    return max(value * math.exp(-half), least), min(value * math.exp(half), most)


def _logs(ends: Sequence[float]) -> Floats:
    with np.errstate(divide="ignore"):  # of 0: anything above it
        return np.log(ends)
