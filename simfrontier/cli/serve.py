"""`simfrontier serve`: the live page of a scenario, until Ctrl-C."""

from __future__ import annotations

from simfrontier.live import serve
from simfrontier.scenario import Scenario


def serve_scenario(scenario: Scenario, port: int, open_browser: bool) -> None:
    """Serve on this machine's own address; say where, and open it in a browser. Raises InputError."""
    import typer

    def announce(address: str) -> None:
        typer.echo(f"{scenario.file.title}: {address} (only from this machine; Ctrl-C ends it)")
        if open_browser:
            import webbrowser

            webbrowser.open(address)

    serve(scenario, port, announce)
