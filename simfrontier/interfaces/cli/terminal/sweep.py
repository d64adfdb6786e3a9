"""Output of `sweep`: the best of each plan, the number of points, the goal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from simfrontier.answers.sweep import SWEEP_POINTS, best_rows, goal_document, is_of_plan, measure_next
from simfrontier.base.units import counted
from simfrontier.interfaces.cli.console import console, grid
from simfrontier.interfaces.report import number, quantity

if TYPE_CHECKING:
    from rich.table import Table

    from simfrontier.answers.sweep import BestRow, GoalAnswer, SweepOutcome, SweepStudy, Until

MANY: Final = 4  # values of axes that are shown of a row


# ── for a program ──


def study_document(study: SweepStudy, points: int, seconds: float) -> dict[str, Any]:
    """Return the axes and points of a study that is not run, and the expected CPU time."""
    return {
        "study": study.name,
        "title": study.file.title,
        "scenarios": [source.scenario.name for source in study.sources.values()],
        "axes": [{"keys": list(axis.keys), "count": None if study.searched else axis.count} for axis in study.axes],
        "points": points,
        "before_filters": study.count,
        "cpu_s": seconds,
    }


def sweep_document(outcome: SweepOutcome, answer: GoalAnswer | None) -> dict[str, Any]:
    """Return counts, the best of each plan, and the answer to the goal."""
    counts = outcome.counts
    return {
        "study": outcome.study.name,
        "folder": str(outcome.folder),
        "points": counts.points,
        "rows": counts.rows,
        "known": outcome.known,
        "refused": counts.refused,
        "refused_whole": counts.refused_whole,
        "best": [{"scenario": best.scenario, "plan": best.plan, **best.row} for best in best_rows(outcome.folder)],
        "goal": None if answer is None else goal_document(answer),
        "ended": outcome.ended,
    }


# ── for a person ──


def print_study(study: SweepStudy, points: int, until: str | None, enough: Until | None, time: str) -> None:
    """Print the number of points of a study (the maximum for a search or with --until), its axes, and the expected
    time."""
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
    screen.print(f"{time} (forecast from sizes, within a factor of five)", soft_wrap=True)
    if study.count > SWEEP_POINTS.most:
        screen.print(f"More than are run: {SWEEP_POINTS.fault(points)}", soft_wrap=True)


def print_sweep(outcome: SweepOutcome, answer: GoalAnswer | None, has_page: bool) -> None:
    """Print the best of each plan, the number of points, and the answer to the goal."""
    study, counts, screen = outcome.study, outcome.counts, console()
    best = best_rows(outcome.folder)
    if best:
        named = len(study.sources) > 1
        heads = (*(["scenario"] if named else ()), "plan", "devices", "tokens/s", "step", "point")
        rows = [(*([each.scenario] if named else ()), *_cells(each)) for each in best]
        screen.print(grid(f"{study.file.title}: the best of each plan", heads, rows, left=("scenario", "plan"), gap=2))
    written = f"{outcome.folder / 'rows.parquet'} ({counted(counts.rows, 'row')})"
    page = ", index.html (open it in a browser)" if has_page else ""
    goal = _goal(study, answer) if answer is not None else ()
    for line in (*_settings(study, best), *_sentences(outcome), f"Written: {written}, manifest.json{page}", *goal):
        screen.print(line, soft_wrap=True)
    if outcome.ended:
        screen.print(f"{outcome.ended}.", soft_wrap=True)


def _cells(best: BestRow) -> tuple[str, ...]:
    row = best.row
    rate, step = number(row["tokens_per_s"]), quantity(row["step_time_s"], "s")
    return best.plan, f"{row['devices']:,}", rate, step, f"{row['point']:,}"


def _settings(study: SweepStudy, best: Sequence[BestRow]) -> Iterator[str]:
    """Yield the values of the axes at the points of the best rows, without those of other plans."""
    plans: dict[int, list[str]] = {}
    rows: dict[int, dict[str, Any]] = {}
    for each in best:
        rows[each.row["point"]] = each.row
        plans.setdefault(each.row["point"], []).append(each.plan)
    for point, row in sorted(rows.items()):
        keys = [key for key in study.keys if any(is_of_plan(key, plan) for plan in plans[point])]
        values = {key: row[f"axis:{key}"] for key in keys}
        words = [f"{key} = {f'{each:.4g}' if isinstance(each, float) else each}" for key, each in values.items()]
        more = f" and {len(words) - MANY} more" if len(words) > MANY else ""
        if words:
            yield f"Point {point:,}: {', '.join(words[:MANY])}{more}."


def _sentences(outcome: SweepOutcome) -> Iterator[str]:
    counts = outcome.counts
    known = f", {outcome.known:,} of them reused" if outcome.known else ""
    yield f"{counted(counts.points, 'point')}{known}."
    if counts.refused_whole == counts.points:
        yield "Every point was refused; the column error says why."
    elif counts.refused:
        were = "points were" if counts.refused > 1 else "point was"
        whole = f"{counts.refused_whole:,} of them at every plan and size"
        yield f"{counts.refused:,} {were} refused, {whole}; the column error says why."


def _goal(study: SweepStudy, answer: GoalAnswer) -> Iterator[str | Table]:
    """Yield the best point of a search, the mean over samples, or a table of the indices."""
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
        yield grid(title, ("unknown", "by itself", "with all others known"), rows, words=("unknown",), gap=2)
        left = "" if found.num_rounds == found.num_planned else f" of {found.num_planned:,}"
        yield (
            f"{answer.words}: mean {number(found.mean)}, standard deviation {number(found.sd)} over unknown settings "
            f"({found.num_rounds:,}{left} rounds)."
        )
        yield f"{measure_next(found)}."
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
