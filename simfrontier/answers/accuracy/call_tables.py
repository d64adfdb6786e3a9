"""Convert measured files into a calibration: tables of measured call times, merged with calibration files among the
input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from simfrontier.answers.accuracy.fit_rows import named, set_apart
from simfrontier.answers.accuracy.predictors.calls import KINDS, harnesses_of, shipped_harnesses, shown_fault
from simfrontier.base.errors import InputError, nearest
from simfrontier.base.units import counted
from simfrontier.core.collectives import Calibration, CallTable, FitRecord, MeasuredPoint, load_calibration, merged
from simfrontier.core.machine import catalog, is_machine, machine_named
from simfrontier.inputs.measured import CallRow, Setup, Unusable, call_faults, files_in, format_of, read_log, readings

MAX_HOSTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Descriptive texts of a calibration: where, when and how it was measured, and its title; None where the user gives
    none.
    """

    where: str | None = None
    when: str | None = None
    title: str | None = None
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCalibration:
    """A calibration made of measured tables. `notes`: sentences on the contents of the files that became no row;
    `others`: rows of calls that no schedule contains, by kind; `faults`: rows of known pathologies, by reason;
    `programs`: titles of the benchmark programs whose own overhead is included in the measured times.
    """

    calibration: Calibration
    notes: tuple[str, ...]
    others: Mapping[str, int]
    faults: Mapping[str, int]
    programs: tuple[str, ...]


@dataclass(slots=True)
class _Read:
    """The contents of the input files, collected while they are read."""

    known: list[tuple[Path, Calibration]] = field(default_factory=list)
    tables: list[CallTable] = field(default_factory=list)
    rows: list[CallRow] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def measured_on(self) -> list[str]:
        """Return the host names of the logs and the machine names of the table rows."""
        return [*([_named(self.hosts)] if self.hosts else []), *(row.machine for row in self.rows)]


def calibration_of_files(files: Sequence[Path], setup: Setup, labels: Labels) -> MeasuredCalibration:
    """Read logs, tables, traces and calibration files, and merge them into one calibration. Raises InputError."""
    read = _read(files, setup)
    with faults_of(files):
        rows, others = set_apart(
            _rows_named(read.rows, setup), lambda row: None if row.collective in KINDS else row.collective
        )
        if others and not rows:
            raise InputError(f"{', '.join(others)}: no schedule has one; allowed: {', '.join(KINDS)}")
        known_faults = call_faults()
        read.rows, faults = set_apart(rows, lambda row: shown_fault(row, known_faults))
        if faults and not read.rows:
            raise InputError(f"all {counted(faults.total(), 'row')} are of known pathologies: {next(iter(faults))}")
        read.tables += map(table_of, read.rows)
    known = read.known
    place = labels.where or _joined([*(one.where for _, one in known), *read.measured_on])
    programs = [*(["nccl-tests"] if read.hosts else []), *(f"{row.library} calls" for row in read.rows)]
    titles = [*(one.title for _, one in known), *(f"{program} on {place}" for program in programs)]
    calibration = Calibration(
        title=labels.title or _joined(titles),
        where=place,
        when=labels.when or _joined([*(one.when for _, one in known), *read.dates]),
        how=labels.how,
        machine=_numbers(known, "machine"),
        library=_numbers(known, "library"),
        calls=merged(read.tables),
        harness=_numbers(known, "harness"),
        intervals={key: ends for _, one in known for key, ends in one.intervals.items()},
        fit=_fit_of(known),
    )
    added = {one.name: one.title for row in read.rows for one in harnesses_of(row, shipped_harnesses())}
    return MeasuredCalibration(
        calibration=calibration,
        notes=tuple(read.said),
        others=others,
        faults=faults,
        programs=tuple(dict.fromkeys(added.values())),
    )


