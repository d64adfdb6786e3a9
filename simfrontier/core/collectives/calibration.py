"""Calibrations: measured times of collective calls, and measured or fitted numbers of a machine and a library, in one
TOML file of the user.

A scenario names the file as library.calibration. The file states where and when the numbers were measured, and gives
the intervals of fitted numbers. In groups with measured times, these take precedence over the library's time law.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Le, Len

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import NotNegative, Positive, Text, read_toml, toml_number, toml_of, toml_value, typed
from simfrontier.base.limits import LARGEST_S, RANKS, SIZE
from simfrontier.base.units import unit_of, written
from simfrontier.base.wholefile import write_whole
from simfrontier.core.machine import Provenance
from simfrontier.core.program import CollectiveKind

Ranks = Annotated[int, Ge(1), Le(RANKS.most)]
KINDS: tuple[CollectiveKind, ...] = get_args(CollectiveKind)
Group = tuple[CollectiveKind, int, int, int]  # kind, ranks, nodes, packages
HARNESS = "harness."  # prefix, among the intervals, of times that measuring programs added
RESIDUAL = "residual.model_sd"  # set by a fit too, without an interval


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """Median time of one call with a message of `bytes` (all-gather: output of a rank; others: input of a rank);
    `spread` is the inter-quartile range over the median, None if unknown."""

    bytes: Annotated[int, Ge(1), Le(SIZE.most)]
    seconds: Annotated[Positive, Le(LARGEST_S)]
    spread: NotNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTable:
    """Measured times of one kind of collective call in groups of one shape, with all groups calling at the same time;
    points by ascending bytes.

    `residual` is the median relative difference from a second measurement of the same points.
    """

    kind: CollectiveKind
    ranks: Annotated[int, Ge(2), Le(RANKS.most)]
    nodes: Ranks
    packages: Ranks
    points: Annotated[tuple[MeasuredPoint, ...], Len(1)]
    residual: NotNegative | None = None

    @property
    def group(self) -> Group:
        """Kind of call and shape of the groups; a calibration has at most one table for each such pair."""
        return self.kind, self.ranks, self.nodes, self.packages

    @property
    def seconds_per_byte(self) -> float:
        """Slope of the time beyond the last point: the slope between the last two points, or, if that is not positive
        (noise) or there is only one point, the time of the last point divided by its bytes."""
        last = self.points[-1]
        if len(self.points) > 1:
            before = self.points[-2]
            slope = (last.seconds - before.seconds) / (last.bytes - before.bytes)
            if slope > 0.0:
                return slope
        return last.seconds / last.bytes

    @property
    def fastest_bytes_per_s(self) -> float:
        """Highest rate of message bytes per second that the table implies at any message size.

        Between two points, and before the first point, bytes / seconds has its maximum at a point; beyond the last
        point the inverse of the slope is the limit.
        """
        return max(1.0 / self.seconds_per_byte, *(point.bytes / point.seconds for point in self.points))

    def seconds(self, num_bytes: float) -> float:
        """Return the time, in seconds, of a call while nothing else runs: the time of the first point for smaller
        messages, linear interpolation between two points, and the slope `seconds_per_byte` beyond the last point."""
        sizes = [point.bytes for point in self.points]
        after = bisect_left(sizes, num_bytes)
        if after == 0:
            return self.points[0].seconds
        low = self.points[after - 1]
        if after == len(sizes):
            return low.seconds + (num_bytes - low.bytes) * self.seconds_per_byte
        high = self.points[after]
        part = (num_bytes - low.bytes) / (high.bytes - low.bytes)
        return low.seconds + part * (high.seconds - low.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """Errors | predicted / measured − 1 | of predicted times at `points` measured points: their mean, 90th percentile
    and maximum; `residual_sd` is the standard deviation of log(predicted / measured)."""

    points: Annotated[int, Ge(1)]
    mean_abs_error: NotNegative
    p90_abs_error: NotNegative
    worst_abs_error: NotNegative
    residual_sd: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutDevices:
    """Prediction errors at the points with one number of devices, for a fit without these points.

    `kept`: parameters that the remaining points do not determine, and which therefore kept their values in the
    library's file.
    """

    machine: Text
    devices: Annotated[int, Ge(2)]
    far: ErrorSummary
    kept: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRecord:
    """Record of a fit: the library, the machines, the number of free parameters, and the errors.

    `left_out`: errors over all points, each predicted by a fit without the points with the same number of devices; None
    if all points have the same number. `places`: these errors for each number of devices. `unseen`: free parameters
    that no point determines; they are not in the calibration.
    """

    library: Text
    machines: Annotated[tuple[Text, ...], Len(1)]
    parameters: Annotated[int, Ge(1)]
    fitted: ErrorSummary
    left_out: ErrorSummary | None = None
    places: tuple[LeftOutDevices, ...] = ()
    unseen: tuple[Text, ...] = ()

    @property
    def model_sd(self) -> float:
        """Standard deviation of log(predicted / measured) to assume: the larger of those for fitted points and for
        left-out points."""
        return max(far.residual_sd for far in (self.fitted, self.left_out) if far is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Measured numbers, by their dotted keys in the machine's and in the library's file, and measured times of
    collective calls.

    A fitted calibration also has the 90 % `intervals` of its numbers and a record of the fit (`fit`). `harness`:
    overheads added by the measuring programs (NAME.NUMBER), which no simulation uses.
    """

    title: Text
    where: Text
    when: Text
    how: Text
    machine: Mapping[str, float] = field(default_factory=dict)
    library: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[CallTable, ...] = ()
    harness: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, Annotated[tuple[float, ...], Len(2, 2)]] = field(default_factory=dict)
    fit: FitRecord | None = None

    @property
    def source(self) -> str:
        """Source of all numbers of the calibration, as text."""
        return f"{self.title}: {self.where}, {self.when}"

    @property
    def tables(self) -> dict[Group, CallTable]:
        """Tables of measured times by kind of call and shape of the groups."""
        return {table.group: table for table in self.calls}

    def kind_of(self, key: str) -> Literal["fitted", "measured"]:
        """Return whether a number of the library was fitted or measured."""
        return "fitted" if key in self.intervals or (self.fit is not None and key == RESIDUAL) else "measured"

    def source_of(self, key: str) -> str:
        """Return the source of a number of the library, with the 90 % interval if the number was fitted."""
        if key not in self.intervals:
            return self.source
        low, high = (written(end, unit_of(key)) for end in self.intervals[key])
        return f"{self.source}; 90 % interval {low} to {high}"

    def refuse_other_library(self, name: str) -> None:
        """Raise InputError if the numbers were fitted to another library, for which they have another meaning."""
        if self.fit is not None and self.fit.library != name:
            raise InputError(
                f"library {name}: the calibration was fitted to {self.fit.library}, allowed: a fit to {name}, "
                f"or library {self.fit.library}"
            )

    def provenance(self) -> tuple[Provenance, ...]:
        """Return the sources of all measured call times; the sources of numbers of the machine and the library are
        listed with those numbers."""
        return tuple(
            Provenance(
                key=f"calls.{table.kind}.ranks_{table.ranks}_nodes_{table.nodes}_packages_{table.packages}"
                f".of_{point.bytes}_bytes_s",
                value=point.seconds,
                unit="s",
                kind="measured",
                source=self.source,
            )
            for table in self.calls
            for point in table.points
        )


