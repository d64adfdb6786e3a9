"""`simfrontier serve`: the live page of a scenario, until Ctrl-C."""

from __future__ import annotations

from typing import Annotated

import typer

from simfrontier.interfaces.cli import options
from simfrontier.interfaces.live import serve as serve_page


def serve(
    scenario: options.ScenarioPath,
    set_: options.Settings = None,
    plans: options.Plans = None,
    devices: options.Devices = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on localhost (0: any free port)")] = 8384,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="open the page in a browser")] = True,
) -> None:
    """Serve a live page of a scenario on localhost: sliders for unknown settings, and a timeline of the step."""
    loaded = options.load(scenario, set_, plans, devices)

    def announce(address: str) -> None:
        typer.echo(f"{loaded.file.title}: {address} (only from this machine; Ctrl-C ends it)")
        if open_:
            import webbrowser

            webbrowser.open(address)

    serve_page(loaded, port, announce)
