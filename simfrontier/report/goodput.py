"""The page of goodput, and its rows as goodput.csv."""

from __future__ import annotations

from pathlib import Path

from simfrontier.goodput import Goodput, goodput_rows
from simfrontier.report.figures.goodput import NAMES, shares_figure, tokens_figure
from simfrontier.report.manifest import versions
from simfrontier.report.render import page_of
from simfrontier.report.table import rows_csv
from simfrontier.report.theme import marks
from simfrontier.wholefile import write_whole


def write_goodput(found: Goodput, folder: Path) -> None:
    """Write index.html and goodput.csv. Raises InputError where that cannot be done."""
    rows = [{key: "" if cell is None else cell for key, cell in row.items()} for row in goodput_rows(found)]
    if rows:
        write_whole(folder / "goodput.csv", rows_csv(tuple(rows[0]), rows))
    plans, device = list(found.scenario.plans), found.scenario.machine.device_word
    figures = {"tokens": tokens_figure(found, marks(plans), device), "shares": shares_figure(found)} if rows else {}
    page = page_of("goodput", found=found, figures=figures, names=NAMES, device=device, versions=versions())
    write_whole(folder / "index.html", page)
