"""Axes of a study: each a list of values of a key, or of several keys together; or one of those sampled together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simfrontier.errors import InputError
from simfrontier.limits import LARGEST, SWEEP_POINTS, SWEEP_SAMPLES
from simfrontier.records import dataclass
from simfrontier.sweep.distributions import Quantile, quantile_of, rounded
from simfrontier.sweep.form import AxisTable, LogRangeTable, Method, RangeTable, SamplesTable, SamplingTable, Value

if TYPE_CHECKING:
    from simfrontier.arrays import Floats

Settings: TypeAlias = Mapping[str, Any]  # of a point: dotted key → value
AXIS_KEYS: Final = (
    "values",
    "range",
    "log_range",
    "samples",
    "between",
    "among",
)  # of which an axis of one key has one
WAYS: Final = (*AXIS_KEYS, "rows")
IsWhole: TypeAlias = Callable[[str], bool]  # whether a key holds a whole number


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """`keys` that take `count` rows of values one after the other; `at` gives the row of a number. `number`: of its
    table in the file; None for the axes that are sampled together."""

    keys: tuple[str, ...]
    count: int
    at: Callable[[int], tuple[Value, ...]]
    number: int | None = None

    @property
    def is_long(self) -> bool:
        """Whether it has more rows than a study may have points: they are counted, and never made."""
        return self.count > SWEEP_POINTS.most

    def rows(self) -> Iterator[tuple[Value, ...]]:
        """All rows, in order."""
        return map(self.at, range(self.count))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAxis:
    """A key whose values are quantiles, of shares that are sampled together with those of other axes; or one `among`
    values that are equally likely. `between`: the ends of one that is equally likely from one to the other, in its
    logarithm where `is_log`."""

    key: str
    number: int
    quantile: Quantile | None
    is_whole: bool
    among: tuple[Value, ...] = ()
    between: tuple[float, float] | None = None
    is_log: bool = False

    def value(self, share: float) -> Value:
        """The value below which a share of all lies."""
        if self.quantile is None:
            return self.among[min(int(share * len(self.among)), len(self.among) - 1)]
        if self.is_whole and self.between is not None:  # as often as any other, also at the ends
            return round(min(max(self.quantile(share), self.between[0]), self.between[1]))
        return _number(self.quantile(share), self.is_whole)

    def tried(self) -> Axis:
        """Its smallest and largest value, or all that it is among."""
        values = self.among or (self.value(0.0), self.value(1.0))
        return _listed(self.key, values, self.number)


def searched_axes(tables: Sequence[AxisTable], is_whole: IsWhole) -> tuple[SampledAxis, ...]:
    """The axes of a study that searches, all of which are searched over. Raises InputError."""
    out = []
    for made, number in _each(tables, is_whole):
        if not isinstance(made, SampledAxis) or (made.between is None and not made.among):
            text = "is not searched over; allowed in a study with a search: between, or among"
            raise InputError(text, key=("axes", number))
        out.append(made)
    if not out:
        raise InputError("nothing is searched over; allowed: a study with axes", key=("search",))
    _refuse_twice([each.tried() for each in out])
    return tuple(out)


def _each(tables: Sequence[AxisTable], is_whole: IsWhole) -> Iterator[tuple[Axis | SampledAxis, int]]:
    for number, table in enumerate(tables):
        try:
            yield _axis(table, number, is_whole), number
        except InputError as error:
            raise error.within(key=("axes", number)) from None


def axes_of(tables: Sequence[AxisTable], sampling: SamplingTable | None, is_whole: IsWhole) -> tuple[Axis, ...]:
    """The axes of a study, those sampled together as one at the place of the first of them. Raises InputError."""
    axes: list[Axis] = []
    together: list[SampledAxis] = []
    place = 0
    for made, number in _each(tables, is_whole):
        if isinstance(made, Axis):
            axes.append(made)
            continue
        if sampling is None:
            text = "is sampled, and nothing says how often; allowed: samples.count, or a table sampling = { count }"
            raise InputError(text, key=("axes", number))
        place = place if together else len(axes)
        together.append(made)
    if together and sampling is not None:
        axes.insert(place, _sampled_together(together, sampling))
    elif sampling is not None:
        raise InputError(
            "no axis is sampled; allowed: with axes that have between, or samples without count", key=("sampling",)
        )
    _refuse_twice(axes)
    return tuple(axes)


def _refuse_twice(axes: Sequence[Axis]) -> None:
    seen: set[str] = set()
    for axis in axes:
        for key in axis.keys:
            if key in seen:
                place = () if axis.number is None else (axis.number,)
                raise InputError(f'key "{key}" stands twice; allowed: every key on one axis', key=("axes", *place))
            seen.add(key)


def _axis(table: AxisTable, number: int, is_whole: IsWhole) -> Axis | SampledAxis:
    given = [way for way in WAYS if getattr(table, way) is not None]
    if len(given) != 1:
        got = " and ".join(given) if given else "none"
        raise InputError(f"got {got} of {', '.join(WAYS)}; allowed: one of these")
    if table.scale is not None and table.between is None:
        raise InputError("got scale without between; allowed: with between", key=("scale",))
    if table.keys is not None and table.key is None:
        return _zipped(table, table.keys, number)
    if table.key is None or table.keys is not None:
        raise InputError("allowed: key, or keys with rows")
    if table.rows is not None:
        raise InputError("got rows with key; allowed: values, or keys with rows")
    key, whole = table.key, is_whole(table.key)
    if table.values is not None:
        return _listed(key, table.values, number)
    if table.range is not None:
        return _in(table.range, key, number, whole, "range")
    if table.log_range is not None:
        return _in(table.log_range, key, number, whole, "log_range")
    if table.among is not None:
        return SampledAxis(key=key, number=number, quantile=None, is_whole=whole, among=tuple(table.among))
    name, between = "samples" if table.samples is not None else "between", None
    try:
        if table.samples is not None:
            samples = table.samples
        else:
            between = _ends(table, whole)
            samples = _between(between, whole, table.scale == "log")
        quantile = quantile_of(samples)
    except InputError as error:
        raise error.within(key=(name,)) from None
    sampled = SampledAxis(
        key=key,
        number=number,
        quantile=quantile,
        is_whole=whole,
        between=between,
        is_log=table.scale == "log",
    )
    if samples.count is None:
        if samples.seed is not None:
            raise InputError("got seed without count; allowed: with count", key=(name, "seed"))
        return sampled
    return _alone(sampled, samples.count, 1 if samples.seed is None else samples.seed)


def _ends(table: AxisTable, is_whole: bool) -> tuple[float, float]:
    """The ends of `between`: of whole numbers the smallest and the largest that lie in it."""
    assert table.between is not None
    low, high = table.between
    if not is_whole:
        return low, high
    if low > high:
        raise InputError(f"got {low:g}, then {high:g}; allowed: the smaller first")
    if math.ceil(low) > math.floor(high):
        raise InputError(f"no whole number from {low:g} to {high:g}; allowed: ends with one between them")
    return math.ceil(low), math.floor(high)


def _between(ends: tuple[float, float], is_whole: bool, is_log: bool) -> SamplesTable:
    """Equally likely between two numbers, or their logarithms; whole numbers each with what is rounded to them."""
    low, high = ends
    if is_log and low <= 0:
        raise InputError(f"got {low:g}, allowed: above 0, as its logarithm is taken")
    low, high = (low - 0.5, high + 0.5) if is_whole else (low, high)
    return SamplesTable(distribution="log-uniform" if is_log else "uniform", low=low, high=high)


def _zipped(table: AxisTable, keys: Sequence[str], number: int) -> Axis:
    if table.rows is None:
        raise InputError("got keys without rows; allowed: rows, a list of as many values as keys for each")
    if len(set(keys)) < len(keys):
        raise InputError("got a key twice; allowed: every key once", key=("keys",))
    for place, row in enumerate(table.rows):
        if len(row) != len(keys):
            raise InputError(f"got a list of {len(row)}, allowed: of {len(keys)}, as many as keys", key=("rows", place))
    rows = [tuple(row) for row in table.rows]
    return Axis(keys=tuple(keys), count=len(rows), at=rows.__getitem__, number=number)


def _listed(key: str, values: Sequence[Value], number: int) -> Axis:
    rows = [(value,) for value in values]
    return Axis(keys=(key,), count=len(rows), at=rows.__getitem__, number=number)


def _in(table: RangeTable | LogRangeTable, key: str, number: int, whole: bool, name: str) -> Axis:
    """The numbers of a range. Rounded to whole ones, those that are equal then are one."""
    try:
        count, at = _log_range(table) if isinstance(table, LogRangeTable) else _range(table)
    except InputError as error:
        raise error.within(key=(name,)) from None
    if not whole or count > SWEEP_POINTS.most:  # which are counted, and never made
        return Axis(keys=(key,), count=count, at=lambda place: (_number(at(place), whole),), number=number)
    values = list(dict.fromkeys(_number(at(place), whole) for place in range(count)))
    return _listed(key, values, number)


def _range(table: RangeTable) -> tuple[int, Callable[[int], float]]:
    first: float = getattr(table, "from")
    to = table.to
    if (table.step is None) == (table.count is None):
        raise InputError("allowed: step, or count")
    if table.step is not None:
        if to < first:
            raise InputError(f"got {to:g}, allowed: at least from, which is {first:g}", key=("to",))
        step = table.step
        steps = min((to - first) / step * (1 + 1e-12) + 1e-9, LARGEST)  # more than anybody counts
        return math.floor(steps) + 1, lambda place: first + place * step
    count = table.count or 1
    return count, lambda place: to if place == count - 1 > 0 else first + place * (to - first) / max(1, count - 1)


def _log_range(table: LogRangeTable) -> tuple[int, Callable[[int], float]]:
    first: float = getattr(table, "from")
    to, count = table.to, table.count
    ratio = to / first

    def at(place: int) -> float:
        return to if place == count - 1 > 0 else first * ratio ** (place / max(1, count - 1))

    return count, at


def _number(number: float, whole: bool) -> float | int:
    return round(number) if whole else rounded(number)


def _alone(sampled: SampledAxis, count: int, seed: int) -> Axis:
    """Values of one axis that are sampled for themselves."""
    return _sampled((sampled,), "random", count, seed, sampled.number)


def _sampled_together(axes: Sequence[SampledAxis], sampling: SamplingTable) -> Axis:
    return _sampled(axes, sampling.method, sampling.count, sampling.seed, None)


def _sampled(axes: Sequence[SampledAxis], method: Method, count: int, seed: int, number: int | None) -> Axis:
    """Axes as one. Their shares are made when the first is asked for; more than a study may have are never run, and
    taken in order. Of `saltelli` the count is of rounds."""
    rounds, count = count, count * (len(axes) + 2) if method == "saltelli" else count
    if count <= SWEEP_POINTS.most and (fault := SWEEP_SAMPLES.fault(count * len(axes))):
        raise InputError(fault, key=("sampling", "count"))
    made: list[Floats] = []

    def at(place: int) -> tuple[Value, ...]:
        if count > SWEEP_POINTS.most:
            return tuple(axis.value((place + 0.5) / count) for axis in axes)
        if not made:
            from simfrontier.sweep.sampling import shares

            made.append(shares(method, rounds, len(axes), seed))
        return tuple(axis.value(float(share)) for axis, share in zip(axes, made[0][place], strict=True))

    return Axis(keys=tuple(axis.key for axis in axes), count=count, at=at, number=number)
