"""results.csv: one row per plan and size; slowdown.csv: one per plan and trouble; their columns stay put."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simfrontier.answers.study import COLUMNS, Cell, Study
from simfrontier.base.wholefile import write_whole

if TYPE_CHECKING:
    from simfrontier.answers.slowdown import Slowdown

SLOWDOWN_FILE: Final = "slowdown.csv"


def results_csv(study: Study) -> str:
    """The table as text: floats in full (`repr`), truth as true or false, empty where a plan does not fit."""
    return rows_csv(COLUMNS, (outcome.row for outcome in study.outcomes))


def rows_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Cell]]) -> str:
    """Rows as text, with a heading; cells as in `results_csv`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_text(row[column]) for column in columns])
    return out.getvalue()


def write_results(study: Study, path: Path) -> None:
    """Write results.csv. Raises InputError where the file cannot be written."""
    write_whole(path, results_csv(study))


def write_slowdown(slowdown: Slowdown, path: Path) -> None:
    """Write slowdown.csv. Raises InputError where the file cannot be written."""
    from simfrontier.interfaces.report.findings.slowdown import COLUMNS as SLOWDOWN_COLUMNS, slowdown_rows

    write_whole(path, rows_csv(SLOWDOWN_COLUMNS, slowdown_rows(slowdown)))


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, int | float) else cell
