"""Axes of a study: keys of scenarios and the rows of values that they take, listed or sampled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simfrontier.answers.sweep.distributions import quantiles, refuse_parameters
from simfrontier.answers.sweep.form import (
    SWEEP_POINTS,
    AxisTable,
    LogRangeTable,
    Method,
    RangeTable,
    SamplesTable,
    SamplingTable,
    Value,
)
from simfrontier.answers.sweep.keys import is_whole
from simfrontier.answers.sweep.sampling import shares
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError
from simfrontier.base.limits import LARGEST

AXIS_KEYS: Final = ("values", "range", "log_range", "samples", "between", "among")  # an axis of one key has one of them
WAYS: Final = (*AXIS_KEYS, "rows")
DIGITS: Final = 12  # of a number that is computed here: more of them differ between systems' logarithms


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """`keys` and the `rows` of values that they take. `number`: of its table in the file; None for the axes that are
    sampled together."""

    keys: tuple[str, ...]
    rows: Sequence[tuple[Value, ...]]
    number: int | None = None

    @property
    def count(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAxis:
    """A key whose values are sampled together with those of other axes: by a `distribution`, or `among` values that are
    equally likely. `between`: the ends of one that is equally likely from one to the other, in its logarithm where
    `is_log`."""

    key: str
    number: int
    distribution: SamplesTable | None = None
    among: tuple[Value, ...] = ()
    between: tuple[float, float] | None = None
    is_log: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether its key holds a whole number."""
        return is_whole(self.key)

    def values(self, shares: Sequence[float] | Floats) -> list[Value]:
        """Return the values below which these shares of all lie."""
        if self.distribution is None:
            num = len(self.among)
            return [self.among[min(int(share * num), num - 1)] for share in shares]
        numbers = quantiles(self.distribution, shares)
        if self.between is not None:
            numbers = np.clip(numbers, *self.between)
        return [number_of(number, self.is_whole) for number in numbers.tolist()]

    def tried(self) -> Axis:
        """Its smallest and largest value, or all that it is among."""
        return _listed(self.key, self.among or self.values((0.0, 1.0)), self.number)


def number_of(number: float, whole: bool) -> float | int:
    """Return a number as it stands in a setting: whole, or of twelve digits."""
    return round(number) if whole else float(f"{number:.{DIGITS}g}")


def searched_axes(tables: Sequence[AxisTable]) -> tuple[SampledAxis, ...]:
    """The axes of a study that searches, all of which are searched over. Raises InputError."""
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
    """The axes of a study, those sampled together as one at the place of the first of them. Raises InputError."""
    axes: list[Axis] = []
    together: list[SampledAxis] = []
    place = 0
    for made, number in _each(tables):
        if isinstance(made, Axis):
            axes.append(made)
            continue
        if sampling is None:
            text = "is sampled, and nothing says how often; allowed: samples.count, or a table sampling = { count }"
            raise InputError(text, key=("axes", number))
        place = place if together else len(axes)
        together.append(made)
    if together and sampling is not None:
        axes.insert(place, _sampled(together, sampling.method, sampling.count, sampling.seed))
    elif sampling is not None:
        text = "no axis is sampled; allowed: with axes that have between, or samples without count"
        raise InputError(text, key=("sampling",))
    return tuple(axes)


def _each(tables: Sequence[AxisTable]) -> Iterator[tuple[Axis | SampledAxis, int]]:
    """The axis of each table, and its number. Raises InputError, also for a key that stands twice."""
    seen: set[str] = set()
    for number, table in enumerate(tables):
        for key in table.keys or [table.key or ""]:
            if key in seen:
                text = f'key "{key}" stands twice; allowed: every key on one axis'
                raise InputError(text, key=("axes", number))
            seen.add(key)
        try:
            yield _axis(table, number), number
        except InputError as error:
            raise error.within(key=("axes", number)) from None


def _axis(table: AxisTable, number: int) -> Axis | SampledAxis:
    ways = [way for way in WAYS if getattr(table, way) is not None]
    if len(ways) != 1:
        raise InputError(f"got {' and '.join(ways) or 'none'} of {', '.join(WAYS)}; allowed: one of these")
    if table.scale is not None and table.between is None:
        raise InputError("got scale without between; allowed: with between", key=("scale",))
    if (table.key is None) == (table.keys is None) or (table.keys is None) != (table.rows is None):
        raise InputError("allowed: key, or keys with rows")
    if table.keys is not None and table.rows is not None:
        return _zipped(table.keys, table.rows, number)
    assert table.key is not None, "of one key"
    try:
        return _of_one_key(table, table.key, number)
    except InputError as error:
        raise error.within(key=(ways[0],)) from None


