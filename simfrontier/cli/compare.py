"""`simfrontier compare`: the plans of the main scenario, of another one, or of a machine and a model, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simfrontier.api import USUAL_PLANS, new_scenario
from simfrontier.cli.large import announce
from simfrontier.cli.options import load, names_of, sizes_of
from simfrontier.errors import InputError
from simfrontier.forecast import forecast_run
from simfrontier.scenario import Scenario, parse_setting
from simfrontier.workers import Place

MAIN: Final = Path(__file__).parents[2] / "scenarios" / "frontier-20b.toml"


def compare_plans(
    scenario: Path | None,
    machine: str | None,
    model: str | None,
    plans: str | None,
    devices: str | None,
    settings: list[str] | None,
    out: Path | None,
    place: Place,
) -> None:
    """Simulate, print and write as `simfrontier run` does. Raises InputError."""
    loaded = _scenario(scenario, machine, model, plans, devices, settings)
    announce(forecast_run(loaded, None, False, True), str(scenario or loaded.name), False)
    from simfrontier.cli.run import run_scenario

    run_scenario(loaded, out, None, False, place, vary=True, trouble=True, page=True, as_json=False)


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
        return load(scenario or MAIN, settings, plans, devices)
    if scenario is not None:
        raise InputError(f"got {str(scenario)!r} beside --machine or --model; allowed: one of the two")
    given = {"--machine": machine, "--model": model, "--devices": devices}
    if missing := [option for option, value in given.items() if value is None]:
        raise InputError("missing; allowed: --machine, --model and --devices together", where=" and ".join(missing))
    assert machine is not None and model is not None, "refused above"
    named = names_of("--plans", plans, "zero3,zero-topo")
    values = dict(map(parse_setting, settings or ()))
    return new_scenario(machine, model, named or USUAL_PLANS, devices=sizes_of(devices), settings=values)
