"""The command line: its verbs in the order of --help. Exit codes: 0 good, 1 the answer is no, 2 wrong input, 3 could
not go on."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final

import typer

from simfrontier.cli.goodput_verb import goodput
from simfrontier.cli.import_verb import import_
from simfrontier.cli.measured_verbs import calibrate, validate
from simfrontier.cli.options import (
    Dashboard,
    Devices,
    FidelityOption,
    Jobs,
    Plans,
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
from simfrontier.cli.real_verbs import crosscheck
from simfrontier.cli.schedule_verbs import check, export, replay, show
from simfrontier.cli.schema import schema
from simfrontier.cli.search_verbs import explain, tune
from simfrontier.cli.sweep_verb import sweep
from simfrontier.cli.topology_verb import topology
from simfrontier.ending import TRACEBACK, version_of
from simfrontier.extras import Verb, added
from simfrontier.usage import OF_REAL, Verbs


def about(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=version_of("simfrontier"), help="print the version and stop"),
    ] = False,
    traceback: Annotated[
        bool, typer.Option(TRACEBACK, help="before the verb: show where a fault of simfrontier itself comes from")
    ] = False,
) -> None:
    """Simulate how a training plan runs on Frontier's node fabric, and say why one plan wins.

    Exit codes: 0 good; 1 the answer is no; 2 wrong input; 3 simfrontier could not go on (out of memory, output that
    cannot be written, a fault of its own); 130 stopped by Ctrl-C, 143 by SIGTERM. Errors are one line."""


def run(
    scenario: ScenarioArgument,
    out: Annotated[Path | None, to_write("--out", "folder for the results (default: reports/NAME)")] = None,
    set_: Settings = None,
    plans: Plans = None,
    devices: Devices = None,
    fidelity: FidelityOption = None,
    exact: Annotated[bool, typer.Option("--exact", help="simulate every rank: no folding of what is alike")] = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    dashboard: Dashboard = False,
    sensitivity: Annotated[bool, typer.Option(help="run the scenario's variations of what is unknown")] = True,
    slowdown: Annotated[bool, typer.Option(help="run the scenario's troubles: what each costs, by plan")] = True,
    page: Annotated[bool, typer.Option(help="write index.html")] = True,
    json: Annotated[bool, typer.Option("--json", help="print the rows as JSON instead of a table")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Simulate every plan of a scenario at every size; write results.csv, index.html, traces and a manifest."""
    from simfrontier.cli.large import announce
    from simfrontier.forecast import forecast_run

    place = place_of(jobs, scheduler, slurm, dashboard)
    loaded, chosen = load(scenario, set_, plans, devices), fidelity_of(fidelity)
    announce(forecast_run(loaded, chosen, exact, sensitivity, slowdown), str(scenario), yes_large)
    from simfrontier.cli.run import run_scenario

    run_scenario(loaded, out, chosen, exact, place, sensitivity, slowdown, page, json)


def compare(
    scenario: Annotated[
        Path | None, typer.Argument(help="scenario file (TOML); without one, and without --machine, the main scenario")
    ] = None,
    machine: Annotated[str | None, typer.Option(help="instead of a scenario: a machine, e.g. frontier")] = None,
    model: Annotated[str | None, typer.Option(help="and a model, e.g. gpt-13b")] = None,
    plans: Plans = None,
    devices: Devices = None,
    set_: Settings = None,
    out: Annotated[Path | None, to_write("--out", "folder for the results (default: reports/NAME)")] = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    dashboard: Dashboard = False,
) -> None:
    """Compare plans on a machine, and write the page that says which is the fastest: of the main scenario (20B on
    Frontier, 6 plans, to 384 GCDs), of another one, or of --machine, --model, --plans and --devices."""
    from simfrontier.cli.compare import compare_plans

    place = place_of(jobs, scheduler, slurm, dashboard)
    compare_plans(scenario, machine, model, plans, devices, set_, out, place)


def serve(
    scenario: ScenarioArgument,
    set_: Settings = None,
    plans: Plans = None,
    devices: Devices = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on this machine (0: any that is free)")] = 8384,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="open the page in a browser")] = True,
) -> None:
    """Serve a live page of a scenario on this machine alone: sliders for what is unknown, a timeline to look into."""
    from simfrontier.cli.serve import serve_scenario

    serve_scenario(load(scenario, set_, plans, devices), port, open_)


def list_(
    what: Annotated[str, typer.Argument(help="models, plans, machines, libraries, stacks or keys")],
    json: Annotated[bool, typer.Option("--json", help="print them as JSON")] = False,
) -> None:
    """List what a scenario may name, with a sentence each: models, plans, machines, libraries, stacks, or all keys."""
    from simfrontier.cli.list_names import print_names

    print_names(what, json)


def algorithms(json: Annotated[bool, typer.Option("--json", help="print the matrix as JSON")] = False) -> None:
    """Say which algorithm carries which collective, and where: in libraries, plans, simulations and real runs."""
    from simfrontier.cli.algorithms import print_algorithms

    print_algorithms(json)


def doctor(json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False) -> None:
    """Say what is installed and what works."""
    from simfrontier.cli.doctor import diagnose

    raise typer.Exit(0 if diagnose(json) else 1)


VERBS: Final = {
    verb.__name__.removesuffix("_"): verb
    for verb in (
        *(compare, serve, list_, run, show, check, calibrate, export, import_, replay, crosscheck, validate),
        *(tune, sweep, explain, goodput, algorithms, topology, schema, doctor),
    )
}  # in the order of --help


class SimulatedVerbs(Verbs):
    """Those of `simfrontier`."""

    others = MappingProxyType({"simfrontier-real": OF_REAL})


def app_of(named: str | None = None) -> typer.Typer:
    """The command line with the verb of that name alone, or with all verbs where there is none of that name: to make
    all of them ready takes longer than to start Python."""
    app = typer.Typer(
        name="simfrontier",
        help="Simulate how a training plan runs on Frontier's node fabric, and say why one plan wins.",
        cls=SimulatedVerbs,
        add_completion=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(about)
    if named in VERBS:
        app.command(named)(VERBS[named])
        return app
    for name, verb in VERBS.items():
        app.command(name)(verb)
    for each in added("verbs", Verb):
        app.command(each.name, hidden=each.hidden)(each.function)
    return app