def _of_one_key(table: AxisTable, key: str, number: int) -> Axis | SampledAxis:
    if table.values is not None:
        return _listed(key, table.values, number)
    if table.range is not None:
        return _range(table.range, key, number)
    if table.log_range is not None:
        return _log_range(table.log_range, key, number)
    if table.among is not None:
        return SampledAxis(key=key, number=number, among=tuple(table.among))
    if table.between is not None:
        low, high = table.between
        return _between(key, number, low, high, table.scale == "log")
    assert table.samples is not None, "the only other way"
    return _samples(table.samples, key, number)


def _listed(key: str, values: Iterable[Value], number: int) -> Axis:
    return Axis(keys=(key,), rows=[(value,) for value in values], number=number)


def _zipped(keys: Sequence[str], rows: Sequence[Sequence[Value]], number: int) -> Axis:
    for place, row in enumerate(rows):
        if len(row) != len(keys):
            raise InputError(f"got a list of {len(row)}, allowed: of {len(keys)}, as many as keys", key=("rows", place))
    return Axis(keys=tuple(keys), rows=[tuple(row) for row in rows], number=number)


def _range(table: RangeTable, key: str, number: int) -> Axis:
    first, to, step = getattr(table, "from"), table.to, table.step
    if table.count is not None and step is None:
        return _numbers(np.linspace(first, to, table.count), key, number)
    if step is None or table.count is not None:
        raise InputError("allowed: step, or count")
    if to < first:
        raise InputError(f"got {to:g}, allowed: at least from, which is {first:g}", key=("to",))
    count = 1 + math.floor(min((to - first) / step * (1 + 1e-12) + 1e-9, LARGEST))
    if fault := SWEEP_POINTS.fault(count):
        raise InputError(fault, key=("step",))
    return _numbers(first + step * np.arange(count), key, number)


def _log_range(table: LogRangeTable, key: str, number: int) -> Axis:
    return _numbers(np.geomspace(getattr(table, "from"), table.to, table.count), key, number)


def _numbers(numbers: Floats, key: str, number: int) -> Axis:
    """An axis of numbers; rounded to whole ones, those that are equal then are one."""
    whole = is_whole(key)
    values = [number_of(each, whole) for each in numbers.tolist()]
    return _listed(key, dict.fromkeys(values) if whole else values, number)


def _between(key: str, number: int, low: float, high: float, is_log: bool) -> SampledAxis:
    """Equally likely between two numbers, or their logarithms; whole numbers each with what is rounded to them."""
    ends, margin = (low, high), 0.0
    if is_whole(key):
        ends, margin = (math.ceil(low), math.floor(high)), 0.5
        if ends[0] > ends[1]:
            raise InputError(f"no whole number from {low:g} to {high:g}; allowed: ends with one between them")
    if is_log and ends[0] <= 0:
        raise InputError(f"got {ends[0]:g}, allowed: above 0, as its logarithm is taken")
    table = SamplesTable(
        distribution="log-uniform" if is_log else "uniform", low=ends[0] - margin, high=ends[1] + margin
    )
    refuse_parameters(table)
    return SampledAxis(key=key, number=number, distribution=table, between=ends, is_log=is_log)


def _samples(table: SamplesTable, key: str, number: int) -> Axis | SampledAxis:
    """A distribution; with a count so many values of it, one by one."""
    refuse_parameters(table)
    sampled = SampledAxis(key=key, number=number, distribution=table)
    if table.count is not None:
        return _sampled((sampled,), "random", table.count, 1 if table.seed is None else table.seed, number)
    if table.seed is not None:
        raise InputError("got seed without count; allowed: with count", key=("seed",))
    return sampled


def _sampled(axes: Sequence[SampledAxis], method: Method, count: int, seed: int, number: int | None = None) -> Axis:
    """Axes as one. Of `saltelli` the count is of rounds."""
    if method == "saltelli" and (fault := SWEEP_POINTS.fault(count * (len(axes) + 2))):
        raise InputError(fault, key=("sampling", "count"))
    made = shares(method, count, len(axes), seed)
    columns = [axis.values(column) for axis, column in zip(axes, made.T, strict=True)]
    return Axis(keys=tuple(axis.key for axis in axes), rows=list(zip(*columns, strict=True)), number=number)
