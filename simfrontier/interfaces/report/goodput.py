"""The page of goodput, and its rows as goodput.csv."""

from __future__ import annotations

from simfrontier.answers.goodput import Goodput, goodput_rows
from simfrontier.answers.study import versions
from simfrontier.interfaces.report.figures.goodput import NAMES, shares_figure, tokens_figure
from simfrontier.interfaces.report.render import page_of
from simfrontier.interfaces.report.table import rows_csv
from simfrontier.interfaces.report.theme import marks


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
