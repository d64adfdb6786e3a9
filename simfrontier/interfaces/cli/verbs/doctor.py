"""`simfrontier doctor`: what is installed and whether it works."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import tempfile
from collections.abc import Callable
from typing import Annotated, Final

import typer

import simfrontier
from simfrontier.base.errors import SimfrontierError
from simfrontier.base.extras import Check, added
from simfrontier.base.optional import PACKAGES, Extra, missing
from simfrontier.core.collectives import libraries, load_library
from simfrontier.core.machine import catalog, load_machine
from simfrontier.interfaces.api import compare
from simfrontier.interfaces.cli.console import print_json

NEEDED = ("numpy", "pandas", "scipy", "simpy", "pydantic", "typer", "rich", "jinja2", "plotly")
PURPOSES: Final[dict[Extra, str]] = {
    "serve": "the live page",
    "sweep": "sweep, --scheduler, --slurm and --dashboard",
    "real": "running schedules for real",
}


def doctor(json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False) -> None:
    """Check the installation: what is installed and what works."""
    rows: list[tuple[str, bool, str]] = [("python", True, platform.python_version())]
    rows.append(("simfrontier", True, simfrontier.__version__))
    rows += [_package(name) for name in NEEDED]
    rows += [_extra(extra, purpose) for extra, purpose in PURPOSES.items()]
    rows.append(_checked("machines", lambda: ", ".join(load_machine(name).name for name in catalog())))
    rows.append(_checked("libraries", lambda: ", ".join(load_library(name).name for name in libraries())))
    rows.append(_checked("simulation", _simulate))
    rows.append(_checked("temporary files", _write))
    rows.append(("processors", True, str(os.cpu_count())))
    rows += [check.run() for check in added("doctor", Check)]
    if json:
        print_json([dict(zip(("what", "works", "found"), row, strict=True)) for row in rows])
    else:
        for what, works, result in rows:
            typer.echo(f"{'ok  ' if works else 'MISS'}  {what:<16} {result}")
    raise typer.Exit(0 if all(works for _, works, _ in rows) else 1)


def _package(name: str) -> tuple[str, bool, str]:
    try:
        return name, True, importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return name, False, "not installed"


def _extra(extra: Extra, purpose: str) -> tuple[str, bool, str]:
    """Return the row of an optional extra of pip, which may be missing."""
    if missing(extra):
        return f"[{extra}]", True, f"not installed (for {purpose}: pip install 'simfrontier[{extra}]')"
    return f"[{extra}]", True, ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES[extra])


def _checked(what: str, attempt: Callable[[], str]) -> tuple[str, bool, str]:
    try:
        return what, True, attempt()
    except (SimfrontierError, OSError) as error:
        return what, False, str(error)


def _simulate() -> str:
    settings = {"engine.persistence_elements": 0}
    (outcome,) = compare("toy-pair", "tiny", ["zero3"], devices=2, settings=settings).outcomes
    return f"one step of a tiny model on 2 devices takes {float(outcome.row['step_time_s']) * 1e3:.3f} ms"


def _write() -> str:
    with tempfile.NamedTemporaryFile() as file:
        return f"can be written ({os.path.dirname(file.name)})"
