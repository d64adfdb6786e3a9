"""Pages of single verbs: validation, cross-check, explanation, goodput and live page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simfrontier.answers.accuracy import FitOutcome, RunsValidation, Validation, load_parameters
from simfrontier.answers.explain import Explanation
from simfrontier.answers.goodput import Goodput, goodput_rows
from simfrontier.answers.study import versions
from simfrontier.core.collectives import Calibration
from simfrontier.core.trace import Comparison, CrossCheck, deltas
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.report.drawing import STOPS
from simfrontier.interfaces.report.figures.crosscheck import scatter_figure, steps_figure, timelines_figure
from simfrontier.interfaces.report.figures.explanation import (
    changes_figure,
    colours_of,
    parts_figure,
    strip_figure,
    waits_figure,
    waterfall_figure,
)
from simfrontier.interfaces.report.figures.goodput import NAMES, shares_figure, tokens_figure
from simfrontier.interfaces.report.figures.residuals import (
    USE_NAMES,
    agreement_figure,
    errors_figure,
    residual_figure,
    runs_figure,
)
from simfrontier.interfaces.report.figures.series import series_figure
from simfrontier.interfaces.report.findings.crosscheck import crosscheck_findings
from simfrontier.interfaces.report.findings.explanation import (
    EQUAL,
    LITTLE,
    first_that_fits,
    shares_of,
    shown_differences,
    shown_parts,
)
from simfrontier.interfaces.report.findings.rows import charts_of
from simfrontier.interfaces.report.render import as_html, page_of, render
from simfrontier.interfaces.report.table import rows_csv
from simfrontier.interfaces.report.theme import Figure, marks


def validation_page(done: Validation) -> str:
    """The page of a validation as text; the same tables and models give the same text."""
    drawn = {table.name: [row for row in done.of(table.name) if row.error is not None] for table in done.tables}
    drawn = {name: rows for name, rows in drawn.items() if rows}
    every = {"all tables": [row for rows in drawn.values() for row in rows]} if len(drawn) > 1 else {}
    charts = [(table.title, charts_of(done.of(table.name))) for table in done.tables]
    return page_of(
        "validate",
        done=done,
        uses=USE_NAMES,
        agreement={name: agreement_figure(rows) for name, rows in drawn.items()},
        errors={name: errors_figure(rows) for name, rows in (every | drawn).items()},
        sizes=[(title, {name: series_figure(rows) for name, rows in own.items()}) for title, own in charts if own],
        versions=versions("scipy"),
    )


def runs_page(done: RunsValidation) -> str:
    """The page of training runs as text."""
    return page_of(
        "runs",
        done=done,
        figures={"all runs": runs_figure(done.predicted)} if done.predicted else {},
        parameters=load_parameters().parameters,
        versions=versions(),
    )


def calibration_page(done: FitOutcome, calibration: Calibration) -> str:
    """The page of a fit as text; the same data give the same text."""
    return page_of(
        "calibrate",
        done=done,
        calibration=calibration,
        agreement=agreement_figure(done.points),
        residuals=residual_figure(done.points),
        versions=versions("scipy"),
    )


MAX_BARS = 24_000  # on all timelines: more ranks are drawn while there are fewer


def crosscheck_page(check: CrossCheck) -> str:
    """The page as text; the same traces give the same text."""
    found = crosscheck_findings(check)
    added = {name: section for each in check.added for name, section in each.sections().items()}
    return page_of(
        "crosscheck",
        found=found,
        steps=steps_figure(found.steps),
        calls=scatter_figure(check, marks([each.plan for each in check.comparisons])),
        timelines={each.plan: _timelines(each, MAX_BARS // len(check.comparisons)) for each in check.comparisons},
        deltas={each.plan: deltas(each) for each in check.comparisons},
        titles={name: title for name, (title, _) in added.items()},
        added={name: as_html(section) for name, (_, section) in added.items()},
        versions=versions(),
    )


def _timelines(comparison: Comparison, max_bars: int) -> dict[str, Figure]:
    """Timelines by rank, the slowest first; as many ranks as there is room for, at least one."""
    slowest = comparison.slowest_rank
    ranks = [slowest, *(rank for rank in comparison.by_rank if rank != slowest)] if comparison.by_rank else []
    figures: dict[str, Figure] = {}
    room = max_bars
    for rank in ranks:
        room -= 2 * len(comparison.by_rank[rank])
        if figures and room < 0:
            break
        name = f"rank {rank} (the slowest)" if rank == slowest else f"rank {rank}"
        figures[name] = timelines_figure(comparison, rank)
    return figures


def explanation_page(it: Explanation) -> str:
    """The page as text; the same explanation gives the same text."""
    figures = {
        "parts": parts_figure({it.plan: it.time}, colours_of([it.time])),
        "strip": strip_figure(it.path),
        "changes": changes_figure(it),
    }
    if it.waits.pairs:
        figures["waits"] = waits_figure(it.waits)
    if it.against is not None:
        times = {it.plan: it.time, it.against.plan: it.against.time}
        figures["both"] = parts_figure(times, colours_of(list(times.values())))
        figures["waterfall"] = waterfall_figure(it, it.against)
    best = first_that_fits(it.changes)
    return page_of(
        "explain",
        it=it,
        shares=shares_of(it.time),
        parts=shown_parts(it.time.parts),
        best=best,
        moves=best is not None and best.share >= LITTLE,
        equal=EQUAL,
        differences=shown_differences(it.against.differences) if it.against else (),
        figures=figures,
        versions=versions(),
    )


def goodput_csv(found: Goodput) -> str:
    """The rows of goodput.csv."""
    rows = [{key: "" if cell is None else cell for key, cell in row.items()} for row in goodput_rows(found)]
    return rows_csv(tuple(rows[0]), rows)


def goodput_page(found: Goodput) -> str:
    """The page of goodput as text."""
    plans, device = list(found.scenario.plans), found.scenario.machine.device_word
    charts = {"tokens": tokens_figure(found, marks(plans), device), "shares": shares_figure(found)}
    figures = charts if found.yields else {}
    return page_of("goodput", found=found, figures=figures, names=NAMES, device=device, versions=versions())


def live_page(scenario: Scenario, controls: Sequence[Any], moves: Mapping[str, Sequence[str]]) -> str:
    """The page of a scenario, which loads nothing from anywhere. `controls`: `live.state.Control`; `moves`: texts of
    a control's values in a link."""
    return render(
        "pages/live.html.j2",
        title=scenario.file.title,
        scenario=scenario.where,
        given=scenario.settings,
        device=scenario.machine.device_word,
        controls=controls,
        moves=moves,
        stops=STOPS,
    )
