"""Validations of measured tables and of published runs, calibrations and fits for a person: tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from rich.table import Table

from simfrontier.accuracy import Errors, FitOutcome, JudgedBound, Parameter, RunsValidation, Validation
from simfrontier.cli.console import console, grid, plain, say, say_written
from simfrontier.collectives import Calibration, CallTable, ErrorSummary
from simfrontier.report import NOTHING, exactly, percent, said, signed
from simfrontier.units import counted, written

_BOUNDS_HEAD = ("series", "which", "rows", "mean", "allowed", "90th pct", "allowed")
_HEAD = ("table", "which", "rows", "median", "mean", "90th pct", "farthest", "in 90 %")
_RUNS_HEAD = ("runs", "count", "mean", "median", "bias", "in 90 %", "± width")
LEAST_WIDTH = 108  # names of parameters are long, and no use in pieces
_PARAMETERS = ("parameter", "value", "90 % interval", "in the file")
_FAR = ("points", "mean error", "90th pct", "farthest", "spread")
_WORST = ("run", "unit", "measured", "predicted", "error")


def print_validation(done: Validation, out: Path | None) -> None:
    """A table of errors and what they come to."""
    screen = console()
    table = grid("predicted / measured − 1, all sizes", _HEAD, words=("table",), left=("which",), gap=0)
    for summary in done.summaries:
        for place, (words, errors) in enumerate(summary.lines):
            name = summary.name if place == 0 else ""
            style = "dim" if words == "fitted" else "bold" if "+" in words else ""
            table.add_row(name, words.replace(" + ", "\n+ ") or NOTHING, *_cells(errors), style=style)
    screen.print(table)
    if done.judged_bounds:
        bounds = grid("what tables are held to", _BOUNDS_HEAD, words=("series",), left=("which",), gap=0)
        for each in done.judged_bounds:
            bounds.add_row(each.bound.series, *_bound_cells(each), style="" if each.holds else "bold red")
        screen.print(bounds)
    say("validate", "lead", done, style="bold")
    say("validate", "findings", done, before="– ")
    say_written(out)


def print_runs(done: RunsValidation, out: Path | None) -> None:
    """Tables of errors, the worst runs, and those without a prediction."""
    screen = console()
    if done.overall is not None:
        screen.print(_runs(done, done.overall))
        screen.print(_worst(done))
    if done.memory is not None:
        off = done.memory
        memory = f"Memory of {counted(off.count, 'run')} that state it: {percent(off.mean_abs)} off on average"
        screen.print(plain(f"{memory}, median {percent(off.median_abs)}."))
    expressed = f"{len(done.predicted)} of {counted(len(done.rows), 'run')} have a prediction."
    screen.print(plain(expressed), style="bold")
    for why, numbers in done.reasons().items():
        line = f"– {counted(len(numbers), 'run')} (row {', '.join(map(str, numbers[:5]))}): {why}"
        screen.print(plain(line), soft_wrap=True)
    say_written(out)


def _bound_cells(judged: JudgedBound) -> tuple[str, ...]:
    bound, errors = judged.bound, judged.errors
    means = (percent(errors.mean_abs) if errors else NOTHING, percent(bound.mean_abs))
    p90s = (percent(errors.p90_abs) if errors else NOTHING, percent(bound.p90_abs)) if bound.p90_abs else ("", "")
    count = f"{errors.count:,}" if errors else "0"
    return (", ".join(judged.uses), count, *map(plain, (*means, *p90s)))


def _cells(errors: Errors | None) -> tuple[str, ...]:
    if errors is None:
        return ("0", *[NOTHING] * 5)
    off = (signed(errors.median), percent(errors.mean_abs), percent(errors.p90_abs), signed(errors.worst.error))
    shown = (*off, percent(errors.covered))
    return (f"{errors.count:,}", *map(plain, shown))


def _runs(done: RunsValidation, overall: Errors) -> Table:
    """Errors of all runs, and by machine, system and size where there are several."""
    table = grid(f"{done.title}: predicted / measured − 1", _RUNS_HEAD, words=("runs",), gap=1)
    table.add_row("all", *_run_cells(overall), style="bold")
    for what, group in (("machine", done.by("machine")), ("system", done.by("system")), ("size", done.by_size())):
        for place, (name, errors) in enumerate(group.items() if len(group) > 1 else ()):
            table.add_row(f"{name} ({what})" if place == 0 else name, *_run_cells(errors))
    return table


def _run_cells(errors: Errors) -> tuple[str, ...]:
    off = (percent(errors.mean_abs), percent(errors.median_abs), signed(errors.bias))
    return (f"{errors.count:,}", *map(plain, (*off, percent(errors.covered), percent(errors.width))))


def _worst(done: RunsValidation) -> Table:
    """The runs that lie farthest off."""
    worst = grid("the farthest off", _WORST, words=("run", "unit"), gap=1)
    for each in done.worst():
        shown = (f"{each.measured:.4g}", f"{each.prediction.value:.4g}", signed(each.error))
        worst.add_row(each.row.title, each.row.unit, *map(plain, shown))
    return worst


# ── calibrations ──


def print_calibration(calibration: Calibration, out: Path, lines: Sequence[str]) -> None:
    """A line for each table; `lines`: what else is to be said."""
    typer.echo(calibration.title)
    typer.echo(f"where: {calibration.where}")
    typer.echo(f"when: {calibration.when}")
    form = "{:<15} {:>5} {:>5} {:>8} {:>6}  {:<22} {:<22} {:>8}"
    typer.echo(form.format("kind", "ranks", "nodes", "packages", "points", "bytes", "seconds", "residual"))
    for call in calibration.calls:
        typer.echo(form.format(*_call_cells(call)))
    if calibration.machine or calibration.library:
        machine = counted(len(calibration.machine), "number")
        typer.echo(f"and {machine} of a machine, {len(calibration.library)} of a library")
    for one in lines:
        typer.echo(f"– {one}")
    typer.echo(f"Written: {out}; a scenario names it as library.calibration")


def _call_cells(call: CallTable) -> tuple[object, ...]:
    first, last = call.points[0], call.points[-1]
    sizes = f"{written(first.bytes, 'bytes')} to {written(last.bytes, 'bytes')}"
    times = f"{written(first.seconds, 's')} to {written(last.seconds, 's')}".replace(" us", " µs")
    residual = "–" if call.residual is None else f"{100 * call.residual:.1f} %"
    return call.kind, call.ranks, call.nodes, call.packages, len(call.points), sizes, times, residual


def print_fit(done: FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()) -> None:
    """Parameters, errors fitted and left out, and what they come to; `left_out`: what of the files is no row."""
    screen = console()
    screen.width = max(screen.width, LEAST_WIDTH)
    screen.print(f"{calibration.title} ({calibration.when})", soft_wrap=True)
    screen.print(_table(_PARAMETERS, (_parameter_cells(one) for one in done.parameters)))
    screen.print(
        _table(("", *_FAR), (("".join(said("calibrate", "line", one)), *_far_cells(one.far)) for one in done.lines))
    )
    screen.print("spread: standard deviation of log(predicted / measured); 0.1 is about 10 %", style="dim")
    say("calibrate", "lead", done, style="bold", screen=screen)
    say("calibrate", "findings", done, before="– ", screen=screen)
    for text in left_out:
        screen.print(f"– {text}", soft_wrap=True, markup=False, highlight=False)
    screen.print(f"Written: {out}; a scenario names it as library.calibration. Plots: {page}", soft_wrap=True)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = grid(None, heads, words=(), left=heads[:1])
    for cells in rows:
        table.add_row(*cells)
    return table


def _parameter_cells(one: Parameter) -> tuple[str, ...]:
    known = plain(exactly(one.file_value, one.unit))
    if one.value is None or one.interval is None:
        return one.key, NOTHING, "not shown by the data", known
    low, high = (plain(exactly(end, one.unit)) for end in one.interval)
    return one.key, plain(exactly(one.value, one.unit)), f"{low} to {high}", known


def _far_cells(far: ErrorSummary) -> tuple[str, ...]:
    shares = (far.mean_abs_error, far.p90_abs_error, far.worst_abs_error)
    return (f"{far.points:,}", *(plain(percent(share)) for share in shares), f"{far.residual_sd:.3f}")
