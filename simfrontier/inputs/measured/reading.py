"""Reading of files with measured collective calls: file formats, facts that the user states (the setup), and the
resulting rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from simfrontier.base.errors import InputError, Key
from simfrontier.base.io import left_out, log_text, reading
from simfrontier.core.collectives import CallTable
from simfrontier.core.machine import is_machine, machine_named
from simfrontier.inputs.measured.rows import CallKind, CallRow, RowPlace

HEAD_BYTES: Final = 1 << 16  # holds the first keys of a JSON file and the first line of a table
LEAST_ROWS: Final = 2  # a single measurement shows no law, and nothing to compare it with
UNLIKE: Final = "ranks report different kinds or sizes"


class Unusable(InputError):
    """A line, run or file that can be read but has no usable times. `why` is the reason by which such faults are
    grouped when they are counted."""

    def __init__(self, what: str, *, where: str = "", key: Key = (), why: str = "") -> None:
        super().__init__(what, where=where, key=key)
        self.why = why or what.partition(", allowed: ")[0]

    @property
    def said(self) -> str:
        """Sentence that says that this file is left out, while other files have usable times."""
        return f"Left out: {self.where}: {self.why}."


def counted_faults(faults: Iterable[Unusable], noun: str) -> tuple[str, ...]:
    """Return sentences with the number of runs or lines (`noun`) that are left out, one for each reason."""
    return left_out(Counter(fault.why for fault in faults), noun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Rows of a file, or of the files of all ranks of a job; `said` are sentences about the parts that are left out."""

    files: tuple[Path, ...]
    rows: tuple[CallRow, ...]
    said: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError if there are fewer than `LEAST_ROWS` rows; the message says what was left out."""
        if len(self.rows) < LEAST_ROWS:
            got = "1 measurement" if self.rows else "no measurements"
            sentences = [f"{self.name}: {got}, allowed: {LEAST_ROWS} or more.", *self.said]
            raise InputError(" ".join(sentences).removesuffix("."))

    def with_missing_ranks(self) -> Reading:
        """Return the reading with a sentence on missing files if there are fewer files than ranks in the largest
        group."""
        largest, number = max(row.devices for row in self.rows), len(self.files)
        if number >= largest:
            return self
        count = "a file of 1 rank" if number == 1 else f"files of {number:,} ranks"
        missing = "where the rank that came last is missing, times hold waiting"
        return replace(self, said=(*self.said, f"Read: {count}, of groups of up to {largest:,}: {missing}."))

    @property
    def path(self) -> Path:
        """The first file."""
        return self.files[0]

    @property
    def name(self) -> str:
        """Name of the files in messages."""
        return name_of(self.files)


def name_of(files: Sequence[Path]) -> str:
    """Return the name of a group of files in messages: the first file, and the number of other files."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"


