"""The command line and its entry point: a module of `simfrontier.interfaces.cli.verbs` for each verb. Exit codes: 0
success, 1 check failed, 2 invalid input, 3 simfrontier failed."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from typing import Final

import typer

from simfrontier.base.command_line import program, run_to_end
from simfrontier.base.errors import Terminated
from simfrontier.base.extras import Verb, added

ABOUT: Final = "Simulate large-model training plans on HPC systems, and explain which plan is the fastest."
OWN: Final = (
    *("compare", "serve", "list", "import-job", "run", "show", "check", "calibrate", "export", "import", "replay"),
    *("crosscheck", "validate", "tune", "sweep", "explain", "runs", "goodput", "algorithms", "topology", "schema"),
    "doctor",
)  # without those of extras, in the order of --help
OF_PYTHON: Final = ("import", "list")  # modules and functions of these verbs end in an underscore


def main() -> None:
    """Run a verb. Every error ends in one line and an exit code, never in a traceback."""
    gc.set_threshold(100_000, 20, 20)  # schedules are many objects and few cycles
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # or it reads the metadata of all that is installed
    app = app_of(next((word for word in sys.argv[1:] if not word.startswith("-")), None))
    let_sigterm_stop()
    run_to_end("simfrontier", app)


def app_of(named: str | None = None) -> typer.Typer:
    """Return the command line with only the named verb (importing all verbs takes longer than starting Python), or with
    all verbs, those of extras included, if no verb has that name."""
    app = program("simfrontier", ABOUT)
    for verb in (named,) if named in OWN else OWN:
        name = f"{verb}_" if verb in OF_PYTHON else str(verb).replace("-", "_")
        app.command(verb)(getattr(import_module(f"simfrontier.interfaces.cli.verbs.{name}"), name))
    for each in () if named in OWN else added("verbs", Verb):
        app.command(each.name, hidden=each.hidden)(each.function)
    return app


def let_sigterm_stop() -> None:
    """Make SIGTERM interrupt this process as Ctrl-C does. Only the first SIGTERM counts: `timeout` sends two."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # it is ignored
        return

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)  # not SIG_IGN, which processes that are started would inherit
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