def load_calibration(path: str | Path) -> Calibration:
    """Read a calibration file. Raises InputError, in one line that names the file, the key, the value found and the
    allowed values."""
    return calibration_of(read_toml(Path(path), "calibration file"), str(path))


def calibration_of(document: Mapping[str, Any], where: str) -> Calibration:
    """Return the calibration of a parsed TOML document that was read from the file `where`. Raises InputError as
    `load_calibration` does."""
    calibration = typed(document, Calibration, where)
    known: set[Group] = set()
    for place, call in enumerate(calibration.calls):
        fault = _fault(call, known)
        known.add(call.group)
        if fault:
            raise InputError(f"{where}: calls[{place}]{fault}")
    _refuse_intervals(calibration, where)
    return calibration


def _refuse_intervals(calibration: Calibration, where: str) -> None:
    """Raise InputError unless every interval belongs to a number of the calibration and contains that number."""
    numbers = {**calibration.library, **{HARNESS + key: value for key, value in calibration.harness.items()}}
    for key, (low, high) in calibration.intervals.items():
        if key not in numbers:
            raise InputError(f'{where}: intervals."{key}": no such number in the file, {nearest(key, numbers)}')
        if not low <= numbers[key] <= high:
            raise InputError(f'{where}: intervals."{key}": got {low:g} to {high:g}, allowed: around {numbers[key]:g}')


def _fault(call: CallTable, known: Collection[Group]) -> str:
    """Return the first error in the contents of a table, "" if there is none; `known`: the groups of the preceding
    tables."""
    sizes = [point.bytes for point in call.points]
    for place, (low, high) in enumerate(pairwise(sizes), 1):
        if low >= high:
            return f".points[{place}].bytes: got {high} after {low}, allowed: ascending sizes, every size once"
    for key, parts in (("nodes", call.nodes), ("packages", call.packages)):
        if call.ranks % parts:
            return f".{key}: got {parts}, allowed: a divisor of ranks = {call.ranks}"
    if call.packages % call.nodes:
        return f".nodes: got {call.nodes}, allowed: a divisor of packages = {call.packages}"
    if call.group in known:
        return f": {call.kind} over {call.ranks} ranks on {call.nodes} nodes and {call.packages} packages stands twice"
    return ""


