"""The page of a fit: parameters with their intervals, measured against predicted, and residuals over size."""

from __future__ import annotations

from simfrontier.accuracy import FitOutcome
from simfrontier.collectives import Calibration
from simfrontier.report.figures.calibration import residual_figure
from simfrontier.report.figures.validation import agreement_figure
from simfrontier.report.findings.calibration import calibration_findings, compared_rows
from simfrontier.report.manifest import versions
from simfrontier.report.render import page_of


def calibration_page(done: FitOutcome, calibration: Calibration) -> str:
    """The page as text; the same data give the same text."""
    rows = compared_rows(done)
    return page_of(
        "calibrate",
        found=calibration_findings(done),
        calibration=calibration,
        agreement=agreement_figure(rows),
        residuals=residual_figure(rows),
        versions=versions("scipy"),
    )
