"""`simfrontier compare`: plans of the main scenario, of another one, or of a machine and a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario import Scenario, parse_setting
from simfrontier.interfaces.api import USUAL_PLANS, new_scenario
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.verbs.run import run_scenario

MAIN: Final = Path(__file__).parents[4] / "scenarios" / "frontier-20b.toml"


def compare(
    scenario: Annotated[Path | None, typer.Argument(help="scenario file (TOML; default: the main scenario)")] = None,
    machine: Annotated[str | None, typer.Option(help="machine, instead of a scenario, e.g. frontier")] = None,
    model: Annotated[str | None, typer.Option(help="model for --machine, e.g. gpt-13b")] = None,
    plans: options.Plans = None,
    devices: options.Devices = None,
    set_: options.Settings = None,
    out: Annotated[Path | None, typer.Option(help="folder for the results (default: reports/NAME)")] = None,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
) -> None:
    """Compare plans on a machine and write a page that names the fastest: the main scenario (20B on Frontier, 6 plans,
    up to 384 GCDs), another scenario, or --machine, --model, --plans and --devices."""
    place = options.place_of(jobs, scheduler, slurm, dashboard)
    loaded = _scenario(scenario, machine, model, plans, devices, set_)
    run_scenario(loaded, str(scenario or loaded.name), out, place)


def _scenario(
    scenario: Path | None,
    machine: str | None,
    model: str | None,
    plans: str | None,
    devices: str | None,
    settings: list[str] | None,
) -> Scenario:
    if machine is None and model is None:
        if scenario is None and not MAIN.is_file():
            raise InputError("got no scenario; allowed: a scenario file, or --machine, --model and --devices")
        return options.load(scenario or MAIN, settings, plans, devices)
    if scenario is not None:
        raise InputError(f"got {str(scenario)!r} beside --machine or --model; allowed: one of the two")
    given = {"--machine": machine, "--model": model, "--devices": devices}
    if missing := [option for option, value in given.items() if value is None]:
        raise InputError("missing; allowed: --machine, --model and --devices together", where=" and ".join(missing))
    assert machine is not None and model is not None, "refused above"
    named = options.names_of("--plans", plans, "zero3,zero-topo")
    values = dict(map(parse_setting, settings or ()))
    return new_scenario(machine, model, named or USUAL_PLANS, devices=options.sizes_of(devices), settings=values)
