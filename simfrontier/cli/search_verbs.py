"""Commands that look for the best plan and explain a plan: `tune` and `explain`, with their options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.cli.options import (
    Dashboard,
    FidelityOption,
    Jobs,
    JobsOfCores,
    ScenarioArgument,
    Scheduler,
    Settings,
    Slurm,
    YesLarge,
    fidelity_of,
    load,
    place_of,
    to_write,
)
from simfrontier.errors import InputError, nearest

if TYPE_CHECKING:
    from simfrontier.cli.tune import SearchSettings

SEARCHED = ("flow", "analytic")


def tune(
    scenario: ScenarioArgument,
    devices: Annotated[int | None, typer.Option(help="size to tune for (default: the scenario's largest)")] = None,
    set_: Settings = None,
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
    jobs: JobsOfCores = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    dashboard: Dashboard = False,
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
    yes_large: YesLarge = False,
) -> None:
    """Search for the fastest plan for a scenario's machine, model and batch: every plan of the space is estimated, the
    best are simulated. A search that was stopped goes on where it was. Exit code 1 where no plan fits into memory."""
    size = None if devices is None else str(devices)
    if fidelity is not None and fidelity not in SEARCHED:
        from simfrontier.scenario import grid_orders

        if fidelity not in grid_orders():
            raise InputError(f"got {fidelity!r}; {nearest(fidelity, (*SEARCHED, *grid_orders()))}", where="--fidelity")
        of_a_search = {
            **{"--pin": pin, "--lossy": lossy, "--simulate": simulate, "--jobs": jobs, "--out": out},
            **{"--fresh": fresh, "--max-error": max_error is not None, "--page": page is not None},
            **{"--scheduler": scheduler, "--slurm": slurm, "--dashboard": dashboard},
        }
        _refuse_of_search(of_a_search, fidelity)
        order = grid_orders()[fidelity]
        raise typer.Exit(0 if order.listing(load(scenario, set_, None, size), top, json) else 1)
    from simfrontier.cli.tune import cores, search_plans

    place = place_of(jobs, scheduler, slurm, dashboard, cores())
    settings = [*(set_ or ()), *(() if fidelity is None else (f"run.fidelity={fidelity}",))]
    loaded = load(scenario, settings, None, size, laid_out=False)
    if loaded.file.run.fidelity not in SEARCHED:
        text = f"got {loaded.file.run.fidelity!r}; allowed in a search: {', '.join(SEARCHED)} (--fidelity)"
        raise InputError(text, where=str(scenario), key=("run", "fidelity"))
    from simfrontier.cli.large import announce
    from simfrontier.forecast import forecast_tune

    announce(forecast_tune(loaded, devices, simulate), str(scenario), yes_large)
    how: SearchSettings = {
        "pins": pin or (),
        "lossy": lossy,
        "max_error": max_error,
        "simulate": simulate,
        "place": place,
        "fresh": fresh,
    }
    search_plans(loaded, how, out, top, page is not False, json)


def _refuse_of_search(options: Mapping[str, object], fidelity: str) -> None:
    """Raise InputError for an option that is given, where grids are listed only."""
    for option, value in options.items():
        if value:
            raise InputError(f"means nothing with --fidelity {fidelity}; allowed: only in the search", where=option)


def explain(
    scenario: ScenarioArgument,
    plan: Annotated[
        str | None, typer.Option(help="plan to explain (default: the fastest, and all against the next best)")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="another plan: what makes the two differ (default: the best of the others)")
    ] = None,
    devices: Annotated[int | None, typer.Option(help="size to explain (default: the scenario's largest)")] = None,
    set_: Settings = None,
    fidelity: FidelityOption = None,
    what_if: Annotated[
        bool, typer.Option("--what-if/--no-what-if", help="simulate what would help: links, overlaps, codecs ...")
    ] = True,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    dashboard: Dashboard = False,
    out: Annotated[Path | None, to_write("--out", "folder for the page index.html (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Say why a plan is as fast as it is: where its step's time goes, what would help most (each simulated again), and
    what makes it differ from the next best, or another plan. Exit code 1 where it does not fit into memory."""
    from simfrontier.cli.explain import explain_plan
    from simfrontier.cli.large import announce
    from simfrontier.forecast import forecast_explain

    for option, name in (("--plan", plan), ("--against", against)):
        if name is not None and (not name.strip() or "," in name):
            raise InputError(f"got {name!r}; allowed: the name of one plan", where=option)
    place = place_of(jobs, scheduler, slurm, dashboard)
    loaded = load(scenario, set_, None, None if devices is None else str(devices), laid_out=False)
    chosen = fidelity_of(fidelity)
    announce(forecast_explain(loaded, plan, against, chosen, what_if), str(scenario), yes_large)
    explain_plan(loaded, plan, against, devices, chosen, what_if, place, out, json)