class Call(NamedTuple):
    """Facts that are equal for equal collective calls. `kind` is None if the call is not a supported collective;
    `num_bytes` is the size of the whole message; `nodes` is None if unknown."""

    kind: CallKind | None
    devices: int
    nodes: int | None
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Facts about a measurement that the user states; None if not stated. The contents of a file take precedence over
    them."""

    machine: str | None = None
    library: str | None = None
    devices: int | None = None
    nodes: int | None = None
    packages: int | None = None

    def devices_of(self, name: str) -> int:
        """Return the number of devices of a call, as stated by the user, for a file that does not contain it. Raises
        InputError."""
        if self.devices is None:
            raise InputError(f"{name}: does not say among how many devices, allowed: --devices N beside it")
        if self.devices < 2:
            raise InputError(f"{name}: --devices: got {self.devices}, allowed: 2 or more")
        return self.devices

    def packages_of(self, devices: int, nodes: int | None) -> int | None:
        """Return the number of packages of a group on `nodes` nodes; None if it is neither stated nor derivable.

        If only the number of nodes is stated, the devices of each node are assumed on as few packages as the machine
        allows.
        """
        if self.packages is not None or nodes is None or self.machine is None or not is_machine(self.machine):
            return self.packages
        return nodes * -(-(devices // nodes) // machine_named(self.machine).devices_per_package)

    def row(
        self,
        file: str,
        call: Call,
        seconds: float,
        packages: int | None,
        place: RowPlace,
        source: str = "",
        library: str = "",
    ) -> CallRow:
        """Return a row of a file that does not name its machine; `source` (default: the file) and `library` (default:
        as stated by the user) are those that the file names. Raises InputError if the machine or the library is not
        known."""
        if not self.machine:
            raise InputError(f"{file}: does not say on which machine, allowed: --machine NAME beside it")
        library = library or self.library or ""
        if not library:
            raise InputError(f"{file}: does not say which library, allowed: --library NAME beside it")
        assert call.kind is not None, "rows are of collectives"
        return CallRow(
            machine=self.machine,
            collective=call.kind,
            library=library,
            devices=call.devices,
            num_bytes=call.num_bytes,
            seconds=seconds,
            source=source or file,
            place=place,
            nodes=call.nodes,
            packages=packages,
        )

    def rows_of(self, path: Path, tables: Iterable[CallTable], source: str) -> tuple[CallRow, ...]:
        """Return the points of tables of collective times as rows. Raises InputError."""
        return tuple(
            self.row(
                str(path),
                Call(table.kind, table.ranks, table.nodes, point.bytes),
                point.seconds,
                table.packages,
                RowPlace(str(path), part=f"{table.kind} among {table.ranks}"),
                source,
            )
            for table in tables
            for point in table.points
        )


class CallsOfRanks:
    """Collective calls from one or many files, by a key that all ranks of a call share, with counts of what is left
    out.

    The time of a call is the minimum over its ranks; the time of a row is the median over equal calls. A rank that
    arrives early waits inside the call for the other ranks, and its time includes this wait; the last rank to arrive
    does not wait.
    """

    def __init__(self) -> None:
        self.calls: dict[Hashable, tuple[Call, float]] = {}
        self._unlike: set[Hashable] = set()
        self._left_out: Counter[str] = Counter()

    def add(self, key: Hashable, op: str, call: Call, seconds: float, count: int = 1) -> None:
        """Add one rank's time for a call of the operation `op`, or for `count` calls together. Calls of unsupported
        kinds, calls of a single rank, and calls without bytes or time are left out."""
        if call.kind is None:
            self.leave_out(f"{op}, of which no times are taken", count)
            return
        if call.devices < 2 or call.num_bytes == 0 or seconds == 0.0:
            self.leave_out("of one rank, or without bytes or time", count)
            return
        known, least = self.calls.setdefault(key, (call, seconds))
        if known != call:
            self._unlike.add(key)
        else:
            self.calls[key] = call, min(least, seconds)

    def leave_out(self, why: str, count: int = 1) -> None:
        """Count entries that have no usable time of a call, under the reason `why`."""
        self._left_out[why] += count

    def reading(self, files: Sequence[Path], setup: Setup) -> Reading:
        """Return one row for each kind of call, group and message size, and what was left out. Raises InputError if too
        few rows are left."""
        alike: dict[Call, list[float]] = {}
        for key, (call, seconds) in self.calls.items():
            if key not in self._unlike:
                alike.setdefault(call, []).append(seconds)
        name = name_of(files)
        rows = tuple(
            setup.row(
                name,
                call,
                median(alike[call]),
                setup.packages_of(call.devices, call.nodes),
                RowPlace(name, part=f"{call.kind} among {call.devices}"),
            )
            for call in sorted(alike)
        )
        counts = self._left_out + Counter({UNLIKE: len(self._unlike)})
        return Reading(files=tuple(files), rows=rows, said=left_out(counts))


# ── formats ──


class FileStart:
    """The beginning of a file, from which its format is recognised; of a log, also the whole text. Raises InputError if
    the file cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, "file of measured times"), path.open("rb") as file:
            self.head = file.read(HEAD_BYTES)

    @cached_property
    def text(self) -> str:
        """The first `HEAD_BYTES` bytes of the file as text."""
        return self.head.decode("utf-8-sig", errors="replace").lstrip()

    @property
    def is_json(self) -> bool:
        """True if the text starts like a JSON object or a list of JSON objects; a bracket alone may also start a
        log."""
        return self.text.startswith("{") or (self.text.startswith("[") and self.text[1:].lstrip().startswith("{"))

    @cached_property
    def log(self) -> str:
        """The whole text of a log without the line prefixes of job launchers; empty for JSON."""
        return "" if self.is_json else log_text(self.path, "file of measured times")

    @property
    def columns(self) -> set[str]:
        """Cells of the file's first line, read as a CSV table."""
        return {cell.strip().strip('"') for cell in self.text.partition("\n")[0].split(",")}


Recognises = Callable[[FileStart], bool]


def json_with(pattern: str) -> Recognises:
    """Return a function that recognises JSON files whose beginning matches this pattern."""
    return lambda start: start.is_json and re.search(pattern, start.text) is not None


def log_with(pattern: str) -> Recognises:
    """Return a function that recognises logs in which any line matches this pattern."""
    return lambda start: re.search(pattern, start.log, re.MULTILINE) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One file format.

    Attributes:
        name: of the format.
        title: what such files are, for the message that lists all formats.
        recognises: whether a file that starts so is of this format.
        read: read the files of one job; raises InputError.
        per_rank: every rank of a job writes a file, and these are read together; else each file is read by itself.
    """

    name: str
    title: str
    recognises: Recognises
    read: Callable[[Sequence[Path], Setup], Reading]
    per_rank: bool = False
