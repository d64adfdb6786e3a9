"""`simfrontier compare`: plans of the main scenario, of another one, or of a machine and a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from simfrontier.base.errors import InputError, located
from simfrontier.core.machine import catalog
from simfrontier.inputs.scenario import Scenario, in_case, parse_setting, selected_plans
from simfrontier.interfaces.api import USUAL_PLANS, new_scenario
from simfrontier.interfaces.api.scenarios import Plans
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.verbs.run import answer_scenario, run_scenario

MAIN: Final = Path("frontier-20b")  # shipped


def compare(
    scenario: Annotated[
        Path | None, typer.Argument(help="scenario file (TOML) or name (default: frontier-20b)")
    ] = None,
    machine: options.MachineName = None,
    model: options.ModelName = None,
    plans: Annotated[
        str | None,
        typer.Option(
            help="plans, e.g. 'zero3; hsdp; tp 8 pp 2; tp 8 pp 2 vp 4' (default: the scenario's; with --model six "
            "variants of ZeRO)"
        ),
    ] = None,
    devices: options.Devices = None,
    nodes: Annotated[str | None, typer.Option(help="sizes in nodes, instead of --devices, e.g. 1,8,48")] = None,
    batch: options.Batch = None,
    set_: options.Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="folder for page, results and traces (default: reports/NAME; with --model none, only the answer)"
        ),
    ] = None,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
) -> None:
    """Compare plans on a machine and name the fastest: the main scenario (20B on Frontier, 6 plans, up to 384 GCDs) or
    another one, with a page; or --model, --plans, --devices or --nodes, and --batch. MFU is the model's FLOPs, without
    recomputation, over the device's nominal peak; the 90 % interval is that of published runs."""
    place = options.place_of(jobs, scheduler, slurm, dashboard)
    loaded = scenario_asked(scenario, machine, model, plans, Sizes(devices, nodes), options.with_batch(set_, batch))
    where = str(scenario or loaded.name)
    if model is not None and out is None:
        answer_scenario(loaded, where, place)
    else:
        run_scenario(loaded, where, out, place)


class Sizes(NamedTuple):
    """Sizes as text: in devices, or in nodes."""

    devices: str | None
    nodes: str | None


def scenario_asked(
    scenario: Path | None,
    machine: str | None,
    model: str | None,
    plans: str | None,
    sizes: Sizes,
    settings: list[str],
) -> Scenario:
    """Return the scenario of a file, or of a machine, a model, plans and sizes. Raises InputError."""
    if machine is None and model is None:
        if sizes.nodes is not None:
            raise InputError(f"got {sizes.nodes!r}; allowed: with --model; of a scenario --devices", where="--nodes")
        return options.load(scenario or MAIN, settings, plans, sizes.devices)
    if scenario is not None:
        raise InputError(f"got {str(scenario)!r} beside --machine or --model; allowed: one of the two")
    if model is None:
        raise InputError("missing; allowed: --machine, --model and --devices together", where="--model")
    with located("--plans"):
        tables = selected_plans({}, options.plans_of(plans) or USUAL_PLANS)
    if sizes == (None, None) and (stated := _stated_devices(tables.values())):
        sizes = Sizes(str(stated), None)
    if (sizes.devices is None) == (sizes.nodes is None):
        raise InputError("allowed: one of --devices and --nodes, beside --model", where="--devices")
    named = in_case(machine or "frontier", catalog())
    devices, nodes = options.sizes_of(sizes.devices), options.sizes_of(sizes.nodes, "--nodes")
    values = dict(map(parse_setting, settings))

    def with_plans(wanted: Plans) -> Scenario:
        return new_scenario(named, model, wanted, devices=devices, nodes=nodes, settings=values)

    return _of_those_that_fit(tables, with_plans)


def _stated_devices(plans: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the devices that follow from the grids of plans with `dp`; None if none has it, or if they differ."""
    inner = ("tensor", "pipeline", "context", "x", "y")
    found = {
        plan["data_ranks"] * math.prod(plan.get(key, 1) for key in inner) for plan in plans if "data_ranks" in plan
    }
    return found.pop() if len(found) == 1 else None


def _of_those_that_fit(plans: dict[str, dict[str, Any]], with_plans: Callable[[Plans], Scenario]) -> Scenario:
    """Return the scenario of the plans that divide devices and model, and say why the others are left out. Raises
    InputError if none is left."""
    while True:
        try:
            return with_plans(plans)
        except InputError as error:
            place = error.key[:2]
            left = {name: table for name, table in plans.items() if place != ("plans", name)}
            if not left or len(left) == len(plans):
                raise
            plans = left
            typer.echo(f"simfrontier: left out: {error.below(('plans',))}", err=True)
