"""The verb `emulate`, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli import Plans, Settings, byte_sizes, load
from simfrontier.extras import Verb
from simfrontier.usage import to_write


def emulate(
    scenario: Annotated[Path, typer.Argument(help="scenario (TOML) with a table `emulation`")],
    out: Annotated[Path | None, to_write("--out", "folder for everything (default: reports/NAME)")] = None,
    set_: Settings = None,
    plans: Plans = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="nodes to emulate (default: the scenario's size)")] = None,
    scale: Annotated[
        float | None, typer.Option(help="factor on the machine's bandwidths, e.g. 2.5e-5 (default: the scenario's)")
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="timed steps of every plan, after one warm-up step")] = 1,
    sizes: Annotated[
        str, typer.Option(help="message sizes of collectives measured alone, as explicit transfers")
    ] = "1MiB,2MiB",
    native_sizes: Annotated[str, typer.Option(help="the same, as the library's own calls")] = "1MiB",
    slow: Annotated[
        str, typer.Option(help="link of node 0 to slow down: to half, then to a tenth for a while")
    ] = "nic0>net",
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Emulate the machine in network namespaces, execute a scenario's plans on it, and compare with the simulation.
    Exit code 1 if a limit is exceeded."""
    from simfrontier_extras.emulation.command import emulate as run_emulated
    from simfrontier_extras.emulation.jobs import EmulateSettings

    settings = [*(set_ or ()), *(() if scale is None else (f"emulation.scale={scale!r}",))]
    loaded = load(scenario, settings, plans, None)
    if nodes is not None:
        loaded = load(scenario, settings, plans, str(nodes * loaded.machine.devices_per_node))
    how = EmulateSettings(
        iterations=iterations,
        lowered_sizes=byte_sizes("--sizes", sizes),
        native_sizes=byte_sizes("--native-sizes", native_sizes),
        slow_wire=slow,
    )
    good = run_emulated(loaded, how, out or Path("reports") / loaded.name, json)
    raise typer.Exit(0 if good else 1)


ADDS = (Verb(function=emulate),)
