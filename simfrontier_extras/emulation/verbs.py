"""The verb `emulate`, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.base.extras import Verb
from simfrontier.interfaces.cli.options import Plans, Settings, byte_sizes, load


def emulate(
    scenario: Annotated[Path, typer.Argument(help="scenario (TOML) with a table `emulation`")],
    out: Annotated[Path | None, typer.Option(help="folder for everything (default: reports/NAME)")] = None,
    set_: Settings = None,
    plans: Plans = None,
    iterations: Annotated[int, typer.Option(min=1, help="timed runs of every plan, after one to warm up")] = 1,
    sizes: Annotated[
        str, typer.Option(help="messages of collectives measured alone; the library's own calls take the first size")
    ] = "1MiB,2MiB",
    slow: Annotated[
        str, typer.Option(help="link of node 0 to slow down: to half, then to a tenth for a while")
    ] = "nic0>net",
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Lay the machine out in network namespaces, run a scenario's plans in it, and compare with the simulation.
    Exit code 1 where a limit is missed."""
    from simfrontier_extras.emulation.command import emulate as run_emulated
    from simfrontier_extras.emulation.jobs import EmulateSettings

    loaded = load(scenario, set_, plans, None)
    how = EmulateSettings(iterations=iterations, sizes=byte_sizes("--sizes", sizes), slow_wire=slow)
    good = run_emulated(loaded, how, out or Path("reports") / loaded.name, json)
    raise typer.Exit(0 if good else 1)


ADDS = (Verb(function=emulate),)
