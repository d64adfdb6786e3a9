"""The page of measured softmax kernels: whether two passes over memory beat three on this CPU, where, and why."""

from __future__ import annotations

from pathlib import Path

from simfrontier.answers.study import versions
from simfrontier.base.wholefile import write_whole
from simfrontier.interfaces.report.render import page_of
from simfrontier_extras.softmax.figures import MARKS, NAMES, charts
from simfrontier_extras.softmax.findings import SoftmaxRatesFindings
from simfrontier_extras.softmax.rates import IN_MEMORY, bytes_per_element

TEMPLATES = Path(__file__).parent / "templates"


def softmax_rates_page(found: SoftmaxRatesFindings) -> str:
    """The page as text; the same table gives the same text."""
    return page_of(
        "softmax",
        TEMPLATES,
        found=found,
        charts=charts(found.rates),
        marks=MARKS,
        starts=NAMES,
        line_bytes={name: bytes_per_element(name) for name in IN_MEMORY},
        versions=versions(),
    )


def write_softmax_rates_page(found: SoftmaxRatesFindings, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, softmax_rates_page(found))