def write_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration as TOML, atomically; reading the file gives an equal value.

    Raises InputError if the file cannot be written or could not be read again (a time of 0, message sizes that do not
    ascend).
    """
    path = Path(path)
    made = to_toml(calibration)
    calibration_of(toml_of(made, str(path)), str(path))
    write_whole(path, made)


def to_toml(calibration: Calibration) -> str:
    """Return a calibration as TOML text."""
    lines = [
        "# A calibration: a scenario names it as library.calibration. Its numbers win over those of the machine's",
        "# and the library's file; its times of calls win over the library's own law, for the groups that they are of.",
        "",
        *(f"{key} = {toml_value(getattr(calibration, key))}" for key in ("title", "where", "when", "how")),
    ]
    for name in ("machine", "library"):
        came = "measured" if name == "machine" or calibration.fit is None else "measured or fitted"
        remark = f"numbers of the {name}'s file that were {came} here: dotted key = value"
        lines += ["", *_numbers(name, remark, getattr(calibration, name))]
    if calibration.harness:
        remark = "what measuring programs added to the times; no simulation reads it"
        lines += ["", *_numbers("harness", remark, calibration.harness)]
    if calibration.intervals:
        lines += ["", *_numbers("intervals", "90 % confidence", calibration.intervals)]
    if calibration.fit is not None:
        lines += ["", *record_lines(calibration.fit)]
    if calibration.calls:
        lines += [
            "",
            "# Times of a call, all groups of that shape at once and nothing else. bytes: the whole message (an",
            "# all-gather's output, others' input); spread: inter-quartile range over median.",
        ]
    for call in calibration.calls:
        lines += ["", "[[calls]]", f"kind = {toml_value(call.kind)}"]
        lines += [f"{key} = {getattr(call, key)}" for key in ("ranks", "nodes", "packages")]
        points = [{key: part for key, part in asdict(point).items() if part is not None} for point in call.points]
        lines += ["points = [", *(f"    {toml_value(point)}," for point in points), "]"]
        if call.residual is not None:
            remark = "median relative difference from a second measurement"
            lines.append(f"residual = {toml_number(call.residual)}  # {remark}")
    return "\n".join(lines) + "\n"


def _numbers(table: str, remark: str, numbers: Mapping[str, object]) -> list[str]:
    lines = [f"{toml_value(key)} = {toml_value(value)}" for key, value in numbers.items()]
    return [f"[{table}]  # {remark}", *lines]


def record_lines(record: FitRecord) -> Iterator[str]:
    """Yield the lines of TOML for the record of a fit."""
    yield "[fit]  # errors are | predicted / measured - 1 |; residual_sd is of log(predicted / measured)"
    yield f"library = {toml_value(record.library)}"
    yield f"machines = {toml_value(record.machines)}"
    yield f"parameters = {record.parameters}"
    yield f"unseen = {toml_value(record.unseen)}  # free parameters that no point shows: not among the numbers above"
    yield f"fitted = {toml_value(asdict(record.fitted))}"
    if record.left_out is not None:
        far = toml_value(asdict(record.left_out))
        yield f"left_out = {far}  # by fits that had not seen the point's number of devices"
    for place in record.places:
        yield from ("", "[[fit.places]]", f"machine = {toml_value(place.machine)}", f"devices = {place.devices}")
        yield f"far = {toml_value(asdict(place.far))}"
        if place.kept:
            yield f"kept = {toml_value(place.kept)}  # not shown by the other points: as in the library's file"


def merged(tables: Iterable[CallTable]) -> tuple[CallTable, ...]:
    """Return one table per kind of call and group shape, in order of first appearance, with all message sizes of the
    given tables.

    A message size that was measured several times gets the median of its times; the residual is then the median, over
    such sizes, of the relative range (range / median). A size that was measured once is kept as it is.
    """
    groups: dict[Group, list[CallTable]] = {}
    for table in tables:
        groups.setdefault(table.group, []).append(table)
    return tuple(_one(several) for several in groups.values())


def _one(tables: list[CallTable]) -> CallTable:
    if len(tables) == 1:
        return tables[0]
    by_size: dict[int, list[MeasuredPoint]] = {}
    for table in tables:
        for point in table.points:
            by_size.setdefault(point.bytes, []).append(point)
    points, differences = [], []
    for size, several in sorted(by_size.items()):
        if len(several) == 1:
            points.append(several[0])
            continue
        seconds = [point.seconds for point in several]
        middle = median(seconds)
        differences.append((max(seconds) - min(seconds)) / middle)
        spreads = [point.spread for point in several if point.spread is not None]
        points.append(MeasuredPoint(bytes=size, seconds=middle, spread=max(spreads, default=None)))
    known = [table.residual for table in tables if table.residual is not None]
    residual = median(differences) if differences else max(known, default=None)
    return replace(tables[0], points=tuple(points), residual=residual)