@contextmanager
def faults_of(files: Sequence[Path]) -> Iterator[None]:
    """Context manager that adds the names of all `files` to an InputError about rows that come from several of them."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{', '.join(map(str, files))}: {error}") from None


def date_of(file: Path) -> str:
    """Return the modification date of a file, used if no date is set."""
    return f"{date.fromtimestamp(file.stat().st_mtime).isoformat()} (date of {file.name})"


# ── files ──


def _read(paths: Sequence[Path], setup: Setup) -> _Read:
    """Read the given files, and all files of the given folders. Raises InputError."""
    read = _Read()
    rest: list[Path] = []
    unusable: list[Unusable] = []
    for file in files_in(paths):
        form = format_of(file)
        match form and form.name:
            case "calibration":
                read.known.append((file, load_calibration(file)))
                read.tables += read.known[-1][1].calls
            case "nccl-tests":
                try:
                    log = read_log(file, setup)
                except Unusable as error:
                    unusable.append(error)
                    continue
                read.tables += log.tables
                read.hosts += log.hosts
                read.said += log.left_out
                read.dates.append(date_of(file))
            case _:
                rest.append(file)
    try:
        for reading in readings(rest, setup):
            read.rows += reading.rows
            read.said += reading.said
            read.dates.append(date_of(reading.path))
    except Unusable as error:
        unusable.append(error)
    if unusable and not (read.tables or read.rows):
        raise unusable[0]
    read.said += [error.said for error in unusable]
    return read


def _named(hosts: Iterable[str]) -> str:
    names = sorted(set(hosts))
    return ", ".join(names) if len(names) <= MAX_HOSTS else f"{len(names)} hosts, {names[0]} to {names[-1]}"


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(parts))


def _numbers(known: list[tuple[Path, Calibration]], part: str) -> dict[str, float]:
    """Return the numbers of all calibrations in `known`. Raises InputError if two calibrations give one number
    differently.
    """
    out: dict[str, tuple[float, Path]] = {}
    for path, calibration in known:
        numbers: dict[str, float] = getattr(calibration, part)
        for key, value in numbers.items():
            before, first = out.setdefault(key, (value, path))
            if before != value:
                raise InputError(f'{path}: {part}."{key}": got {value:g}, allowed: {before:g}, as {first} says')
    return {key: value for key, (value, _) in out.items()}


def _fit_of(known: list[tuple[Path, Calibration]]) -> FitRecord | None:
    """Return the fit record that the calibrations in `known` contain, if any. Raises InputError if two
    of them differ.
    """
    fits = [(path, one.fit) for path, one in known if one.fit is not None]
    for path, record in fits:
        if record != fits[0][1]:
            raise InputError(
                f"another one than in {fits[0][0]}, allowed: one fit; fit to all data at once",
                where=str(path),
                key=("fit",),
            )
    return fits[0][1] if fits else None


# ── rows ──


def _rows_named(rows: Sequence[CallRow], setup: Setup) -> Sequence[CallRow]:
    """Return the rows of the requested library and machine. Raises InputError if none is requested and there are
    several."""
    if not rows:
        return rows
    (library,) = named("library", [row.library for row in rows], [setup.library] if setup.library else [])
    of_library = [row for row in rows if row.library == library]
    (machine,) = named("machine", [row.machine for row in of_library], [setup.machine] if setup.machine else [])
    return [row for row in of_library if row.machine == machine]


def table_of(row: CallRow) -> CallTable:
    """Return a calibration table with a single point from a measured row. If the row does not state its devices, ranks
    fill one node after another. Raises InputError for an unknown machine.
    """
    if not is_machine(row.machine):
        raise InputError(f"no model of machine {row.machine!r}; {nearest(row.machine, catalog())}")
    machine = machine_named(row.machine)
    return CallTable(
        kind=KINDS[row.collective],
        ranks=row.devices,
        nodes=row.nodes or -(-row.devices // machine.devices_per_node),
        packages=row.packages or -(-row.devices // machine.devices_per_package),
        points=(MeasuredPoint(bytes=row.num_bytes, seconds=row.seconds),),
    )
