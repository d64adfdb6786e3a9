"""Validations of measured tables and of published runs for a person: tables of errors, and what they come to."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from simfrontier.accuracy import Errors, JudgedBound, RunsValidation, Validation
from simfrontier.cli.console import console, grid, plain, say, say_written
from simfrontier.report import NOTHING, percent, signed
from simfrontier.units import counted

_BOUNDS_HEAD = ("series", "which", "rows", "mean", "allowed", "90th pct", "allowed")
_HEAD = ("table", "which", "rows", "median", "mean", "90th pct", "farthest", "in 90 %")
_RUNS_HEAD = ("runs", "count", "mean", "median", "bias", "in 90 %", "± width")
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
        said = f"Memory of {counted(off.count, 'run')} that state it: {percent(off.mean_abs)} off on average"
        screen.print(plain(f"{said}, median {percent(off.median_abs)}."))
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
