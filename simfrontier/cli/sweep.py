"""`simfrontier sweep`: run a study of many points, and say what its data set holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from simfrontier.cli.bar import bar_of_work
from simfrontier.cli.console import console, grid
from simfrontier.cli.sweep_goal import goal_lines
from simfrontier.errors import InputError
from simfrontier.limits import SWEEP_POINTS
from simfrontier.report import number, quantity, write_sweep_page
from simfrontier.study import forget
from simfrontier.sweep import (
    Progress,
    SweepOutcome,
    SweepStudy,
    best_rows,
    goal_answer,
    goal_document,
    is_of_plan,
    parse_until,
    refuse_folder,
    refuse_until,
    run_sweep,
    seconds_of,
    write_goal,
)
from simfrontier.units import counted, time_words
from simfrontier.workers import Local, SlurmJobs

if TYPE_CHECKING:
    from simfrontier.sweep import BestRow, GoalAnswer
    from simfrontier.workers import Place

TOLD_POINTS: Final = 2_000  # from so many on their number and their time are said before the first
MANY: Final = 4  # values of axes that are shown of a row


def describe(study: SweepStudy, place: Place, until: str | None, as_json: bool) -> None:
    """Print how many points a study has, its axes, and how long it would take; nothing is simulated. Of a search, or
    with --until: how many it has at most, where that is known."""
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
        typer.echo(json.dumps(_document(study, points, seconds), indent=1))
        return
    screen = console()
    left = f", of {study.count:,} before its filters" if study.filters and points < study.count else ""
    most = "" if enough is None or (enough.points is None and not study.searched) else "at most "
    screen.print(f"{study.file.title}: {most}{counted(points, 'point')}{left}", soft_wrap=True)
    screen.print(f"  scenarios: {', '.join(source.scenario.name for source in study.sources.values())}", soft_wrap=True)
    for axis in study.axes:
        times = "searched over:" if study.searched else f"{axis.count:,} ×"
        screen.print(f"  {times} {', '.join(axis.keys)}", soft_wrap=True)
    if enough is not None and enough.points is None:
        screen.print(f"  and more, until {until}", soft_wrap=True)
    screen.print(f"{_time(seconds, place)} (forecast from sizes, within a factor of five)", soft_wrap=True)
    if not is_counted:
        screen.print(f"More than are run: {SWEEP_POINTS.fault(points)}", soft_wrap=True)


def sweep_study(
    study: SweepStudy, out: Path | None, place: Place, until: str | None, fresh: bool, as_json: bool
) -> bool:
    """Run a study and print what its data set holds; whether any point was not refused. Raises as `run_sweep`."""
    enough = None if until is None else parse_until(until)
    study.refuse_many(lambda: f"; it would take {_time(seconds_of(study), place)}")
    folder = out or Path("reports") / f"sweep-{study.name}"
    if study.count >= TOLD_POINTS:
        left = " before filters" if study.filters else ""
        text = f"{counted(study.count, 'point')}{left}, {_time(seconds_of(study), place)} for those that are new"
        sys.stderr.write(f"simfrontier: {study.where}: {text}\n")
        sys.stderr.flush()
    if fresh:
        refuse_folder(folder, study.name)
        forget(folder)
    with bar_of_work() as bar:
        task = bar.add_task("simulating points", total=study.count)

        def report(at: Progress) -> None:
            words = [f"{at.known:,} known before" if at.known else "", f"{at.refused:,} refused" if at.refused else ""]
            more = ", ".join(filter(None, words))
            text = f"simulating points{f' ({more})' if more else ''}"
            bar.update(task, completed=at.done, total=at.total, description=text)

        outcome = run_sweep(study, folder, place, report, enough)
    study = outcome.study
    answer = goal_answer(study, folder, outcome.counts.points)
    write_goal(answer, folder)
    has_page = _has_page(folder)
    if as_json:
        typer.echo(json.dumps({**_outcome(study, outcome, answer), "ended": outcome.ended}, indent=1))
        return outcome.counts.refused_whole < outcome.counts.points
    _print(study, outcome, has_page)
    if answer is not None:
        for each in goal_lines(study, answer):
            console().print(each, soft_wrap=True)
    if outcome.ended:
        console().print(f"{outcome.ended}.", soft_wrap=True)
    return outcome.counts.refused_whole < outcome.counts.points


def write_page(folder: Path) -> None:
    """Write the page of a data set anew, from its rows alone. Raises InputError where there are none, or it cannot be
    written."""
    _write_page(folder)
    console().print(f"Written: {folder / 'index.html'} (open it in a browser)", soft_wrap=True)


def _has_page(folder: Path) -> bool:
    """Write the page of rows, which stay whatever becomes of it; why there is none is said."""
    try:
        _write_page(folder)
    except InputError as error:
        sys.stderr.write(f"simfrontier: no page: {error}\n")
        return False
    return True


def _write_page(folder: Path) -> None:
    if left_out := write_sweep_page(folder):
        sys.stderr.write(f"simfrontier: {left_out}\n")


def _time(seconds: float, place: Place) -> str:
    """How long it takes; how long one has to wait only where the number of processes is known beforehand."""
    match place:
        case Local(jobs=processes):
            pass
        case SlurmJobs(settings=settings):
            processes = settings.num_workers
        case _:  # as many as a running scheduler has, which is asked when points are simulated
            return f"about {time_words(seconds)} of CPU time, shared by the scheduler's workers"
    on = f", {time_words(seconds / processes)} on {counted(processes, 'process', 'processes')}" if processes > 1 else ""
    return f"about {time_words(seconds)} of CPU time{on}"


def _document(study: SweepStudy, points: int, seconds: float) -> dict[str, Any]:
    return {
        "study": study.name,
        "title": study.file.title,
        "scenarios": [source.scenario.name for source in study.sources.values()],
        "axes": [{"keys": list(axis.keys), "count": None if study.searched else axis.count} for axis in study.axes],
        "points": points,
        "before_filters": study.count,
        "cpu_s": seconds,
    }


def _outcome(study: SweepStudy, outcome: SweepOutcome, answer: GoalAnswer | None) -> dict[str, Any]:
    counts = outcome.counts
    return {
        "study": study.name,
        "folder": str(outcome.folder),
        "points": counts.points,
        "rows": counts.rows,
        "known": outcome.known,
        "refused": counts.refused,
        "refused_whole": counts.refused_whole,
        "best": [{"scenario": best.scenario, "plan": best.plan, **best.row} for best in best_rows(outcome.folder)],
        "goal": None if answer is None else goal_document(answer),
    }


def _print(study: SweepStudy, outcome: SweepOutcome, has_page: bool) -> None:
    counts, screen = outcome.counts, console()
    best = best_rows(outcome.folder)
    if best:
        named = len(study.sources) > 1
        heads = (*(["scenario"] if named else ()), "plan", "devices", "tokens/s", "step", "point")
        table = grid(f"{study.file.title}: the best of each plan", heads, set(), {"scenario", "plan"}, gap=2)
        for each in best:
            table.add_row(*([each.scenario] if named else ()), *_cells(each))
        screen.print(table)
        for line in _settings(study, best):
            screen.print(line, soft_wrap=True)
    for line in _sentences(study, outcome):
        screen.print(line, soft_wrap=True)
    rows = f"{outcome.folder / 'rows.parquet'} ({counted(counts.rows, 'row')})"
    page = ", index.html (open it in a browser)" if has_page else ""
    screen.print(f"Written: {rows}, manifest.json{page}", soft_wrap=True)


def _cells(best: BestRow) -> tuple[str, ...]:
    row = best.row
    rate, step = number(row["tokens_per_s"]), quantity(row["step_time_s"], "s")
    return best.plan, f"{row['devices']:,}", rate, step, f"{row['point']:,}"


def _settings(study: SweepStudy, best: Sequence[BestRow]) -> Iterator[str]:
    """What the axes say at the points of the best rows, without settings of other plans alone."""
    plans: dict[int, list[str]] = {}
    rows: dict[int, dict[str, Any]] = {}
    for each in best:
        rows[each.row["point"]] = each.row
        plans.setdefault(each.row["point"], []).append(each.plan)
    for point, row in sorted(rows.items()):
        keys = [key for key in study.keys if any(is_of_plan(key, plan) for plan in plans[point])]
        words = [f"{key} = {_shown(row[f'axis:{key}'])}" for key in keys]
        more = f" and {len(words) - MANY} more" if len(words) > MANY else ""
        if words:
            yield f"Point {point:,}: {', '.join(words[:MANY])}{more}."


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _sentences(study: SweepStudy, outcome: SweepOutcome) -> Iterator[str]:
    counts = outcome.counts
    known = f", {outcome.known:,} of them known before" if outcome.known else ""
    yield f"{counted(counts.points, 'point')}{known}."
    if counts.refused_whole == counts.points:
        yield "Every point was refused; the column error says why."
    elif counts.refused:
        were = "points were" if counts.refused > 1 else "point was"
        whole = f"{counts.refused_whole:,} of them at every plan and size"
        yield f"{counts.refused:,} {were} refused, {whole}; the column error says why."
