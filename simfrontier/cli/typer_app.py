"""The command line: a module of `simfrontier.cli.verbs` for each verb. Exit codes: 0 good, 1 the answer is no, 2 wrong
input, 3 could not go on."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from simfrontier.ending import TRACEBACK, version_of
from simfrontier.extras import Verb, added
from simfrontier.usage import VERBS, Verbs

OWN: Final = VERBS["simfrontier"]
OF_PYTHON: Final = ("import", "list")  # modules and functions of these verbs end in an underscore


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


def app_of(named: str | None = None) -> typer.Typer:
    """The command line with the verb of that name alone, or with all verbs where there is none of that name: to make
    all of them ready takes longer than to start Python."""
    app = typer.Typer(
        name="simfrontier",
        help="Simulate how a training plan runs on Frontier's node fabric, and say why one plan wins.",
        cls=Verbs,
        add_completion=False,
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(about)
    if named in OWN:
        app.command(named)(_function(named))
        return app
    for name in OWN:
        app.command(name)(_function(name))
    for each in added("verbs", Verb):
        app.command(each.name, hidden=each.hidden)(each.function)
    return app


def _function(verb: str) -> Callable[..., Any]:
    name = f"{verb}_" if verb in OF_PYTHON else verb
    function: Callable[..., Any] = getattr(import_module(f"simfrontier.cli.verbs.{name}"), name)
    return function
