"""`simfrontier serve`: the live page of a scenario, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.verbs.compare import Sizes, scenario_asked
from simfrontier.interfaces.live import serve as serve_page


def serve(
    scenario: Annotated[
        Path | None, typer.Argument(help="scenario file (TOML) or name (default: frontier-20b)")
    ] = None,
    machine: options.MachineName = None,
    model: options.ModelName = None,
    plans: options.Plans = None,
    devices: options.Devices = None,
    nodes: Annotated[str | None, typer.Option(help="size in nodes, instead of --devices, e.g. 8")] = None,
    batch: options.Batch = None,
    set_: options.Settings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on localhost (0: any free port)")] = 8384,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="open the page in a browser")] = True,
) -> None:
    """Serve a live page on localhost, of a scenario or of --model and --devices or --nodes: controls for model, batch,
    grid and unknown settings, and a timeline of the step."""
    loaded = scenario_asked(scenario, machine, model, plans, Sizes(devices, nodes), options.with_batch(set_, batch))

    def announce(address: str) -> None:
        typer.echo(f"{loaded.file.title}: {address} (only from this machine; Ctrl-C ends it)")
        if open_:
            import webbrowser

            webbrowser.open(address)

    serve_page(loaded, port, announce)
