"""Axes of a study: keys of scenarios and the rows of values that they take, listed or sampled."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simfrontier.answers.sweep.form import (
    SWEEP_POINTS,
    AxisTable,
    Method,
    RangeTable,
    SamplesTable,
    SamplingTable,
    Value,
)
from simfrontier.answers.sweep.keys import Settings, is_whole, put
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError, dotted, shown
from simfrontier.base.limits import LARGEST
from simfrontier.inputs.scenario import path_of, scenario_of

ENDS: Final = 2.0**-53  # of a share: at 0 and 1 a normal distribution has no value
PARAMETERS: Final[
    Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
] = {  # those needed, and those that may be there
    "uniform": (("low", "high"), ()),
    "log-uniform": (("low", "high"), ()),
    "normal": (("mean", "sd"), ("low", "high")),
    "log-normal": (("median", "sd"), ("low", "high")),
    "triangular": (("low", "mode", "high"), ()),
}
WAYS: Final = ("values", "range", "log_range", "samples", "between", "among", "rows")  # an axis has one of them
DIGITS: Final = 12  # of a number that is computed here: more of them differ between systems' logarithms
MOST_TRIED: Final = 64  # values of an axis that are all tried; of more numbers the ends, between which all are alike


# ── distributions ──


def quantiles(table: SamplesTable, shares: Sequence[float] | Floats) -> Floats:
    """Return the quantiles of a distribution at the given probabilities (`shares`)."""
    is_log = table.distribution.startswith("log-")
    numbers = _frozen(table, is_log).ppf(np.clip(shares, ENDS, 1.0 - ENDS))
    found: Floats = np.exp(numbers) if is_log else numbers
    return found


def _frozen(table: SamplesTable, is_log: bool) -> Any:
    """Return the scipy distribution of a table; if `is_log`, that of the logarithms."""
    from scipy import stats

    low, high = (None if end is None else math.log(end) if is_log else end for end in (table.low, table.high))
    if table.sd is not None:  # normal, perhaps cut
        middle = math.log(table.median) if table.median is not None else table.mean or 0.0
        first = -math.inf if low is None else (low - middle) / table.sd
        last = math.inf if high is None else (high - middle) / table.sd
        return stats.truncnorm(first, last, loc=middle, scale=table.sd)
    assert low is not None and high is not None, "looked at by refuse_parameters"
    if table.mode is not None:
        return stats.triang((table.mode - low) / (high - low), loc=low, scale=high - low)
    return stats.uniform(loc=low, scale=high - low)


def refuse_parameters(table: SamplesTable) -> None:
    """Raise InputError for parameters that are missing, belong to another distribution, or are in the wrong order."""
    needed, may = PARAMETERS[table.distribution]
    given = [name for name in ("low", "mode", "high", "mean", "sd", "median") if getattr(table, name) is not None]
    if not {*needed} <= {*given} <= {*needed, *may}:
        also = f", and may have {', '.join(may)}" if may else ""
        got = f"got {', '.join(given) or 'no parameters'}"
        text = f"{got}; a {table.distribution} distribution needs {', '.join(needed)}{also}"
        raise InputError(text, key=("distribution",))
    ends = [end for end in (table.low, table.mode, table.high) if end is not None]
    if ends != sorted(ends) or (len(ends) > 1 and ends[0] == ends[-1]):
        raise InputError(f"got {', '.join(f'{end:g}' for end in ends)}; allowed: low, mode and high in this order")
    if table.distribution.startswith("log-") and ends and ends[0] <= 0:
        end = "high" if table.low is None else "low"
        raise InputError(f"got {ends[0]:g}, allowed: above 0, as its logarithm is taken", key=(end,))


def shares(method: Method, count: int, num_axes: int, seed: int) -> Floats:
    """Return a reproducible sample of probabilities in [0, 1) [count, num_axes]. A Latin hypercube has one sample in
    each of `count` equal parts of every axis; Sobol' sequences are scrambled. For `saltelli`, `count` is the number of
    rounds, each with all points of its design.
    """
    if method == "saltelli":
        from simfrontier.answers.sweep.indices import design

        return design(num_axes, count, seed).reshape(-1, num_axes)
    draws = np.random.default_rng(seed)
    if method == "random":
        return draws.random((count, num_axes))
    from scipy.stats import qmc

    kind = qmc.LatinHypercube if method == "latin-hypercube" else qmc.Sobol
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of Sobol' where the count is no power of two: it is the user's
        made: Floats = kind(num_axes, rng=draws).random(count)
    return made


# ── axes ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Axis of a study: its `keys` and the `rows` of values that they take. `number`: index of its table in the study
    file; None for the joint axis of keys that are sampled together.
    """

    keys: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    number: int | None = None

    @property
    def count(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAxis:
    """A key whose values are sampled together with those of other axes: from a `distribution`, or `among` equally
    likely values. `between`: the limits of a uniform distribution, of the logarithm if `is_log`.
    """

    key: str
    number: int
    distribution: SamplesTable | None = None
    among: tuple[Value, ...] = ()
    between: tuple[float, float] | None = None
    is_log: bool = False

    @property
    def is_whole(self) -> bool:
        """True if the key of the axis holds a whole number."""
        return is_whole(self.key)

    def values(self, shares: Sequence[float] | Floats) -> list[Value]:
        """Return the quantiles of the axis at the given probabilities (`shares`)."""
        if self.distribution is None:
            num = len(self.among)
            return [self.among[min(int(share * num), num - 1)] for share in shares]
        numbers = quantiles(self.distribution, shares)
        if self.between is not None:
            numbers = np.clip(numbers, *self.between)
        return [number_of(number, self.is_whole) for number in numbers.tolist()]

    def tried(self) -> Axis:
        """Return an axis with only the smallest and the largest value, or with all values if they are unordered."""
        return _listed(self.key, self.among or self.values((0.0, 1.0)), self.number)


def number_of(number: float, whole: bool) -> float | int:
    """Return a number as written in a setting: as an integer if `whole`, otherwise with twelve digits."""
    return round(number) if whole else float(f"{number:.{DIGITS}g}")


def searched_axes(tables: Sequence[AxisTable]) -> tuple[SampledAxis, ...]:
    """Return the axes of a study that searches, all of which are searched over. Raises InputError."""
    out = []
    for made, number in _each(tables):
        if not isinstance(made, SampledAxis) or (made.between is None and not made.among):
            text = "is not searched over; allowed in a study with a search: between, or among"
            raise InputError(text, key=("axes", number))
        out.append(made)
    if not out:
        raise InputError("nothing is searched over; allowed: a study with axes", key=("search",))
    return tuple(out)


def axes_of(tables: Sequence[AxisTable], sampling: SamplingTable | None) -> tuple[Axis, ...]:
    """Return the axes of a study; those sampled together form one axis at the position of the first of them. Raises
    InputError.
    """
    made = list(_each(tables))
    together = [axis for axis, _ in made if isinstance(axis, SampledAxis)]
    if together and sampling is None:
        text = "is sampled, and nothing says how often; allowed: samples.count, or a table sampling = { count }"
        raise InputError(text, key=("axes", together[0].number))
    if sampling is not None and not together:
        raise InputError("no axis is sampled; allowed: with axes that have between, or samples", key=("sampling",))
    axes: list[Axis] = []
    for axis, _ in made:
        if isinstance(axis, Axis):
            axes.append(axis)
        elif sampling is not None and axis is together[0]:
            axes.append(_sampled(together, sampling.method, sampling.count, sampling.seed))
    return tuple(axes)


def _each(tables: Sequence[AxisTable]) -> Iterator[tuple[Axis | SampledAxis, int]]:
    """Yield the axis of each table with the table's number. Raises InputError, also for a key that occurs twice."""
    seen: set[str] = set()
    for number, table in enumerate(tables):
        try:
            for key in table.keys or [table.key or ""]:
                if key in seen:
                    raise InputError(f'key "{key}" stands twice; allowed: every key on one axis')
                seen.add(key)
            yield _axis(table, number), number
        except InputError as error:
            raise error.within(key=("axes", number)) from None


def _axis(table: AxisTable, number: int) -> Axis | SampledAxis:
    ways = [way for way in WAYS if getattr(table, way) is not None]
    if len(ways) != 1 or (table.key is None) == (table.keys is None) or (table.keys is None) != (table.rows is None):
        text = (
            f"got {' and '.join(ways) or 'none'} of {', '.join(WAYS)}; allowed: key with one of these, keys with rows"
        )
        raise InputError(text)
    if table.scale is not None and table.between is None:
        raise InputError("got scale without between; allowed: with between", key=("scale",))
    try:
        if table.keys is not None and table.rows is not None:
            return _zipped(table.keys, table.rows, number)
        assert table.key is not None, "of one key"
        return _of_one_key(table, table.key, number)
    except InputError as error:
        raise error.within(key=(ways[0],)) from None


def _zipped(keys: Sequence[str], rows: Sequence[Sequence[Value]], number: int) -> Axis:
    for place, row in enumerate(rows):
        if len(row) != len(keys):
            raise InputError(f"got a list of {len(row)}, allowed: of {len(keys)}, as many as keys", key=(place,))
    return Axis(keys=tuple(keys), rows=[tuple(row) for row in rows], number=number)


def _of_one_key(table: AxisTable, key: str, number: int) -> Axis | SampledAxis:
    if table.values is not None:
        return _listed(key, table.values, number)
    if table.among is not None:
        return SampledAxis(key=key, number=number, among=tuple(table.among))
    if table.between is not None:
        return _between(key, number, table.between, table.scale == "log")
    if table.samples is not None:
        return _samples(table.samples, key, number)
    values = [number_of(each, is_whole(key)) for each in _numbers(table).tolist()]
    return _listed(key, dict.fromkeys(values) if is_whole(key) else values, number)  # equal when rounded: one


def _numbers(table: AxisTable) -> Floats:
    """Return the numbers of a range, with equal differences or equal ratios."""
    if table.range is not None:
        return _range(table.range)
    assert table.log_range is not None, "the only other way"
    found: Floats = np.geomspace(getattr(table.log_range, "from"), table.log_range.to, table.log_range.count)
    return found


def _listed(key: str, values: Iterable[Value], number: int) -> Axis:
    return Axis(keys=(key,), rows=[(value,) for value in values], number=number)


def _range(table: RangeTable) -> Floats:
    first, to, step = getattr(table, "from"), table.to, table.step
    if (step is None) == (table.count is None):
        raise InputError("allowed: step, or count")
    if table.count is not None:
        return np.linspace(first, to, table.count)
    assert step is not None, "as there is no count"
    if to < first:
        raise InputError(f"got {to:g}, allowed: at least from, which is {first:g}", key=("to",))
    count = 1 + math.floor(min((to - first) / step * (1 + 1e-12) + 1e-9, LARGEST))
    if fault := SWEEP_POINTS.fault(count):
        raise InputError(fault, key=("step",))
    numbers: Floats = first + step * np.arange(count)
    return numbers


def _between(key: str, number: int, between: Sequence[float], is_log: bool) -> SampledAxis:
    """Return an axis with a uniform distribution between two numbers, or between their logarithms; for whole numbers,
    each has the probability of the values that are rounded to it.
    """
    low, high = between
    ends, margin = (low, high), 0.0
    if is_whole(key):
        ends, margin = (math.ceil(low), math.floor(high)), 0.5
        if ends[0] > ends[1]:
            raise InputError(f"no whole number from {low:g} to {high:g}; allowed: ends with one between them")
    if low > high:
        raise InputError(f"got {high:g}, allowed: above low, which is {low:g}", key=("high",))
    if is_log and ends[0] <= 0:
        raise InputError(f"got {ends[0]:g}, allowed: above 0, as its logarithm is taken")
    table = SamplesTable(
        distribution="log-uniform" if is_log else "uniform", low=ends[0] - margin, high=ends[1] + margin
    )
    refuse_parameters(table)
    return SampledAxis(key=key, number=number, distribution=table, between=ends, is_log=is_log)


def _samples(table: SamplesTable, key: str, number: int) -> Axis | SampledAxis:
    """Return the axis of a distribution; with `count`, an axis with that many random values as listed values."""
    refuse_parameters(table)
    sampled = SampledAxis(key=key, number=number, distribution=table)
    if table.count is not None:
        return _sampled((sampled,), "random", table.count, 1 if table.seed is None else table.seed, number)
    if table.seed is not None:
        raise InputError("got seed without count; allowed: with count", key=("seed",))
    return sampled


def _sampled(axes: Sequence[SampledAxis], method: Method, count: int, seed: int, number: int | None = None) -> Axis:
    """Return several axes sampled as one. For `saltelli`, `count` is the number of rounds."""
    if method == "saltelli" and (fault := SWEEP_POINTS.fault(count * (len(axes) + 2))):
        raise InputError(fault, key=("sampling", "count"))
    made = shares(method, count, len(axes), seed)
    columns = [axis.values(column) for axis, column in zip(axes, made.T, strict=True)]
    return Axis(keys=tuple(axis.key for axis in axes), rows=list(zip(*columns, strict=True)), number=number)


# ── values that a scenario cannot have ──


def refuse_values(axes: Sequence[Axis], document: Mapping[str, Any], where: str, settings: Settings) -> None:
    """Raise InputError for a value of an axis that a scenario accepts neither by itself nor together with the first
    values of the other axes. Only its form is checked: errors at some size or with other values are reported per
    point."""
    first = {key: value for axis in axes for key, value in zip(axis.keys, axis.rows[0], strict=True)}
    for axis in axes:
        for number in _tried(axis):
            alone = dict(zip(axis.keys, axis.rows[number], strict=True))
            fault = _fault(document, where, {**settings, **alone})
            if fault is not None and _fault(document, where, {**settings, **first, **alone}) is not None:
                raise _told(fault, axis, number, where)


def _fault(document: Mapping[str, Any], where: str, settings: Settings) -> InputError | None:
    try:
        scenario_of(document, where, put(settings), laid_out=False)
    except InputError as error:
        return error
    return None


def _told(fault: InputError, axis: Axis, number: int, where: str) -> InputError:
    """Return the error about a value of an axis, located at the value's place in the study file."""
    got = ", ".join(f"{key} = {shown(value)}" for key, value in zip(axis.keys, axis.rows[number], strict=True))
    place = ("sampling",) if axis.number is None else ("axes", axis.number)
    inner = fault.outside(where)
    is_same = not inner.where and any(dotted(path_of(key)) == dotted(inner.key) for key in axis.keys)
    return InputError(f"value {number + 1}, {got}, in {where}: {inner.what if is_same else inner}", key=place)


def _tried(axis: Axis) -> list[int]:
    """Return the indices of the rows to check: all rows or, if there are many, a row for each distinct text, and those
    with the smallest and the largest number of each key.
    """
    if axis.count <= MOST_TRIED:
        return list(range(axis.count))
    chosen = {0}
    for values in zip(*axis.rows, strict=True):
        numbers = [(each, at) for at, each in enumerate(values) if type(each) in (int, float)]
        others = {repr(each): at for at, each in enumerate(values) if type(each) not in (int, float)}
        chosen |= {*others.values(), *(at for _, at in (numbers and (min(numbers), max(numbers))))}
    return sorted(chosen)
