"""The verbs of simfrontier-real for an emulated fabric: `emulate`, and the check that `simfrontier doctor` calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.base.extras import Verb
from simfrontier_real.options import JoinOption, TimeoutOption


def emulate(
    jobs: Annotated[Path, typer.Argument(help="file of jobs, from `simfrontier emulate`")],
    timeout: TimeoutOption = 120.0,
    join_timeout: JoinOption = 60.0,
) -> None:
    """Emulate a fabric on this computer and replay schedules on ranks in it, from a file of jobs."""
    import sys

    from simfrontier_extras.emulation.job_file import load_jobs
    from simfrontier_extras.emulation.real.fabric import is_inside

    loaded, folder = load_jobs(jobs), jobs.parent
    if not is_inside():
        from simfrontier_extras.emulation.real.ranks import run_in_fabric
        from simfrontier_real.ranks.world import end_with_starter

        end_with_starter()
        raise typer.Exit(
            run_in_fabric(folder / loaded.wiring, [sys.executable, "-m", "simfrontier_real", *sys.argv[1:]])
        )
    from simfrontier_extras.emulation.real.jobs import run_jobs
    from simfrontier_real.ranks.session import session

    with session([], "gloo", True, join_timeout, timeout) as opened:
        run_jobs(opened, loaded.jobs, folder)


def fabric_check() -> None:
    """Say what this system lacks for an emulated fabric, a line each; exit code 1 where it lacks something."""
    from simfrontier_extras.emulation.real.fabric import missing

    lacking = missing()
    for line in lacking:
        typer.echo(f"missing: {line}")
    raise typer.Exit(1 if lacking else 0)


ADDS = (
    Verb(function=emulate),
    Verb(function=fabric_check, name="fabric-check", hidden=True),
)
