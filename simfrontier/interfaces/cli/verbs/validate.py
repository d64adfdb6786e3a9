"""`simfrontier validate`: the models compared with measured tables and published runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from simfrontier.answers import accuracy
from simfrontier.base.errors import InputError
from simfrontier.base.units import counted
from simfrontier.base.wholefile import ensure_writable
from simfrontier.base.workers import Place, Workers, for_calls
from simfrontier.core.machine import load_machine
from simfrontier.inputs.measured import Row, Setup
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import console, print_json, say, say_written, tell, write_page
from simfrontier.interfaces.report.measured import validation_page
from simfrontier.interfaces.report.phrases import NOTHING, number, percent, signed
from simfrontier.interfaces.report.render import said
from simfrontier.interfaces.report.rows import row_name
from simfrontier.interfaces.report.runs_page import runs_page, runs_shown, runs_shown_title
from simfrontier.interfaces.report.table import Table

_BOUNDS_HEAD = ("series", "which", "rows", "mean", "allowed", "90th pct", "allowed")
_HEAD = ("table", "which", "rows", "median", "mean", "90th pct", "farthest", "in 90 %")
_STEPS_HEAD = ("kernels", "measured, s", "predicted, s", "error")
_RUNS_HEAD = ("runs", "count", "mean", "median", "bias", "in 90 %", "± width")
_SHOWN_RUN = ("run", "measured", "predicted", "90 % interval", "error")
_RUN = ("machine", "system", "model_shape", "plan", "devices", "unit")


def validate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="your own measurements, as --data", metavar="FILE", show_default=False),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="your own measurements: times of collectives (as in calibrate) or training runs (docs/accuracy.md)"
        ),
    ] = None,
    cross: Annotated[
        bool | None,
        typer.Option(
            "--cross/--no-cross",
            help="cross-validate: predict fitted rows by fits without their device count, and training "
            "runs by fits without their machine (default), or use the shipped parameters for fitted rows alone",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the page index.html (default: no page)")] = None,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    json: Annotated[bool, typer.Option("--json", help="print every row with its prediction as JSON")] = False,
    machine: Annotated[
        str | None, typer.Option(help="machine of --data (name or TOML file), if the file does not say")
    ] = None,
    library: Annotated[str | None, typer.Option(help="library of --data, if the file does not say")] = None,
    devices: options.GroupDevices = None,
    nodes: options.GroupNodes = None,
    packages: options.GroupPackages = None,
    harness: Annotated[
        str | None,
        typer.Option(
            help="programs whose overhead the times in --data include, e.g. frontier_call,frontier_list; or none"
        ),
    ] = None,
) -> None:
    """Compare the shipped models with measured tables and published training runs. Exit code 1 if a table exceeds its
    stated bound, 2 if no row of your own files can be predicted."""
    place = options.place_of(jobs, scheduler, slurm, dashboard)
    if machine is not None and machine.endswith(".toml"):
        load_machine(machine)
    setup = Setup(machine=machine, library=library, devices=devices, nodes=nodes, packages=packages)
    own = [*(files or ()), *(data or ())]
    of_times = {f"--{option}": value for option, value in {**asdict(setup), "harness": harness}.items()}
    _refuse_options(own, of_times, cross)
    if out is not None:
        ensure_writable(out)
    tables, runs = _validated(own, setup, harness, of_times, cross, place)
    if out is not None:
        pages = {} if tables is None else {"index.html": validation_page(tables)}
        if runs is not None:
            pages["runs.html" if pages else "index.html"] = runs_page(runs)
        write_page(out, pages)
    if json and tables is not None:
        print_json(tables_document(tables) | ({} if runs is None else {"runs": runs_document(runs)}))
    elif json and runs is not None:
        print_json(runs_document(runs))
    else:
        if tables is not None:
            print_validation(tables, out)
        if runs is not None:
            print_runs(runs, out if tables is None else None)
    if runs is not None:
        _refuse_unpredicted(runs)
    raise typer.Exit(0 if tables is None or tables.holds else 1)


def _validated(
    own: Sequence[Path],
    setup: Setup,
    harness: str | None,
    of_times: Mapping[str, object],
    cross: bool | None,
    place: Place,
) -> tuple[accuracy.Validation | None, accuracy.RunsValidation | None]:
    """Compare the tables and training runs in the user's files, or all shipped ones, with predictions."""
    if any(map(accuracy.is_of_runs, own)):
        _refuse_times(own, of_times)
        runs = accuracy.read_runs(*own)
        with Workers(for_calls(place, len(runs))) as workers:
            return None, accuracy.validate_runs(runs, " and ".join(path.name for path in own), workers)
    if own:
        return accuracy.validate_files(own, setup, harness), None
    if cross is False:
        return accuracy.validate_shipped(False), None
    with Workers(place) as workers:
        return accuracy.validate_shipped(True, workers), accuracy.validate_shipped_runs(workers)


