"""`simfrontier tune`: search for the best plan for a scenario's machine, model and batch, and write its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.cli import options
from simfrontier.cli.bar import progress
from simfrontier.cli.console import print_json
from simfrontier.cli.large import announce
from simfrontier.errors import InputError, StoppedError, nearest
from simfrontier.usage import to_write

if TYPE_CHECKING:
    from simfrontier.scenario import GridOrder
    from simfrontier.tuning import TuningOutcome, Value

SEARCHED = ("flow", "analytic")
SHOWN = 10


def tune(
    scenario: options.ScenarioPath,
    devices: Annotated[int | None, typer.Option(help="size to tune for (default: the scenario's largest)")] = None,
    set_: options.Settings = None,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", help="dimension=value or =value,value: hold a dimension of the plans, e.g. tensor=4,8"),
    ] = None,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="allow plans that send weights or gradients in fewer bits")
    ] = False,
    max_error: Annotated[
        float | None,
        typer.Option(
            "--max-error",
            help="allow the codecs and compression whose error bound is within so much (0 to 1), instead of --lossy",
        ),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="simulate so many of the best (default: 5 % of those that fit, 5 to 20)"),
    ] = None,
    jobs: options.JobsOfCores = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    out: Annotated[Path | None, to_write("--out", "folder for the results (default: reports/tune-NAME)")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="begin anew: forget what a stopped search has left in the folder")
    ] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="print so many plans (default: 10; grids: 20; with --json all)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the outcome as JSON")] = False,
    fidelity: Annotated[
        str | None,
        typer.Option(
            "--fidelity",
            help="flow (links shared fairly) or analytic (no contention); another name lists grids in the order of a "
            "model that an extra adds, such as axonn-a",
        ),
    ] = None,
    page: Annotated[bool | None, typer.Option("--page/--no-page", help="write index.html (default: yes)")] = None,
    yes_large: options.YesLarge = False,
) -> None:
    """Search for the fastest plan for a scenario's machine, model and batch: every plan of the space is estimated, the
    best are simulated. A search that was stopped goes on where it was. Exit code 1 where no plan fits into memory."""
    from simfrontier.cli.terminal.tune import print_tuning
    from simfrontier.forecast import forecast_tune
    from simfrontier.report import TUNING_FILES, tuning_document, write_tuning
    from simfrontier.study import STORE, forget
    from simfrontier.tuning import tune as find_plans
    from simfrontier.wholefile import ensure_writable, filled

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
    ensure_writable(folder, *TUNING_FILES)
    if fresh:
        forget(folder)

    def finish(outcome: TuningOutcome) -> None:
        try:
            with filled(folder, "tune", TUNING_FILES[-1]) as new:
                write_tuning(outcome, new, folder, page is not False)
        except InputError as error:
            raise InputError(f"{error}; {STORE} stays: the same command goes on from there") from None

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
            text = f"stopped; {folder / STORE} has what is done: the same command goes on from there"
            raise StoppedError(text, stop) from None
    if json:
        print_json(tuning_document(outcome, top))
    else:
        print_tuning(outcome, folder, SHOWN if top is None else top, page is not False)


def _grid_order(fidelity: str, of_a_search: Mapping[str, object]) -> GridOrder:
    """Return the order of that name in which grids are listed. Raises InputError where there is none, or an option is
    given that only a search has."""
    from simfrontier.scenario import grid_orders

    if fidelity not in grid_orders():
        raise InputError(f"got {fidelity!r}; {nearest(fidelity, (*SEARCHED, *grid_orders()))}", where="--fidelity")
    options.refuse(of_a_search, f"with --fidelity {fidelity}; allowed: only in the search")
    return grid_orders()[fidelity]


def _pins(texts: Sequence[str]) -> dict[str, list[Value]]:
    """The values of `--pin`; all of a dimension that is named twice. Raises InputError."""
    from simfrontier.tuning import parse_pin, pins_of

    given: dict[str, list[Value]] = {}
    for text in texts:
        name, values = parse_pin(text)
        given.setdefault(name, []).extend(values)
    try:
        pins_of(given, ())
    except InputError as error:
        raise InputError(error.what, where=" ".join(("--pin", *map(str, error.key)))) from None
    return given
