"""results.csv: one row per plan and size, in the order of columns that stays put."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from simfrontier.study import COLUMNS, MORE_COLUMNS, Cell, Study
from simfrontier.wholefile import write_whole


def results_csv(study: Study) -> str:
    """The table as text: floats in full (`repr`), truth as true or false, empty where a plan does not fit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = (*COLUMNS, *MORE_COLUMNS)
    writer.writerow(columns)
    for outcome in study.outcomes:
        writer.writerow([_text(outcome.row[column]) for column in columns])
    return out.getvalue()


def write_results(study: Study, path: Path) -> None:
    """Write results.csv. Raises InputError where the file cannot be written."""
    write_whole(path, results_csv(study))


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, int | float) else cell
