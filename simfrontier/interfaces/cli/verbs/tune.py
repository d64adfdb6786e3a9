"""`simfrontier tune`: search for the best plan for a scenario's machine, model and batch, and write its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.base.errors import InputError, StoppedError, nearest
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, progress
from simfrontier.interfaces.cli.large import announce

if TYPE_CHECKING:
    from simfrontier.answers.search import TuningOutcome, Value
    from simfrontier.inputs.scenario import GridOrder

SEARCHED = ("flow", "analytic")
SHOWN = 10


def tune(
    scenario: options.ScenarioPath,
    devices: Annotated[int | None, typer.Option(help="size to tune for (default: the scenario's largest)")] = None,
    set_: options.Settings = None,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", help="fix a dimension of the search: dimension=value[,value], e.g. tensor=4,8"),
    ] = None,
    lossy: Annotated[bool, typer.Option("--lossy", help="allow lossy codecs for weights and gradients")] = False,
    max_error: Annotated[
        float | None,
        typer.Option(
            "--max-error",
            help="allow codecs and compression up to this relative error bound (0 to 1), instead of --lossy",
        ),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="number of plans to simulate (default: 5 % of those that fit, 5 to 20)"),
    ] = None,
    jobs: options.JobsOfCores = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    out: Annotated[Path | None, typer.Option(help="folder for the results (default: reports/tune-NAME)")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="start again: discard the results of a stopped search")
    ] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="number of plans to print (default: 10; grids: 20; with --json all)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    fidelity: Annotated[
        str | None,
        typer.Option(
            "--fidelity",
            help="flow (max-min fair sharing) or analytic (no contention); the name of an extra's "
            "analytical model, e.g. axonn-a, ranks grids by that model",
        ),
    ] = None,
    page: Annotated[bool | None, typer.Option("--page/--no-page", help="write index.html (default: yes)")] = None,
    yes_large: options.YesLarge = False,
) -> None:
    """Search for the fastest plan for a scenario's machine, model and batch: every plan of the space is estimated, the
    best are simulated. A stopped search resumes. Exit code 1 if no plan fits into memory."""
    from simfrontier.answers.forecast import forecast_tune
    from simfrontier.answers.search import tune as find_plans
    from simfrontier.answers.study import STORE, forget
    from simfrontier.base.wholefile import ensure_writable, filled
    from simfrontier.interfaces.cli.terminal.tune import print_tuning
    from simfrontier.interfaces.report import TUNING_FILES, tuning_document, write_tuning

    if fidelity is not None and fidelity not in SEARCHED:
        of_a_search = {
            **{"--pin": pin, "--lossy": lossy, "--simulate": simulate, "--jobs": jobs, "--out": out},
            **{"--fresh": fresh, "--max-error": max_error is not None, "--page": page is not None},
            **{"--scheduler": scheduler, "--slurm": slurm, "--dashboard": dashboard},
        }
        order = _grid_order(fidelity, of_a_search)
        raise typer.Exit(0 if order.listing(options.load(scenario, set_, None, devices), top, json) else 1)
    place = options.place_of(jobs, scheduler, slurm, dashboard, options.cores())
    settings = [*(set_ or ()), *(() if fidelity is None else (f"run.fidelity={fidelity}",))]
    loaded = options.load(scenario, settings, None, devices, laid_out=False)
    if loaded.file.run.fidelity not in SEARCHED:
        text = f"got {loaded.file.run.fidelity!r}; allowed in a search: {', '.join(SEARCHED)} (--fidelity)"
        raise InputError(text, where=str(scenario), key=("run", "fidelity"))
    announce(forecast_tune(loaded, devices, simulate), str(scenario), yes_large)
    folder, pins = out or Path("reports") / f"tune-{loaded.name}", _pins(pin or ())
    ensure_writable(folder)
    if fresh:
        forget(folder)

    def finish(outcome: TuningOutcome) -> None:
        try:
            with filled(folder, TUNING_FILES[-1]) as new:
                write_tuning(outcome, new, folder, page is not False)
        except InputError as error:
            raise InputError(f"{error}; {STORE} stays: the same command resumes") from None

    with progress("laying out the space of plans") as report:
        try:
            outcome = find_plans(
                loaded,
                pins=pins,
                lossy=True if lossy else None,
                max_error=max_error,
                simulate=simulate,
                place=place,
                folder=folder,
                progress=report,
                finish=finish,
            )
        except KeyboardInterrupt as stop:
            if not (folder / STORE).exists():
                raise
            text = f"stopped; {folder / STORE} has what is done: the same command resumes"
            raise StoppedError(text, stop) from None
    if json:
        print_json(tuning_document(outcome, top))
    else:
        print_tuning(outcome, folder, SHOWN if top is None else top, page is not False)


def _grid_order(fidelity: str, of_a_search: Mapping[str, object]) -> GridOrder:
    """Return the order of that name in which grids are listed. Raises InputError for an unknown name, or for options of
    a search."""
    from simfrontier.inputs.scenario import grid_orders

    if fidelity not in grid_orders():
        raise InputError(f"got {fidelity!r}; {nearest(fidelity, (*SEARCHED, *grid_orders()))}", where="--fidelity")
    options.refuse(of_a_search, f"with --fidelity {fidelity}; allowed: only in the search")
    return grid_orders()[fidelity]


def _pins(texts: Sequence[str]) -> dict[str, list[Value]]:
    """Parse the values of `--pin`, merging those of a dimension that is named twice. Raises InputError."""
    from simfrontier.answers.search import parse_pin, pins_of

    given: dict[str, list[Value]] = {}
    for text in texts:
        name, values = parse_pin(text)
        given.setdefault(name, []).extend(values)
    try:
        pins_of(given, ())
    except InputError as error:
        raise InputError(error.what, where=" ".join(("--pin", *map(str, error.key)))) from None
    return given
