"""Measured times of collective calls, and measured numbers of machine and library, in one TOML file of a user's own.

A scenario names it as library.calibration. The numbers say where and when they were measured; the times win over the
library's own law for the groups that they are of.
"""

from __future__ import annotations

import json
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from simfrontier.errors import InputError
from simfrontier.machine import Provenance
from simfrontier.schedule.ir import CollectiveKind
from simfrontier.tomlfile import read_toml
from simfrontier.wholefile import write_whole

KINDS: tuple[CollectiveKind, ...] = get_args(CollectiveKind)
Group = tuple[CollectiveKind, int, int, int]  # kind, ranks, nodes, packages


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Median time of one call with a message of `num_bytes` (all-gather: what a rank ends with; others: what it begins
    with); `spread` is the inter-quartile range over the median, None where it is not known."""

    num_bytes: int
    seconds: float
    spread: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTable:
    """Times of one kind of call in groups of one shape, all groups of that shape at once; points by ascending bytes.

    `residual` is the median relative difference from a second measurement of the same points.
    """

    kind: CollectiveKind
    ranks: int
    nodes: int
    packages: int
    points: tuple[Point, ...]
    residual: float | None = None

    @property
    def group(self) -> Group:
        """What the table is of: there is one table per group in a calibration."""
        return self.kind, self.ranks, self.nodes, self.packages

    @property
    def seconds_per_byte(self) -> float:
        """Slope beyond the last point: that of the last two, or, where it is not positive (noise) or there is only
        one point, the last point's time over its bytes."""
        last = self.points[-1]
        if len(self.points) > 1:
            before = self.points[-2]
            slope = (last.seconds - before.seconds) / (last.num_bytes - before.num_bytes)
            if slope > 0.0:
                return slope
        return last.seconds / last.num_bytes

    @property
    def fastest_bytes_per_s(self) -> float:
        """Largest rate of message bytes that the table asks for at any size.

        Between two points, and before the first, bytes over seconds is largest at a point; beyond the last the slope
        is the limit.
        """
        return max(1.0 / self.seconds_per_byte, *(point.num_bytes / point.seconds for point in self.points))

    def seconds(self, num_bytes: float) -> float:
        """Time of a call alone: the first point's for smaller messages, a straight line between two points, and the
        slope above beyond the last."""
        sizes = [point.num_bytes for point in self.points]
        after = bisect_left(sizes, num_bytes)
        if after == 0:
            return self.points[0].seconds
        low = self.points[after - 1]
        if after == len(sizes):
            return low.seconds + (num_bytes - low.num_bytes) * self.seconds_per_byte
        high = self.points[after]
        part = (num_bytes - low.num_bytes) / (high.num_bytes - low.num_bytes)
        return low.seconds + part * (high.seconds - low.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was measured: dotted keys of numbers of the machine's and of the library's file, and tables of calls."""

    title: str
    where: str
    when: str
    how: str
    machine: Mapping[str, float] = field(default_factory=dict)
    library: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[CallTable, ...] = ()

    @property
    def source(self) -> str:
        """What stands as the source of every number of it."""
        return f"{self.title}: {self.where}, {self.when}"

    @property
    def tables(self) -> dict[Group, CallTable]:
        """The tables by what they are of."""
        return {table.group: table for table in self.calls}

    def provenance(self) -> tuple[Provenance, ...]:
        """Every time of a call with its source; numbers of machine and library stand with those."""
        return tuple(
            Provenance(
                key=f"calls.{table.kind}.ranks_{table.ranks}_nodes_{table.nodes}_packages_{table.packages}"
                f".of_{point.num_bytes}_bytes_s",
                value=point.seconds,
                unit="s",
                kind="measured",
                source=self.source,
            )
            for table in self.calls
            for point in table.points
        )


def load_calibration(path: str | Path) -> Calibration:
    """Read a calibration. Raises InputError: one line that names the file, the key, what was got and what is
    allowed."""
    return calibration_of(read_toml(Path(path), "calibration file"), str(path))


def calibration_of(document: Mapping[str, Any], where: str) -> Calibration:
    """A calibration out of a document that was read from the file `where`; InputError as in load_calibration."""
    from pydantic import ValidationError  # takes long to import, and `--help` needs no calibration

    from simfrontier.collectives.schema import CalibrationFile
    from simfrontier.machine.faults import one_line

    try:
        file = CalibrationFile.model_validate(document)
    except ValidationError as error:
        raise InputError(f"{where}: {one_line(error, CalibrationFile)}") from None
    calls = tuple(
        CallTable(
            kind=call.kind,
            ranks=call.ranks,
            nodes=call.nodes,
            packages=call.packages,
            points=tuple(Point(num_bytes=p.bytes, seconds=p.seconds, spread=p.spread) for p in call.points),
            residual=call.residual,
        )
        for call in file.calls
    )
    for number, call in enumerate(calls):
        fault = _fault(call, calls[:number])
        if fault:
            raise InputError(f"{where}: calls[{number}]{fault}")
    return Calibration(
        title=file.title,
        where=file.where,
        when=file.when,
        how=file.how,
        machine=file.machine,
        library=file.library,
        calls=calls,
    )


def _fault(call: CallTable, before: Iterable[CallTable]) -> str:
    """What is wrong with a table besides its form."""
    sizes = [point.num_bytes for point in call.points]
    for number, (low, high) in enumerate(pairwise(sizes), 1):
        if low >= high:
            return f".points[{number}].bytes: got {high} after {low}, allowed: ascending sizes, every size once"
    for key, parts in (("nodes", call.nodes), ("packages", call.packages)):
        if call.ranks % parts:
            return f".{key}: got {parts}, allowed: a divisor of ranks = {call.ranks}"
    if call.packages % call.nodes:
        return f".nodes: got {call.nodes}, allowed: a divisor of packages = {call.packages}"
    if any(call.group == other.group for other in before):
        return f": {call.kind} over {call.ranks} ranks on {call.nodes} nodes and {call.packages} packages stands twice"
    return ""


def write_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration as TOML, whole or not at all; reading it gives an equal value.

    Raises InputError where it cannot be written, or could not be read again (a time of 0, sizes that do not ascend).
    """
    path = Path(path)
    text = to_toml(calibration)
    calibration_of(tomllib.loads(text), str(path))
    write_whole(path, text)


def to_toml(calibration: Calibration) -> str:
    """The text of a calibration's file."""
    lines = [
        "# A calibration: a scenario names it as library.calibration. Its numbers win over those of the machine's",
        "# and the library's file; its times of calls win over the library's own law, for the groups that they are of.",
        "",
        *(f"{key} = {_text(getattr(calibration, key))}" for key in ("title", "where", "when", "how")),
    ]
    for name, said in (("machine", "numbers of the machine's file"), ("library", "numbers of the library's file")):
        numbers: Mapping[str, float] = getattr(calibration, name)
        lines += ["", f"[{name}]  # {said} that were measured here: dotted key = value"]
        lines += [f"{_text(key)} = {_number(value)}" for key, value in numbers.items()]
    if calibration.calls:
        lines += [
            "",
            "# Times of a call, all groups of that shape at once and nothing else. bytes: the whole message (an",
            "# all-gather's output, others' input); spread: inter-quartile range over median.",
        ]
    for call in calibration.calls:
        lines += ["", "[[calls]]", f"kind = {_text(call.kind)}"]
        lines += [f"{key} = {getattr(call, key)}" for key in ("ranks", "nodes", "packages")]
        lines += ["points = [", *(f"    {_point(point)}," for point in call.points), "]"]
        if call.residual is not None:
            lines.append(f"residual = {_number(call.residual)}  # median relative difference from a second measurement")
    return "\n".join(lines) + "\n"


def _point(point: Point) -> str:
    spread = "" if point.spread is None else f", spread = {_number(point.spread)}"
    return f"{{ bytes = {point.num_bytes}, seconds = {_number(point.seconds)}{spread} }}"


def _number(value: float) -> str:
    return repr(float(value))  # the shortest text that reads back as the same number: 1e-05, 0.012


def _text(value: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
