"""`simfrontier validate` of whole training runs: the errors as a table or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.accuracy import HeldRun, RunErrors, RunsValidation, Unread
from simfrontier.cli.console import console, finite, grid, plain, say_written
from simfrontier.report import counted, percent, signed

if TYPE_CHECKING:
    from rich.table import Table

_HEAD = ("runs", "count", "mean", "median", "bias", "in 90 %", "± width")
_WORST = ("run", "unit", "measured", "predicted", "error")
MOST_WORST = 10


def runs_document(done: RunsValidation) -> dict[str, Any]:
    """Every run with its prediction in its own unit, or the reason why there is none, and the errors."""
    rows: dict[int, dict[str, Any]] = {each.run.number: _held_row(each) for each in done.held}
    rows |= {each.run.number: _unread_row(each) for each in done.unread}
    return {
        "title": done.title,
        "num_rows": done.count,
        "num_expressed": len(done.held),
        "overall": _errors(done.overall),
        "by_machine": [_errors(each) for each in done.by("machine")],
        "by_system": [_errors(each) for each in done.by("system")],
        "by_size": [_errors(each) for each in done.by_size()],
        "memory": _errors(done.memory),
        "rows": [rows[number] for number in sorted(rows)],
    }


def _errors(errors: RunErrors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    names = ("name", "count", "mean", "median", "bias", "covered", "width")
    return {name: getattr(errors, name) for name in names}


def _named(run: Any) -> dict[str, Any]:
    columns = ("machine", "system", "model_shape", "plan", "devices", "unit")
    return {"row": run.number, "where": run.where, **{name: run[name] for name in columns}, "value": finite(run.value)}


def _held_row(held: HeldRun) -> dict[str, Any]:
    return {
        **_named(held.run),
        "predicted": held.predicted,
        "low": held.low,
        "high": held.high,
        "error": held.error,
        "inside": held.is_covered,
        "use": held.use,
        "left_out": held.without,
        "step_s": held.step_s,
        "memory_bytes": held.peak_bytes,
        "stated_memory_bytes": held.stated_bytes,
        "stack": held.job.scenario.file.stack,
        "simulated_on": held.job.scenario.machine.name,
        "assumed": [each.text for each in held.job.unknown],
        "why": "",
    }


def _unread_row(unread: Unread) -> dict[str, Any]:
    return {**_named(unread.run), "predicted": None, "low": None, "high": None, "why": unread.why}


def print_runs(done: RunsValidation, out: Path | None) -> None:
    """Tables of errors, the worst runs, and those without a prediction, for a person."""
    screen = console()
    table = grid(f"{done.title}: predicted / measured − 1", _HEAD, words=("runs",), gap=1)
    if done.overall is not None:
        table.add_row(done.overall.name, *map(plain, _cells(done.overall)), style="bold")
    for what, group in (("machine", done.by("machine")), ("system", done.by("system")), ("size", done.by_size())):
        for place, each in enumerate(group if len(group) > 1 else ()):
            words = f"{each.name} ({what})" if place == 0 else each.name
            table.add_row(words, *map(plain, _cells(each)))
    if done.held:
        screen.print(table)
        screen.print(_worst(done))
    if done.memory is not None:
        off = done.memory
        said = f"Memory of {counted(off.count, 'run')} that state it: {percent(off.mean)} off on average"
        screen.print(plain(f"{said}, median {percent(off.median)}."))
    expressed = f"{len(done.held)} of {counted(done.count, 'run')} have a prediction."
    screen.print(plain(expressed), style="bold")
    for why, numbers in done.reasons().items():
        line = f"– {counted(len(numbers), 'run')} (row {', '.join(map(str, numbers[:5]))}): {why}"
        screen.print(plain(line), soft_wrap=True)
    say_written(out)


def _worst(done: RunsValidation) -> Table:
    """The runs that lie farthest off."""
    worst = grid("the farthest off", _WORST, words=("run", "unit"), gap=1)
    for held in done.worst(MOST_WORST):
        shown = (f"{held.run.value:.4g}", f"{held.predicted:.4g}", signed(held.error))
        worst.add_row(held.run.title, held.run.unit, *map(plain, shown))
    return worst


def _cells(errors: RunErrors) -> tuple[str, ...]:
    return (
        f"{errors.count:,}",
        percent(errors.mean),
        percent(errors.median),
        signed(errors.bias),
        percent(errors.covered),
        percent(errors.width),
    )
