"""The verbs of simfrontier-real for an emulated fabric: `emulate`, and two that it and `simfrontier doctor` call."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.extras import Verb
from simfrontier_real.cli_options import JoinOption, TimeoutOption


def emulate(
    jobs: Annotated[Path, typer.Argument(help="file of jobs, from `simfrontier emulate`")],
    timeout: TimeoutOption = 120.0,
    join_timeout: JoinOption = 60.0,
) -> None:
    """Emulate a fabric on this computer and replay schedules on ranks in it, from a file of jobs."""
    import sys

    from simfrontier_extras.emulation.real.client import is_inside
    from simfrontier_extras.emulation.real.jobs import load_jobs

    wiring, loaded = load_jobs(jobs)
    if not is_inside():
        from simfrontier_extras.emulation.real.launch import run_in_fabric
        from simfrontier_real.world import end_with_starter

        end_with_starter()
        raise typer.Exit(run_in_fabric(wiring, [sys.executable, "-m", "simfrontier_real", *sys.argv[1:]]))
    from simfrontier_extras.emulation.real.jobs import run_jobs
    from simfrontier_real.session import session

    with session([], "gloo", True, join_timeout, timeout) as opened:
        run_jobs(opened, loaded)


def in_fabric(
    wiring: Annotated[Path, typer.Argument(help="wiring file (JSON) of the fabric to lay out")],
    arguments: Annotated[list[str], typer.Argument(help="after `--`: what every rank runs, as for simfrontier-real")],
) -> None:
    """Lay an emulated fabric out on this box and run `simfrontier-real ARGUMENTS` as every rank of it."""
    import sys

    from simfrontier_extras.emulation.real.launch import run_in_fabric

    raise typer.Exit(run_in_fabric(wiring, [sys.executable, "-m", "simfrontier_real", *arguments]))


def fabric_check() -> None:
    """Say what this system lacks for an emulated fabric, a line each; exit code 1 where it lacks something."""
    from simfrontier_extras.emulation.real.probe import missing

    lacking = missing()
    for line in lacking:
        typer.echo(f"missing: {line}")
    raise typer.Exit(1 if lacking else 0)


ADDS = (
    Verb(function=emulate),
    Verb(function=in_fabric, name="in-fabric", hidden=True),
    Verb(function=fabric_check, name="fabric-check", hidden=True),
)
