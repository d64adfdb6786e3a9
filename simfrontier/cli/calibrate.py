"""`simfrontier calibrate --tables`: logs, calibrations, traces and other measured times into tables of calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from simfrontier.accuracy import Labels, calibration_of_files
from simfrontier.collectives import Calibration, CallTable, write_calibration
from simfrontier.measured import Setup
from simfrontier.report import said
from simfrontier.units import counted, written


def calibrate(files: list[Path], out: Path, setup: Setup, labels: Labels, as_json: bool) -> None:
    """Read everything, write the calibration, print what is in it. Raises InputError."""
    made = calibration_of_files(files, setup, labels)
    write_calibration(made.calibration, out)
    lines = [*made.notes, *said("calibrate", "tables", made)]
    if as_json:
        typer.echo(json.dumps({**_document(made.calibration, out), "said": lines}, indent=1, ensure_ascii=False))
    else:
        _print(made.calibration, out, lines)


def _document(calibration: Calibration, out: Path) -> dict[str, object]:
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
        typer.echo(form.format(*_cells(call)))
    if calibration.machine or calibration.library:
        machine = counted(len(calibration.machine), "number")
        typer.echo(f"and {machine} of a machine, {len(calibration.library)} of a library")
    for one in lines:
        typer.echo(f"– {one}")
    typer.echo(f"Written: {out}; a scenario names it as library.calibration")


def _cells(call: CallTable) -> tuple[object, ...]:
    first, last = call.points[0], call.points[-1]
    sizes = f"{written(first.bytes, 'bytes')} to {written(last.bytes, 'bytes')}"
    times = f"{written(first.seconds, 's')} to {written(last.seconds, 's')}".replace(" us", " µs")
    residual = "–" if call.residual is None else f"{100 * call.residual:.1f} %"
    return call.kind, call.ranks, call.nodes, call.packages, len(call.points), sizes, times, residual
