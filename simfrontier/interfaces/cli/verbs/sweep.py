"""`simfrontier sweep`: simulate a study of many points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from simfrontier.base.errors import InputError
from simfrontier.base.units import counted, time_words
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import console, print_json, progress

if TYPE_CHECKING:
    from simfrontier.answers.sweep import Progress, SweepStudy
    from simfrontier.base.workers import Place

TOLD_POINTS: Final = 2_000  # from so many on their number and their time are said before the first


def sweep(
    study: Annotated[
        Path, typer.Argument(help="study file (TOML), e.g. scenarios/studies/toy.toml; with --page a folder")
    ],
    out: Annotated[Path | None, typer.Option(help="folder for the data set (default: reports/sweep-NAME)")] = None,
    jobs: options.JobsOfCores = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print the number of points and the expected time; simulate nothing")
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(
            help="add points until a number (500), a time (90s, 30min, 2h) or a relative precision of "
            "the goal (1%) is reached"
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="discard earlier results in the folder")] = False,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    page: Annotated[
        bool, typer.Option("--page", help="rewrite the page of a result folder from its rows; simulate nothing")
    ] = False,
) -> None:
    """Simulate a study: scenarios with every combination of its axes' values, as one Parquet table. Points already
    simulated are reused. Exit code 1 if every point is refused."""
    from simfrontier.answers.sweep import load_study

    if page:
        if out or jobs or scheduler or slurm or dashboard or dry_run or until or fresh or json:
            raise InputError("--page: goes with no other option; allowed: simfrontier sweep FOLDER --page")
        _write_page(study)
        console().print(f"Written: {study / 'index.html'} (open it in a browser)", soft_wrap=True)
        return
    place = options.place_of(jobs, scheduler, slurm, dashboard, options.cores())
    loaded = load_study(study)
    if dry_run:
        _describe(loaded, place, until, json)
    elif not _run(loaded, out, place, until, fresh, json):
        raise typer.Exit(1)


def _describe(study: SweepStudy, place: Place, until: str | None, as_json: bool) -> None:
    """Print the number of points of a study (the maximum for a search or with --until), its axes and the expected time;
    simulate nothing."""
    from simfrontier.answers.sweep import SWEEP_POINTS, parse_until, refuse_until, seconds_of
    from simfrontier.interfaces.cli.terminal.sweep import print_study, study_document

    enough = None if until is None else parse_until(until)
    if enough is not None:
        refuse_until(study, enough)
    is_counted = study.count <= SWEEP_POINTS.most
    points = sum(1 for _ in study.points()) if is_counted and not study.searched else study.count
    if enough is not None and enough.points is not None:
        points = enough.points
    if points == 0:
        raise InputError("no points are left by its filters; allowed: a study with a point", where=study.where)
    seconds = seconds_of(study) * points / study.count
    if as_json:
        print_json(study_document(study, points, seconds))
    else:
        print_study(study, points, until, enough, _time(seconds, place))


def _run(study: SweepStudy, out: Path | None, place: Place, until: str | None, fresh: bool, as_json: bool) -> bool:
    """Run a study, print its results, and return whether any point was not refused. Raises as `run_sweep`."""
    from simfrontier.answers.study import forget
    from simfrontier.answers.sweep import goal_answer, parse_until, refuse_folder, run_sweep, seconds_of, write_goal
    from simfrontier.interfaces.cli.terminal.sweep import print_sweep, sweep_document

    enough = None if until is None else parse_until(until)
    study.refuse_many(lambda: f"; it would take {_time(seconds_of(study), place)}")
    folder = out or Path("reports") / f"sweep-{study.name}"
    if study.count >= TOLD_POINTS:
        left = " before filters" if study.filters else ""
        text = f"{counted(study.count, 'point')}{left}, {_time(seconds_of(study), place)} for those that are new"
        typer.echo(f"simfrontier: {study.where}: {text}", err=True)
    if fresh:
        refuse_folder(folder, study.name)
        forget(folder)
    with progress("simulating points", study.count) as report:

        def told(at: Progress) -> None:
            words = [f"{at.known:,} reused" if at.known else "", f"{at.refused:,} refused" if at.refused else ""]
            more = ", ".join(filter(None, words))
            report(f"simulating points{f' ({more})' if more else ''}", at.done, at.total)

        outcome = run_sweep(study, folder, place, told, enough)
    answer = goal_answer(outcome.study, folder, outcome.counts.points)
    write_goal(answer, folder)
    has_page = _has_page(folder)
    if as_json:
        print_json(sweep_document(outcome, answer))
    else:
        print_sweep(outcome, answer, has_page)
    return outcome.counts.refused_whole < outcome.counts.points


def _has_page(folder: Path) -> bool:
    """Write the page of the rows and return whether it succeeded; the rows stay, and a failure is reported."""
    try:
        _write_page(folder)
    except InputError as error:
        typer.echo(f"simfrontier: no page: {error}", err=True)
        return False
    return True


def _write_page(folder: Path) -> None:
    from simfrontier.interfaces.report import write_sweep_page

    if left_out := write_sweep_page(folder):
        typer.echo(f"simfrontier: {left_out}", err=True)


def _time(seconds: float, place: Place) -> str:
    """Return the expected CPU time, and the wall time if the number of processes is known beforehand."""
    from simfrontier.base.workers import Local, SlurmJobs

    match place:
        case Local(jobs=processes):
            pass
        case SlurmJobs(settings=settings):
            processes = settings.num_workers
        case _:  # as many as a running scheduler has, which is asked when points are simulated
            return f"about {time_words(seconds)} of CPU time, shared by the scheduler's workers"
    on = f", {time_words(seconds / processes)} on {counted(processes, 'process', 'processes')}" if processes > 1 else ""
    return f"about {time_words(seconds)} of CPU time{on}"
