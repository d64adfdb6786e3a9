"""The command that runs a study of many points: `sweep`, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli.options import Dashboard, JobsOfCores, Scheduler, Slurm, place_of, to_write
from simfrontier.errors import InputError


def sweep(
    study: Annotated[
        Path, typer.Argument(help="study file (TOML), e.g. scenarios/studies/toy.toml; with --page a folder")
    ],
    out: Annotated[Path | None, to_write("--out", "folder for the data set (default: reports/sweep-NAME)")] = None,
    jobs: JobsOfCores = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    dashboard: Dashboard = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say how many points there are and how long they take; run nothing")
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(
            help="add points until there are enough: so many (500), for a time (90s, 30min, 2h), or as the goal is "
            "known to a part of itself (1%)"
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="forget what the folder has of earlier runs")] = False,
    json: Annotated[bool, typer.Option("--json", help="print what was made as JSON")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="make the page of a folder of this verb anew, from its rows; run nothing")
    ] = False,
) -> None:
    """Simulate a study: scenarios with every combination of its axes' values, as one table of Parquet. What was
    simulated before is not simulated again. Exit code 1 where every point is refused."""
    from simfrontier.cli.sweep import describe, sweep_study, write_page
    from simfrontier.cli.tune import cores
    from simfrontier.sweep import load_study

    if page:
        if out or jobs or scheduler or slurm or dashboard or dry_run or until or fresh or json:
            raise InputError("--page: goes with no other option; allowed: simfrontier sweep FOLDER --page")
        write_page(study)
        return
    place = place_of(jobs, scheduler, slurm, dashboard, cores())
    loaded = load_study(study)
    if dry_run:
        describe(loaded, place, until, json)
    elif not sweep_study(loaded, out, place, until, fresh, json):
        raise typer.Exit(1)
