"""The page of training runs: published steps held against predictions."""

from __future__ import annotations

from pathlib import Path

from simfrontier.accuracy import RunsValidation, load_parameters
from simfrontier.report.figures.runs import runs_figure
from simfrontier.report.manifest import versions
from simfrontier.report.render import page_of
from simfrontier.wholefile import write_whole


def write_runs_page(done: RunsValidation, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    held = done.held
    page = page_of(
        "runs",
        done=done,
        figures={"all runs": runs_figure(held)} if held else {},
        parameters=load_parameters().parameters,
        versions=versions(),
    )
    write_whole(path, page)