def _refuse_options(own: Sequence[Path], of_files: Mapping[str, object], cross: bool | None) -> None:
    """Raise InputError for options that apply to files if no files are given, or that apply to the shipped tables if
    files are given."""
    if not own:
        options.refuse(of_files, "without --data; allowed: only beside a file of your own")
    if cross is not None and own:
        option = "--cross" if cross else "--no-cross"
        raise InputError(
            f"{option}: got --data too; allowed: without it, for the tables that the models were fitted to"
        )


def _refuse_times(own: Sequence[Path], of_times: Mapping[str, object]) -> None:
    """Raise InputError if tables of collective times, or options for them, are combined with tables of training
    runs."""
    for path in own:
        if not accuracy.is_of_runs(path):
            raise InputError(f"{path}: times beside a table of training runs; allowed: files of one sort")
    options.refuse(of_times, "beside training runs, whose columns say all; allowed: without")


def _refuse_unpredicted(runs: accuracy.RunsValidation) -> None:
    """Raise InputError if no run has a prediction, with the most common reason."""
    if not runs.predicted:
        why, places = max(runs.reasons().items(), key=lambda each: len(each[1]))
        rows = f"none of its {counted(len(runs.rows), 'row')} can be predicted"
        raise InputError(f"{runs.title}: {rows}: {why} ({counted(len(places), 'row')}, the first: {places[0]})")


# ── for a program ──


def tables_document(done: accuracy.Validation) -> dict[str, Any]:
    """Return every row with its prediction, the errors of every table, and the bounds, as a JSON document."""
    by_name = {summary.name: summary for summary in done.summaries}
    return {
        "holds": done.holds,
        "said": [text for name in ("lead", "findings") for text in said("validate", name, done)],
        "notes": [*done.notes, *said("validate", "notes", done)],
        "overall": _summary(done.overall),
        "tables": {
            table.name: {
                "title": table.title,
                "citation": table.citation,
                "method": table.method,
                "caveats": table.caveats,
                **_summary(by_name[table.name]),
            }
            for table in done.tables
        },
        "not_predicted": [{"why": why, "rows": len(rows)} for why, rows in done.unpredicted.items()],
        "bounds": [
            {**asdict(each.bound), "holds": each.holds, "rows": each.uses, "errors": _errors(each.errors)}
            for each in done.judged_bounds
        ],
        "training": [_training(each) for each in done.bounded],
        "rows": [_measured_row(row) for row in done.rows],
    }


def runs_document(done: accuracy.RunsValidation) -> dict[str, Any]:
    """Return every run with its prediction in the run's own unit (or the reason for a missing prediction), and the
    errors."""
    return {
        "title": done.title,
        "num_rows": len(done.rows),
        "num_expressed": len(done.predicted),
        "overall": _run_errors("all", done.overall),
        "by_machine": _all_run_errors(done.by("machine")),
        "by_stack": _all_run_errors(done.by("stack")),
        "by_source": _all_run_errors(done.by("source")),
        "by_size": _all_run_errors(done.by("size")),
        "memory": _run_errors("memory", done.memory),
        "rankings": done.rankings and asdict(done.rankings),
        "rows": [_run_row(row) for row in done.rows],
    }


