"""`simfrontier calibrate`: logs of nccl-tests and rccl-tests, and calibrations, into one calibration file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import typer

from simfrontier.collectives import Calibration, CallTable, load_calibration, write_calibration
from simfrontier.collectives.merge import merged
from simfrontier.collectives.nccl_tests import read_log
from simfrontier.errors import InputError
from simfrontier.units import written

MAX_HOSTS = 4


def calibrate(
    files: list[Path],
    out: Path,
    packages: int | None,
    where: str | None,
    when: str | None,
    title: str | None,
    as_json: bool,
) -> None:
    """Read everything, write the calibration, print what is in it. Raises InputError."""
    for option, value in (("--where", where), ("--when", when), ("--title", title)):
        if value is not None and not value.strip():
            raise InputError(f"{option}: got nothing, allowed: some text")
    known: list[tuple[Path, Calibration]] = []
    tables: list[CallTable] = []
    hosts: list[str] = []
    dates: list[str] = []
    for file in files:
        if file.suffix == ".toml":
            known.append((file, load_calibration(file)))
            tables += known[-1][1].calls
        else:
            log = read_log(file, packages)
            tables += log.tables
            hosts += log.hosts
            dates.append(f"{date.fromtimestamp(file.stat().st_mtime).isoformat()} (date of {file.name})")
    places = [*(calibration.where for _, calibration in known), *([_named(hosts)] if hosts else [])]
    place = where or _joined(places)
    calibration = Calibration(
        title=title or _joined([*(one.title for _, one in known), *([f"nccl-tests on {place}"] if hosts else [])]),
        where=place,
        when=when or _joined([*(one.when for _, one in known), *dates]),
        how=_command(files, out, packages),
        machine=_numbers(known, "machine"),
        library=_numbers(known, "library"),
        calls=merged(tables),
    )
    write_calibration(calibration, out)
    if as_json:
        typer.echo(json.dumps(_rows(calibration, out), indent=1))
    else:
        _print(calibration, out)


def _command(files: list[Path], out: Path, packages: int | None) -> str:
    said = "" if packages is None else f" --packages {packages}"
    return f"simfrontier calibrate {' '.join(file.name for file in files)}{said} --out {out.name}"


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
                "smallest_bytes": call.points[0].num_bytes,
                "largest_bytes": call.points[-1].num_bytes,
                "largest_message_bytes_per_s": 1.0 / call.seconds_per_byte,
                "residual": call.residual,
            }
            for call in calibration.calls
        ],
    }


def _print(calibration: Calibration, out: Path) -> None:
    typer.echo(calibration.title)
    typer.echo(f"where: {calibration.where}")
    typer.echo(f"when: {calibration.when}")
    form = "{:<15} {:>5} {:>5} {:>8} {:>6}  {:<22} {:<22} {:>8}"
    typer.echo(form.format("kind", "ranks", "nodes", "packages", "points", "bytes", "seconds", "residual"))
    for call in calibration.calls:
        first, last = call.points[0], call.points[-1]
        sizes = f"{written(first.num_bytes, 'bytes')} to {written(last.num_bytes, 'bytes')}"
        times = f"{written(first.seconds, 's')} to {written(last.seconds, 's')}"
        residual = "–" if call.residual is None else f"{100 * call.residual:.1f} %"
        cells = (call.kind, call.ranks, call.nodes, call.packages, len(call.points), sizes, times, residual)
        typer.echo(form.format(*cells))
    if calibration.machine or calibration.library:
        typer.echo(f"and {len(calibration.machine)} numbers of a machine, {len(calibration.library)} of a library")
    typer.echo(f"Written: {out}; a scenario names it as library.calibration")
