"""`simfrontier calibrate --tables`: logs, calibrations, traces and other measured times into tables of calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import typer

from simfrontier.cli.calibrate_rows import faults_of, named_rows, of_schedules, program_words, tables_of, without_faults
from simfrontier.collectives import (
    Calibration,
    CallTable,
    FitRecord,
    Unusable,
    load_calibration,
    merged,
    read_log,
    write_calibration,
)
from simfrontier.errors import InputError
from simfrontier.measured import CallRow, Setup, files_in, form_of, placed, readings
from simfrontier.report import counted
from simfrontier.units import written

MAX_HOSTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Texts of a user for a calibration; None where not given. `options`: the options given, for its `how`."""

    where: str | None = None
    when: str | None = None
    title: str | None = None
    options: str = ""

    def __post_init__(self) -> None:
        """Raises InputError for an empty text."""
        for option, value in (("--where", self.where), ("--when", self.when), ("--title", self.title)):
            if value is not None and not value.strip():
                raise InputError("got nothing, allowed: some text", where=option)

    def command(self, files: Sequence[Path], out: Path) -> str:
        """The command that makes the calibration."""
        return f"simfrontier calibrate {' '.join(file.name for file in files)}{self.options} --out {out.name}"


@dataclass(slots=True)
class _Read:
    """The contents of the files, as they are read."""

    known: list[tuple[Path, Calibration]] = field(default_factory=list)
    tables: list[CallTable] = field(default_factory=list)
    rows: list[CallRow] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def measured_on(self) -> list[str]:
        """Hosts of logs, and machines of rows."""
        return [*([_named(self.hosts)] if self.hosts else []), *(row.machine for row in self.rows)]


def calibrate(files: list[Path], out: Path, setup: Setup, labels: Labels, as_json: bool) -> None:
    """Read everything, write the calibration, print what is in it. Raises InputError."""
    read = _read(files, setup)
    with faults_of(files):
        rows, others = of_schedules(named_rows(read.rows, setup))
        read.rows, faults = without_faults(rows)
        read.tables += tables_of(read.rows)
    text = [*read.said, *others, *faults, *program_words(read.rows)]
    known = read.known
    place = labels.where or _joined([*(one.where for _, one in known), *read.measured_on])
    programs = [*(["nccl-tests"] if read.hosts else []), *(f"{row.library} calls" for row in read.rows)]
    titles = [*(one.title for _, one in known), *(f"{program} on {place}" for program in programs)]
    calibration = Calibration(
        title=labels.title or _joined(titles),
        where=place,
        when=labels.when or _joined([*(one.when for _, one in known), *read.dates]),
        how=labels.command(files, out),
        machine=_numbers(known, "machine"),
        library=_numbers(known, "library"),
        calls=merged(read.tables),
        harness=_numbers(known, "harness"),
        intervals={key: ends for _, one in known for key, ends in one.intervals.items()},
        fit=_fit_of(known),
    )
    write_calibration(calibration, out)
    if as_json:
        typer.echo(json.dumps({**_rows(calibration, out), "said": text}, indent=1, ensure_ascii=False))
    else:
        _print(calibration, out, text)


def date_of(file: Path) -> str:
    """The date of a file, where none is given."""
    return f"{date.fromtimestamp(file.stat().st_mtime).isoformat()} (date of {file.name})"


def _read(paths: Sequence[Path], setup: Setup) -> _Read:
    """What stands in the files, and in those of folders. Raises InputError."""
    read = _Read()
    rest: list[Path] = []
    unusable: list[Unusable] = []
    for file in files_in(paths):
        match "calibration" if file.suffix == ".toml" else form_of(file):
            case "calibration":
                read.known.append((file, load_calibration(file)))
                read.tables += read.known[-1][1].calls
            case "nccl-tests" | "":
                try:
                    log = read_log(file, setup.packages)
                except Unusable as error:
                    unusable.append(error)
                    continue
                read.tables += placed(log.tables, setup)
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
    """The numbers of all calibrations; one that two of them give differently is refused."""
    out: dict[str, tuple[float, Path]] = {}
    for path, calibration in known:
        numbers: dict[str, float] = getattr(calibration, part)
        for key, value in numbers.items():
            before, first = out.setdefault(key, (value, path))
            if before != value:
                raise InputError(f'{path}: {part}."{key}": got {value:g}, allowed: {before:g}, as {first} says')
    return {key: value for key, (value, _) in out.items()}


def _fit_of(known: list[tuple[Path, Calibration]]) -> FitRecord | None:
    """The fit that one of the calibrations comes from; two different ones are refused."""
    fits = [(path, one.fit) for path, one in known if one.fit is not None]
    for path, record in fits:
        if record != fits[0][1]:
            raise InputError(
                f"another one than in {fits[0][0]}, allowed: one fit; fit to all data at once",
                where=str(path),
                key=("fit",),
            )
    return fits[0][1] if fits else None


def _rows(calibration: Calibration, out: Path) -> dict[str, object]:
    return {
        "file": str(out),
        **{key: getattr(calibration, key) for key in ("title", "where", "when", "how")},
        "machine": dict(calibration.machine),
        "library": dict(calibration.library),
        "calls": [
            {
                "kind": call.kind,
                "ranks": call.ranks,
                "nodes": call.nodes,
                "packages": call.packages,
                "points": len(call.points),
                "smallest_bytes": call.points[0].bytes,
                "largest_bytes": call.points[-1].bytes,
                "largest_message_bytes_per_s": 1.0 / call.seconds_per_byte,
                "residual": call.residual,
            }
            for call in calibration.calls
        ],
    }


def _print(calibration: Calibration, out: Path, lines: Sequence[str]) -> None:
    typer.echo(calibration.title)
    typer.echo(f"where: {calibration.where}")
    typer.echo(f"when: {calibration.when}")
    form = "{:<15} {:>5} {:>5} {:>8} {:>6}  {:<22} {:<22} {:>8}"
    typer.echo(form.format("kind", "ranks", "nodes", "packages", "points", "bytes", "seconds", "residual"))
    for call in calibration.calls:
        first, last = call.points[0], call.points[-1]
        sizes = f"{written(first.bytes, 'bytes')} to {written(last.bytes, 'bytes')}"
        times = f"{written(first.seconds, 's')} to {written(last.seconds, 's')}".replace(" us", " µs")
        residual = "–" if call.residual is None else f"{100 * call.residual:.1f} %"
        cells = (call.kind, call.ranks, call.nodes, call.packages, len(call.points), sizes, times, residual)
        typer.echo(form.format(*cells))
    if calibration.machine or calibration.library:
        machine = counted(len(calibration.machine), "number")
        typer.echo(f"and {machine} of a machine, {len(calibration.library)} of a library")
    for one in lines:
        typer.echo(f"– {one}")
    typer.echo(f"Written: {out}; a scenario names it as library.calibration")