def _measured_row(row: accuracy.Residual[Row]) -> dict[str, Any]:
    """Return a measured row with the column names of its file, and its prediction."""
    made = row.prediction
    return {
        "table": row.table,
        **_columns(row.row),
        "time_s": row.measured,
        "predicted_s": made and made.value,
        "low_s": made and made.low,
        "high_s": made and made.high,
        "error": row.error,
        "harness_s": made and made.harness_s,
        "use": row.use,
        "why": row.reason,
    }


def _columns(row: Row) -> dict[str, Any]:
    names = {"num_bytes": "bytes", "seconds": "time_s"}
    row_json = asdict(row) | {"place": str(row.place)}
    return {names.get(name, name): value for name, value in row_json.items()}


def _summary(summary: accuracy.Summary) -> dict[str, Any]:
    return {
        "num_rows": summary.num_rows,
        "num_pathologies": summary.num_pathologies,
        "num_not_predicted": summary.num_unknown,
        "errors": _errors(summary.errors),
        "unseen": _errors(summary.unseen),
        "by_use": {use: _errors(errors) for use, errors in summary.by_use.items()},
    }


def _errors(errors: accuracy.Errors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    numbers = {name: getattr(errors, name) for name in ("count", "median", "mean_abs", "p90_abs", "covered")}
    return {**numbers, "worst": _measured_row(errors.worst)}


def _training(bounded: accuracy.BoundedRate) -> dict[str, Any]:
    return {
        **_columns(bounded.row),
        "published_flops_per_s": bounded.published_flops_per_s,
        "bound_flops_per_s": bounded.bound_flops_per_s,
        "holds": bounded.holds,
    }


def _all_run_errors(errors: Mapping[str, accuracy.Errors]) -> list[dict[str, Any] | None]:
    return [_run_errors(name, each) for name, each in errors.items()]


def _run_errors(name: str, errors: accuracy.Errors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    return {
        "name": name,
        "count": errors.count,
        "mean": errors.mean_abs,
        "median": errors.median_abs,
        "bias": errors.bias,
        "covered": errors.covered,
        "width": errors.width,
    }


def _run_row(row: accuracy.Residual[accuracy.Run]) -> dict[str, Any]:
    run, made = row.row, row.prediction
    named = {"row": run.number, "where": run.where, **{name: run[name] for name in _RUN}, "value": run.value}
    predicted = {"predicted": made and made.value, "low": made and made.low, "high": made and made.high}
    if not isinstance(row, accuracy.PredictedRun):
        return {**named, **predicted, "why": row.why}
    return {
        **named,
        **predicted,
        "error": row.error,
        "inside": row.is_covered,
        "use": row.use,
        "left_out": row.without,
        "step_s": row.step_s,
        "memory_bytes": row.step.peak_bytes,
        "stated_memory_bytes": row.job.stated_bytes,
        "stack": row.job.scenario.file.stack,
        "simulated_on": row.job.scenario.machine.name,
        "assumed": [each.text for each in row.job.unknown],
        "why": row.why,
    }


# ── for a person ──


def print_validation(done: accuracy.Validation, out: Path | None) -> None:
    """Print the table of errors and the summary."""
    rows, styles = [], []
    for summary in done.summaries:
        for place, (words, errors) in enumerate(summary.lines):
            rows.append(("" if place else summary.name, words.replace(" + ", "\n+ ") or NOTHING, *_cells(errors)))
            styles.append("dim" if words == "fitted" else "bold" if "+" in words else "")
    title = "predicted / measured − 1, all sizes"
    tell(Table(title, _HEAD, rows, words=("table",), left=("which",), gap=0, styles=styles))
    if done.of_steps:
        rows = [
            (row_name(each.row), f"{each.measured:.3g}", f"{each.prediction.value:.3g}", signed(each.error))
            for each in done.of_steps
            if each.measured is not None and each.prediction is not None
        ]
        tell(Table("steps by class of kernels", _STEPS_HEAD, rows, words=("kernels",), gap=0))
    if done.judged_bounds:
        rows = [(each.bound.series, *_bound_cells(each)) for each in done.judged_bounds]
        styles = ["" if each.holds else "bold red" for each in done.judged_bounds]
        title = "what tables are held to"
        tell(Table(title, _BOUNDS_HEAD, rows, words=("series",), left=("which",), gap=0, styles=styles))
    say("validate", "lead", done, style="bold", soft_wrap=False)
    say("validate", "findings", done, before="– ", soft_wrap=False)
    say_written(out)


def print_runs(done: accuracy.RunsValidation, out: Path | None) -> None:
    """Print the tables of errors, the worst runs, and the runs without a prediction."""
    screen = console()
    if done.overall is not None:
        rows = [("all", *_run_cells(done.overall)), *_run_rows(done)]
        title = f"{done.title}: predicted / measured − 1"
        tell(Table(title, _RUNS_HEAD, rows, words=("runs",), styles=["bold"]))
        runs = [_shown_run(each) for each in runs_shown(done)]
        tell(Table(runs_shown_title(done), _SHOWN_RUN, runs, words=("run",)))
    if (ranked := done.rankings) is not None:
        said_sure = f"{ranked.sure - ranked.sure_right} of {ranked.sure} sure rankings are wrong"
        screen.print(
            f"Rankings of {counted(ranked.pairs, 'pair')} of plans of one job: {percent(ranked.right_share)} right; "
            f"{percent(ranked.too_close_share)} too close to call, {said_sure}."
        )
    if done.memory is not None:
        off = done.memory
        memory = f"Memory of {counted(off.count, 'run')} that state it: {percent(off.mean_abs)} off on average"
        screen.print(f"{memory}, median {percent(off.median_abs)}.")
    expressed = f"{len(done.predicted)} of {counted(len(done.rows), 'run')} with a prediction."
    screen.print(expressed, style="bold")
    for why, places in done.reasons().items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        tell(f"– {counted(len(places), 'run')} ({', '.join(places[:3])}{more}): {why}")
    say_written(out)


def _bound_cells(judged: accuracy.JudgedBound) -> tuple[str, ...]:
    bound, errors = judged.bound, judged.errors
    means = (percent(errors.mean_abs) if errors else NOTHING, percent(bound.mean_abs))
    p90s = (percent(errors.p90_abs) if errors else NOTHING, percent(bound.p90_abs)) if bound.p90_abs else ("", "")
    return (", ".join(judged.uses), f"{errors.count if errors else 0:,}", *means, *p90s)


def _cells(errors: accuracy.Errors | None) -> tuple[str, ...]:
    if errors is None:
        return ("0", *[NOTHING] * 5)
    off = (signed(errors.median), percent(errors.mean_abs), percent(errors.p90_abs), signed(errors.worst.error))
    return (f"{errors.count:,}", *off, percent(errors.covered))


def _shown_run(row: accuracy.PredictedRun) -> tuple[str, ...]:
    made = row.prediction
    interval = f"{number(made.low)} to {number(made.high)}"
    title = f"{row.row.title}; stack {row.stack}; {row.row.unit}"
    return title, number(row.measured), number(made.value), interval, signed(row.error)


def _run_rows(done: accuracy.RunsValidation) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of errors by machine, stack, source and size, each if there are several."""
    groups = {
        "machine": done.by("machine"),
        "stack": done.by("stack"),
        "source": done.by("source"),
        "size": done.by("size"),
    }
    for what, group in groups.items():
        for place, (name, errors) in enumerate(group.items() if len(group) > 1 else ()):
            yield f"{name} ({what})" if place == 0 else name, *_run_cells(errors)


def _run_cells(errors: accuracy.Errors) -> tuple[str, ...]:
    off = (percent(errors.mean_abs), percent(errors.median_abs), signed(errors.bias))
    return (f"{errors.count:,}", *off, percent(errors.covered), percent(errors.width))
