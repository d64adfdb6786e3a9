"""The page of a validation: the errors of predictions of measured tables, table by table."""

from __future__ import annotations

from pathlib import Path

from simfrontier.accuracy import Validation
from simfrontier.report.figures.validation import USE_NAMES, agreement_figure, errors_figure, series_figure
from simfrontier.report.findings.rows import charts_of
from simfrontier.report.findings.validation import lines_of, validation_findings
from simfrontier.report.manifest import versions
from simfrontier.report.render import page_of
from simfrontier.wholefile import write_whole


def validation_page(done: Validation) -> str:
    """The page as text; the same tables and models give the same text."""
    drawn = {table.name: [row for row in done.of(table.name) if row.error is not None] for table in done.tables}
    drawn = {name: rows for name, rows in drawn.items() if rows}
    every = {"all tables": [row for rows in drawn.values() for row in rows]} if len(drawn) > 1 else {}
    charts = [(table.title, charts_of(done.of(table.name))) for table in done.tables]
    return page_of(
        "validate",
        found=validation_findings(done),
        lines_of=lines_of,
        uses=USE_NAMES,
        agreement={name: agreement_figure(rows) for name, rows in drawn.items()},
        errors={name: errors_figure(rows) for name, rows in (every | drawn).items()},
        sizes=[(title, {name: series_figure(rows) for name, rows in own.items()}) for title, own in charts if own],
        versions=versions("scipy"),
    )


def write_validation_page(done: Validation, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, validation_page(done))
