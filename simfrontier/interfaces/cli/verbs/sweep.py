"""`simfrontier sweep`: simulate a study of many points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from simfrontier.answers import sweep as sweeps
from simfrontier.answers.study import forget
from simfrontier.base.errors import InputError
from simfrontier.base.optional import require
from simfrontier.base.units import counted, time_words
from simfrontier.base.workers import Local, Place, SlurmJobs
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, tell
from simfrontier.interfaces.progress import progress
from simfrontier.interfaces.report.phrases import number, quantity
from simfrontier.interfaces.report.sweep_page import write_sweep_page
from simfrontier.interfaces.report.table import Table

TOLD_POINTS: Final = 2_000  # from so many on their number and their time are said before the first
MANY: Final = 4  # values of axes that are shown of a row


def sweep(
    study: Annotated[
        Path, typer.Argument(help="study file (TOML) or name of a shipped study, e.g. toy; with --page a folder")
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
    if not dry_run:
        require("sweep", "sweep")
    if page:
        if out or jobs or scheduler or slurm or dashboard or dry_run or until or fresh or json:
            raise InputError("--page: goes with no other option; allowed: simfrontier sweep FOLDER --page")
        _write_page(study)
        tell(f"Written: {study / 'index.html'} (open it in a browser)")
        return
    place = options.place_of(jobs, scheduler, slurm, dashboard, options.cores())
    loaded = sweeps.load_study(study)
    if dry_run:
        _describe(loaded, place, until, json)
    elif not _run(loaded, out, place, until, fresh, json):
        raise typer.Exit(1)


def _describe(study: sweeps.SweepStudy, place: Place, until: str | None, as_json: bool) -> None:
    """Print the number of points of a study (an upper bound for a search or with --until), its axes and the expected
    time, without simulating."""
    enough = None if until is None else sweeps.parse_until(until)
    if enough is not None:
        sweeps.refuse_until(study, enough)
    is_counted = study.count <= sweeps.SWEEP_POINTS.most
    points = sum(1 for _ in study.points()) if is_counted and not study.searched else study.count
    if enough is not None and enough.points is not None:
        points = enough.points
    if points == 0:
        raise InputError("no points are left by its filters; allowed: a study with a point", where=study.where)
    seconds = sweeps.seconds_of(study) * points / study.count
    if as_json:
        print_json(study_document(study, points, seconds))
    else:
        print_study(study, points, until, enough, _time(seconds, place))


def _run(
    study: sweeps.SweepStudy, out: Path | None, place: Place, until: str | None, fresh: bool, as_json: bool
) -> bool:
    """Run a study, print its results, and return True unless all points were refused. Raises as `run_sweep`."""
    enough = None if until is None else sweeps.parse_until(until)
    study.refuse_many(lambda: f"; it would take {_time(sweeps.seconds_of(study), place)}")
    folder = out or Path("reports") / f"sweep-{study.name}"
    if study.count >= TOLD_POINTS:
        left = " before filters" if study.filters else ""
        text = f"{counted(study.count, 'point')}{left}, {_time(sweeps.seconds_of(study), place)} for those that are new"
        typer.echo(f"simfrontier: {study.where}: {text}", err=True)
    if fresh:
        sweeps.refuse_folder(folder, study.name)
        forget(folder)
    with progress("simulating points", study.count) as report:

        def told(at: sweeps.Progress) -> None:
            words = [f"{at.known:,} reused" if at.known else "", f"{at.refused:,} refused" if at.refused else ""]
            more = ", ".join(filter(None, words))
            report(f"simulating points{f' ({more})' if more else ''}", at.done, at.total)

        outcome = sweeps.run_sweep(study, folder, place, told, enough)
    answer = sweeps.goal_answer(outcome.study, folder, outcome.counts.points)
    sweeps.write_goal(answer, folder)
    has_page = _has_page(folder)
    if as_json:
        print_json(sweep_document(outcome, answer))
    else:
        print_sweep(outcome, answer, has_page)
    return outcome.counts.refused_whole < outcome.counts.points


def _has_page(folder: Path) -> bool:
    """Write the page of a sweep and return whether this succeeded; a failure is reported, and the simulated rows are
    kept."""
    try:
        _write_page(folder)
    except InputError as error:
        typer.echo(f"simfrontier: no page: {error}", err=True)
        return False
    return True


def _write_page(folder: Path) -> None:
    if left_out := write_sweep_page(folder):
        typer.echo(f"simfrontier: {left_out}", err=True)


def _time(seconds: float, place: Place) -> str:
    """Return the expected CPU time as text, and the wall time if the number of processes is known beforehand."""
    match place:
        case Local(jobs=processes):
            pass
        case SlurmJobs(settings=settings):
            processes = settings.num_workers
        case _:  # as many as a running scheduler has, which is asked when points are simulated
            return f"about {time_words(seconds)} of CPU time, shared by the scheduler's workers"
    on = f", {time_words(seconds / processes)} on {counted(processes, 'process', 'processes')}" if processes > 1 else ""
    return f"about {time_words(seconds)} of CPU time{on}"


# ── for a program ──


def study_document(study: sweeps.SweepStudy, points: int, seconds: float) -> dict[str, Any]:
    """Return the axes and points of a study before it is run, and the expected CPU time, as a JSON document."""
    return {
        "study": study.name,
        "title": study.file.title,
        "scenarios": [source.scenario.name for source in study.sources.values()],
        "axes": [{"keys": list(axis.keys), "count": None if study.searched else axis.count} for axis in study.axes],
        "points": points,
        "before_filters": study.count,
        "cpu_s": seconds,
    }


def sweep_document(outcome: sweeps.SweepOutcome, answer: sweeps.GoalAnswer | None) -> dict[str, Any]:
    """Return the counts of points, the best row of each plan, and the answer to the goal, as a JSON document."""
    counts = outcome.counts
    return {
        "study": outcome.study.name,
        "folder": str(outcome.folder),
        "points": counts.points,
        "rows": counts.rows,
        "known": outcome.known,
        "refused": counts.refused,
        "refused_whole": counts.refused_whole,
        "best": [{"scenario": row["scenario"], "plan": row["plan"], **row} for row in sweeps.best_rows(outcome.folder)],
        "goal": None if answer is None else sweeps.goal_document(answer),
        "ended": outcome.ended,
    }


# ── for a person ──


def print_study(
    study: sweeps.SweepStudy, points: int, until: str | None, enough: sweeps.Until | None, time: str
) -> None:
    """Print the number of points of a study (an upper bound for a search or with --until), its axes, and the expected
    time."""
    left = f", of {study.count:,} before its filters" if study.filters and points < study.count else ""
    most = "" if enough is None or (enough.points is None and not study.searched) else "at most "
    tell(f"{study.file.title}: {most}{counted(points, 'point')}{left}")
    tell(f"  scenarios: {', '.join(source.scenario.name for source in study.sources.values())}")
    for axis in study.axes:
        times = "searched over:" if study.searched else f"{axis.count:,} ×"
        tell(f"  {times} {', '.join(axis.keys)}")
    if enough is not None and enough.points is None:
        tell(f"  and more, until {until}")
    tell(f"{time} (forecast from sizes, within a factor of five)")
    if study.count > sweeps.SWEEP_POINTS.most:
        tell(f"More than are run: {sweeps.SWEEP_POINTS.fault(points)}")


def print_sweep(outcome: sweeps.SweepOutcome, answer: sweeps.GoalAnswer | None, has_page: bool) -> None:
    """Print the best row of each plan, the number of points, and the answer to the goal."""
    study, counts = outcome.study, outcome.counts
    best = sweeps.best_rows(outcome.folder)
    if best:
        named = len(study.sources) > 1
        heads = (*(["scenario"] if named else ()), "plan", "devices", "tokens/s", "step", "point")
        rows = [(*([row["scenario"]] if named else ()), *_cells(row)) for row in best]
        tell(Table(f"{study.file.title}: the best of each plan", heads, rows, left=("scenario", "plan"), gap=2))
    written = f"{outcome.folder / 'rows.parquet'} ({counted(counts.rows, 'row')})"
    page = ", index.html (open it in a browser)" if has_page else ""
    goal = _goal(study, answer) if answer is not None else ()
    tell(*_settings(study, best), *_sentences(outcome), f"Written: {written}, manifest.json{page}", *goal)
    if outcome.ended:
        tell(f"{outcome.ended}.")


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    rate, step = number(row["tokens_per_s"]), quantity(row["step_time_s"], "s")
    return row["plan"], f"{row['devices']:,}", rate, step, f"{row['point']:,}"


def _settings(study: sweeps.SweepStudy, best: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the settings of the best rows as text, without the axes that belong to other plans."""
    plans: dict[int, list[str]] = {}
    rows: dict[int, Mapping[str, Any]] = {}
    for row in best:
        rows[row["point"]] = row
        plans.setdefault(row["point"], []).append(row["plan"])
    for point, row in sorted(rows.items()):
        keys = [key for key in study.keys if any(sweeps.is_of_plan(key, plan) for plan in plans[point])]
        values = {key: row[f"axis:{key}"] for key in keys}
        words = [f"{key} = {f'{each:.4g}' if isinstance(each, float) else each}" for key, each in values.items()]
        more = f" and {len(words) - MANY} more" if len(words) > MANY else ""
        if words:
            yield f"Point {point:,}: {', '.join(words[:MANY])}{more}."


