"""Output of `calibrate`: tables, sentences, and the document of --json."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from simfrontier.answers.accuracy import FitOutcome, Parameter, error_summary
from simfrontier.base.units import counted, written
from simfrontier.core.collectives import Calibration, CallTable, ErrorSummary
from simfrontier.interfaces.cli.console import console, grid, say
from simfrontier.interfaces.report import NOTHING, exactly, percent, said

LEAST_WIDTH = 108  # names of parameters are long, and no use in pieces
_PARAMETERS = ("parameter", "value", "90 % interval", "in the file")
_CALLS = ("kind", "ranks", "nodes", "packages", "points", "bytes", "seconds", "residual")
_FAR = ("", "points", "mean error", "90th pct", "farthest", "spread")

# ── for a program ──


def calibration_document(calibration: Calibration, out: Path) -> dict[str, object]:
    """Return the texts and numbers of a calibration, and the shapes of its tables."""
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


def fit_document(
    done: FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the parameters, the errors, and every point with its prediction; `left_out`: entries of the files that are
    not rows."""
    return {
        "file": str(out),
        "page": str(page),
        **{key: getattr(calibration, key) for key in ("title", "where", "when", "how")},
        "said": [*(text for name in ("lead", "findings") for text in said("calibrate", name, done)), *left_out],
        "parameters": [asdict(parameter) for parameter in done.parameters],
        "shipped": asdict(error_summary(done.shipped)),
        "model_sd": done.model_sd,
        "covered": done.covered,
        "worse_than_shipped": done.worse is not None,
        "hardly_shown": list(done.hardly),
        "errors": [asdict(line) for line in done.lines],
        "fit": None if calibration.fit is None else asdict(calibration.fit),
        "set_aside": {str(missing): number for missing, number in done.chosen.set_aside.items()},
        "not_left_out": {
            f"{machine} {devices}": text for (machine, devices), text in done.cross_validation.faults.items()
        },
        "rows": [
            {
                "machine": row.machine,
                "collective": row.collective,
                "library": row.library,
                "devices": row.devices,
                "bytes": row.num_bytes,
                "time_s": row.seconds,
                "fitted_s": row.seconds * math.exp(fitted),
                "left_out_s": row.seconds * math.exp(left_out),
                "source": row.source,
            }
            for row, fitted, left_out in zip(
                done.chosen.rows, done.fitted.errors.tolist(), done.cross_validation.errors.tolist(), strict=True
            )
        ],
    }


# ── for a person ──


def print_calibration(calibration: Calibration, out: Path, lines: Sequence[str]) -> None:
    """Print a line per table; `lines`: further sentences."""
    typer.echo(calibration.title)
    typer.echo(f"where: {calibration.where}")
    typer.echo(f"when: {calibration.when}")
    screen = console()
    screen.width = max(screen.width, LEAST_WIDTH)
    screen.print(grid(None, _CALLS, map(_call_cells, calibration.calls), left=("kind", "bytes", "seconds")))
    if calibration.machine or calibration.library:
        machine = counted(len(calibration.machine), "number")
        typer.echo(f"and {machine} of a machine, {len(calibration.library)} of a library")
    for one in lines:
        typer.echo(f"– {one}")
    typer.echo(f"Written: {out}; a scenario names it as library.calibration")


def _call_cells(call: CallTable) -> tuple[str, ...]:
    first, last = call.points[0], call.points[-1]
    sizes = f"{written(first.bytes, 'bytes')} to {written(last.bytes, 'bytes')}"
    times = f"{written(first.seconds, 's')} to {written(last.seconds, 's')}".replace(" us", " µs")
    residual = "–" if call.residual is None else f"{100 * call.residual:.1f} %"
    counts = map(str, (call.ranks, call.nodes, call.packages, len(call.points)))
    return call.kind, *counts, sizes, times, residual


def print_fit(done: FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()) -> None:
    """Print parameters, fitted and cross-validated errors, and the summary; `left_out`: entries of the files that are
    not rows."""
    screen = console()
    screen.width = max(screen.width, LEAST_WIDTH)
    screen.print(f"{calibration.title} ({calibration.when})", soft_wrap=True)
    screen.print(grid(None, _PARAMETERS, map(_parameter_cells, done.parameters), left=_PARAMETERS[:1]))
    lines = (("".join(said("calibrate", "line", one)), *_far_cells(one.far)) for one in done.lines)
    screen.print(grid(None, _FAR, lines, left=_FAR[:1]))
    screen.print("spread: standard deviation of log(predicted / measured); 0.1 is about 10 %", style="dim")
    say("calibrate", "lead", done, style="bold")
    say("calibrate", "findings", done, before="– ")
    for text in left_out:
        screen.print(f"– {text}", soft_wrap=True)
    screen.print(f"Written: {out}; a scenario names it as library.calibration. Plots: {page}", soft_wrap=True)


def _parameter_cells(one: Parameter) -> tuple[str, ...]:
    known = exactly(one.file_value, one.unit)
    if one.value is None or one.interval is None:
        return one.key, NOTHING, "not shown by the data", known
    low, high = (exactly(end, one.unit) for end in one.interval)
    return one.key, exactly(one.value, one.unit), f"{low} to {high}", known


def _far_cells(far: ErrorSummary) -> tuple[str, ...]:
    shares = (far.mean_abs_error, far.p90_abs_error, far.worst_abs_error)
    return (f"{far.points:,}", *(percent(share) for share in shares), f"{far.residual_sd:.3f}")
