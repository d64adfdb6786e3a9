"""The command line: a module of `simfrontier.interfaces.cli.verbs` for each verb. Exit codes: 0 success, 1 check
failed, 2 invalid input, 3 simfrontier failed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import typer

from simfrontier.base.command_line import program
from simfrontier.base.extras import Verb, added

ABOUT: Final = "Simulate large-model training plans on HPC systems, and explain which plan is the fastest."
OWN: Final = (
    *("compare", "serve", "list", "run", "show", "check", "calibrate", "export", "import", "replay", "crosscheck"),
    *("validate", "tune", "sweep", "explain", "goodput", "algorithms", "topology", "schema", "doctor"),
)  # without those of extras, in the order of --help
OF_PYTHON: Final = ("import", "list")  # modules and functions of these verbs end in an underscore


def app_of(named: str | None = None) -> typer.Typer:
    """Return the command line with only the named verb, or with all verbs if there is none of that name: importing
    all of them takes longer than starting Python."""
    app = program("simfrontier", ABOUT)
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
    function: Callable[..., Any] = getattr(import_module(f"simfrontier.interfaces.cli.verbs.{name}"), name)
    return function