def _sentences(outcome: sweeps.SweepOutcome) -> Iterator[str]:
    counts = outcome.counts
    known = f", {outcome.known:,} of them reused" if outcome.known else ""
    yield f"{counted(counts.points, 'point')}{known}."
    if counts.refused_whole == counts.points:
        yield "Every point was refused; the column error says why."
    elif counts.refused:
        were = "points were" if counts.refused > 1 else "point was"
        whole = f"{counts.refused_whole:,} of them at every plan and size"
        yield f"{counts.refused:,} {were} refused, {whole}; the column error says why."


def _goal(study: sweeps.SweepStudy, answer: sweeps.GoalAnswer) -> Iterator[str | Table]:
    """Yield the answer to the goal: the best point of a search, the mean over samples, or a table of sensitivity
    indices."""
    if answer.best is None or answer.best_point is None or answer.mean is None or answer.sd is None:
        yield f"No point has the goal, {answer.words}."
        return
    if answer.indices is not None:
        found = answer.indices
        rows = [
            (each.key, _share(each.first, each.first_interval), _share(each.total, each.total_interval))
            for each in found.unknowns
        ]
        title = f"Shares of the variance of {answer.words}, with 90 % intervals in brackets"
        yield Table(title, ("unknown", "by itself", "with all others known"), rows, words=("unknown",), gap=2)
        left = "" if found.num_rounds == found.num_planned else f" of {found.num_planned:,}"
        yield (
            f"{answer.words}: mean {number(found.mean)}, standard deviation {number(found.sd)} over unknown settings "
            f"({found.num_rounds:,}{left} rounds)."
        )
        yield f"{sweeps.measure_next(found)}."
        return
    if answer.why_not:
        yield f"No indices: {answer.why_not}."
    if answer.kind != "samples":
        settings = next(each for each in study.points() if each.number == answer.best_point).settings
        words = ", ".join(f"{key} = {settings[key]}" for key in study.keys)
        yield f"The best of {answer.words}: {number(answer.best)} at point {answer.best_point:,}, with {words}."
    else:
        yield (
            f"{answer.words}: mean {number(answer.mean)}, standard deviation {number(answer.sd)} over "
            f"{answer.num_known:,} samples."
        )


def _share(share: float, ends: tuple[float, float]) -> str:
    low, middle, high = (round(100 * each) + 0 for each in (ends[0], share, ends[1]))  # no -0
    return f"{middle} % ({low} to {high})"
