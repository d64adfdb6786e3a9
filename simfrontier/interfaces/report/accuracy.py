"""Pages of accuracy: a validation of measured tables, one of published training runs, and a fit."""

from __future__ import annotations

from simfrontier.answers.accuracy import FitOutcome, RunsValidation, Validation, load_parameters
from simfrontier.answers.study import versions
from simfrontier.core.collectives import Calibration
from simfrontier.interfaces.report.figures.residuals import (
    USE_NAMES,
    agreement_figure,
    errors_figure,
    residual_figure,
    runs_figure,
)
from simfrontier.interfaces.report.figures.series import series_figure
from simfrontier.interfaces.report.findings.rows import charts_of
from simfrontier.interfaces.report.render import page_of


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
