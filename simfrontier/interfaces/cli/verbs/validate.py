"""`simfrontier validate`: the models compared with measured tables and published runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.base.errors import InputError
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, write_page

if TYPE_CHECKING:
    from simfrontier.answers.accuracy import RunsValidation, Validation
    from simfrontier.base.workers import Place
    from simfrontier.inputs.measured import Setup


def validate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="your own measurements, as --data", metavar="FILE", show_default=False),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="your own measurements: times of collectives (formats as in calibrate) or training runs"),
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
    stated bound."""
    from simfrontier.base.wholefile import ensure_writable
    from simfrontier.core.machine import load_machine
    from simfrontier.inputs.measured import Setup
    from simfrontier.interfaces.cli.terminal.validate import (
        print_runs,
        print_validation,
        runs_document,
        tables_document,
    )
    from simfrontier.interfaces.report import runs_page, validation_page

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
        write_page(out, "validate", pages)
    if json and tables is not None:
        print_json(tables_document(tables) | ({} if runs is None else {"runs": runs_document(runs)}))
    elif json and runs is not None:
        print_json(runs_document(runs))
    else:
        if tables is not None:
            print_validation(tables, out)
        if runs is not None:
            print_runs(runs, out if tables is None else None)
    raise typer.Exit(0 if tables is None or tables.holds else 1)


def _validated(
    own: Sequence[Path],
    setup: Setup,
    harness: str | None,
    of_times: Mapping[str, object],
    cross: bool | None,
    place: Place,
) -> tuple[Validation | None, RunsValidation | None]:
    """Compare the tables and training runs of the user's files, or all shipped ones."""
    from simfrontier.answers.accuracy import (
        is_of_runs,
        read_runs,
        validate_files,
        validate_runs,
        validate_shipped,
        validate_shipped_runs,
    )
    from simfrontier.base.workers import Workers, for_calls

    if any(map(is_of_runs, own)):
        _refuse_times(own, of_times)
        runs = [run for path in own for run in read_runs(path)]
        numbered = [replace(run, number=number) for number, run in enumerate(runs)]
        with Workers(for_calls(place, len(numbered))) as workers:
            return None, validate_runs(numbered, " and ".join(path.name for path in own), workers)
    if own:
        return validate_files(own, setup, harness), None
    if cross is False:
        return validate_shipped(False), None
    with Workers(place) as workers:
        return validate_shipped(True, workers), validate_shipped_runs(workers)


def _refuse_options(own: Sequence[Path], of_files: Mapping[str, object], cross: bool | None) -> None:
    """Raise InputError for options of files without files, or of the shipped tables with files."""
    if not own:
        options.refuse(of_files, "without --data; allowed: only beside a file of your own")
    if cross is not None and own:
        option = "--cross" if cross else "--no-cross"
        raise InputError(
            f"{option}: got --data too; allowed: without it, for the tables that the models were fitted to"
        )


def _refuse_times(own: Sequence[Path], of_times: Mapping[str, object]) -> None:
    """Raise InputError for tables of times, or their options, together with tables of training runs."""
    from simfrontier.answers.accuracy import is_of_runs

    for path in own:
        if not is_of_runs(path):
            raise InputError(f"{path}: times beside a table of training runs; allowed: files of one sort")
    options.refuse(of_times, "beside training runs, whose columns say all; allowed: without")
