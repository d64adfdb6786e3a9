"""`simfrontier run`: simulate a scenario and write its folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, progress
from simfrontier.interfaces.cli.large import announce

if TYPE_CHECKING:
    from simfrontier.base.workers import Place
    from simfrontier.core.engine import Fidelity
    from simfrontier.inputs.scenario import Scenario
    from simfrontier.interfaces.report import Findings, StudyView


def run(
    scenario: options.ScenarioPath,
    out: Annotated[Path | None, typer.Option(help="folder for the results (default: reports/NAME)")] = None,
    set_: options.Settings = None,
    plans: options.Plans = None,
    devices: options.Devices = None,
    fidelity: options.Fidelity = None,
    exact: Annotated[bool, typer.Option("--exact", help="simulate every rank, without folding equal ranks")] = False,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    sensitivity: Annotated[bool, typer.Option(help="simulate the scenario's variations of unknown settings")] = True,
    slowdown: Annotated[bool, typer.Option(help="simulate the scenario's degraded components")] = True,
    page: Annotated[bool, typer.Option(help="write index.html")] = True,
    json: Annotated[bool, typer.Option("--json", help="print the rows as JSON instead of a table")] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Simulate every plan of a scenario at every size; write results.csv, index.html, traces and a manifest."""
    place = options.place_of(jobs, scheduler, slurm, dashboard)
    loaded = options.load(scenario, set_, plans, devices)
    run_scenario(loaded, str(scenario), out, place, fidelity, exact, sensitivity, slowdown, page, json, yes_large)


def run_scenario(
    scenario: Scenario,
    where: str,
    out: Path | None,
    place: Place,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = True,
    trouble: bool = True,
    page: bool = True,
    as_json: bool = False,
    yes_large: bool = False,
) -> None:
    """Run everything, then write everything: a failed run leaves the folder unchanged."""
    from simfrontier.answers.forecast import forecast_run
    from simfrontier.base.wholefile import MANIFEST, ensure_writable, filled
    from simfrontier.interfaces.api import num_simulations, view_of
    from simfrontier.interfaces.cli.terminal.run import print_run
    from simfrontier.interfaces.report import findings_of, slowdown_rows

    announce(forecast_run(scenario, fidelity, exact, vary, trouble), where, yes_large)
    folder = out or Path("reports") / scenario.name
    ensure_writable(folder)
    with progress("simulating", num_simulations(scenario, vary, trouble)) as report:
        view = view_of(scenario, fidelity, exact, vary, place, report, trouble)
    found = findings_of(view)
    with filled(folder, MANIFEST) as new:
        _write(found, view, new, page)
    if as_json:
        rows = [outcome.row for outcome in view.study.outcomes]
        slow = view.slowdown
        form = rows if slow is None else {"results": rows, "slowdown": list(slowdown_rows(slow))}
        print_json(form)
    else:
        print_run(found, view, folder, page)


def _write(found: Findings, view: StudyView, folder: Path, page: bool) -> None:
    from simfrontier.core.trace import write_perfetto
    from simfrontier.interfaces.report import (
        SLOWDOWN_FILE,
        write_findings,
        write_manifest,
        write_results,
        write_slowdown,
    )

    for outcome in view.study.outcomes:
        if outcome.trace is not None:
            write_perfetto(outcome.trace, folder / f"trace-{outcome.plan}-{outcome.devices}.json")
    write_results(view.study, folder / "results.csv")
    if view.slowdown is not None:
        write_slowdown(view.slowdown, folder / SLOWDOWN_FILE)
    write_findings(found, view, folder / "findings.json")
    write_manifest(view.study, folder)
    if page:
        from simfrontier.interfaces.report import write_page

        write_page(found, view, folder / "index.html")
