"""The command that says what a long training yields: `goodput`, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli.options import (
    Devices,
    FidelityOption,
    Plans,
    ScenarioArgument,
    Settings,
    YesLarge,
    fidelity_of,
    load,
    to_write,
)


def goodput(
    scenario: ScenarioArgument,
    plans: Plans = None,
    devices: Devices = None,
    set_: Settings = None,
    fidelity: FidelityOption = None,
    out: Annotated[Path | None, to_write("--out", "folder for the page and goodput.csv (default: neither)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Say what a long training yields with failures, checkpoints, restarts and spare nodes: useful steps and tokens a
    day of every plan at every size, and the best size. The scenario's table `goodput` says what fails."""
    from simfrontier.cli.goodput import print_goodput
    from simfrontier.cli.large import announce
    from simfrontier.forecast import forecast_run

    loaded, chosen = load(scenario, set_, plans, devices), fidelity_of(fidelity)
    announce(forecast_run(loaded, chosen, False, False), str(scenario), yes_large)
    print_goodput(loaded, chosen, out, json)
