"""The page of a fit: parameters with their intervals, measured against predicted, and residuals over size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simfrontier.arrays import Floats
from simfrontier.collectives import Calibration, ErrorSummary
from simfrontier.fitting import FitOutcome, Parameter
from simfrontier.report.calibration_figures import residual_figure
from simfrontier.report.calibration_text import calibration_findings, calibration_lead, far_rows
from simfrontier.report.ending import how_to_read
from simfrontier.report.figures.validation import agreement_figure
from simfrontier.report.markup import cards, items, paragraph, plot, section, table, text
from simfrontier.report.phrases import NOTHING, counted, exactly, number, percent
from simfrontier.report.render import whole_page
from simfrontier.validation import NORMAL_90, ComparedRow, Prediction, Use

CONTENTS = {
    "headline": "In short",
    "parameters": "Parameters",
    "agreement": "Measured, predicted",
    "residuals": "Errors by size",
    "places": "By devices",
    "reading": "How to read",
}
_FAR = ("points", "mean error", "90th percentile", "farthest", "spread")


def calibration_page(done: FitOutcome, calibration: Calibration) -> str:
    """The page as text; the same data give the same text."""
    rows = [*_held(done, "fitted", done.fitted.errors), *_held(done, "left out", done.cross_validation.errors)]
    sections = {
        "headline": _headline(done),
        "parameters": _parameters(done.parameters),
        "agreement": section(
            "agreement",
            "Measured against predicted",
            paragraph(
                "Every point twice: predicted by the fit to all points, and by a fit that had not seen any point of "
                "its number of devices."
            ),
            plot("fig-agreement", {"agreement": agreement_figure(rows)}, "Measured against predicted times"),
        ),
        "residuals": section(
            "residuals",
            "Errors by size of the message",
            plot("fig-residuals", {"residuals": residual_figure(rows)}, "Errors over the size of the message"),
        ),
        "places": _places(done),
        "reading": _reading(),
    }
    heading = f"Calibration of {done.chosen.library}"
    subtitle = f"{calibration.title}: {calibration.where}, {calibration.when}. Made by: {calibration.how}"
    return whole_page(heading, f"{heading}: simfrontier calibrate", subtitle, CONTENTS, sections)


def _held(done: FitOutcome, use: Use, errors: Floats) -> list[ComparedRow]:
    """The points as a fit predicts them; its 90 % interval by the spread of the calibration."""
    return [
        ComparedRow(
            table=row.source,
            row=row,
            measured_s=row.seconds,
            prediction=Prediction(predicted_s=made_s, low_s=made_s / spread, high_s=made_s * spread),
            use=use,
        )
        for row, error, sd in zip(done.chosen.rows, errors.tolist(), done.spreads.tolist(), strict=True)
        if not math.isnan(error)
        for made_s, spread in [(row.seconds * math.exp(error), math.exp(NORMAL_90 * sd))]
    ]


def _headline(done: FitOutcome) -> str:
    record = done.record()
    shown = [
        (
            f"{record.parameters}",
            "parameter" if record.parameters == 1 else "parameters",
            f"fitted to {counted(record.fitted.points, 'point')}",
        ),
        (percent(record.fitted.mean_abs_error), "off on average", "points of the fit, all sizes"),
    ]
    if record.left_out is not None:
        left = record.left_out
        shown += [
            (percent(left.mean_abs_error), "off on average, left out", "by fits without the number of devices"),
            (percent(left.p90_abs_error), "90th percentile, left out", f"farthest {percent(left.worst_abs_error)}"),
        ]
    return section(
        "headline",
        "In short",
        paragraph(calibration_lead(done), "lead"),
        items((text(message) for message in calibration_findings(done)), "plain"),
        cards(shown),
    )


def _parameters(parameters: Sequence[Parameter]) -> str:
    return section(
        "parameters",
        "Parameters",
        table(["parameter", "value", "90 % interval", "in the file"], map(_parameter_row, parameters), "named"),
    )


def _parameter_row(one: Parameter) -> list[str]:
    known, name = exactly(one.file_value, one.unit), f"<code>{breakable(one.key)}</code>"
    if one.value is None or one.interval is None:
        return [name, NOTHING, "not shown by the data", known]
    low, high = (exactly(end, one.unit) for end in one.interval)
    return [name, exactly(one.value, one.unit), f"{low} to {high}", known]


def breakable(name: str) -> str:
    """A dotted name that may be broken after its dots and underscores."""
    return text(name).replace(".", ".<wbr>").replace("_", "_<wbr>")


def _places(done: FitOutcome) -> str:
    rows = [[text(name), *_far_cells(far)] for name, far in far_rows(done)]
    return section("places", "Errors, and by number of devices left out", table(["", *_FAR], rows, "named"))


def _far_cells(far: ErrorSummary) -> list[str]:
    shares = (far.mean_abs_error, far.p90_abs_error, far.worst_abs_error)
    return [f"{far.points:,}", *map(percent, shares), number(far.residual_sd)]


def _reading() -> str:
    meanings = {
        "error": "predicted / measured − 1; averages and percentiles are of its absolute value.",
        "fitted": "By the parameters in the table, which saw every point.",
        "left out": "By a fit of the same parameters to the points of all other numbers of devices.",
        "90 % interval": (
            "From the curvature of the robust loss at the solution, as if errors were independent. Those of one series "
            "of sizes are not quite, so the truth may lie a little further off. A parameter that only decides which "
            "protocol a call takes has the values between which no point changes its protocol."
        ),
        "spread": "Standard deviation of log(predicted / measured): 0.1 is about 10 %.",
        "shipped, unchanged": "By the numbers in the library's file, which may have been fitted to the same points.",
        "robust": "Errors of more than about 10 % count less than by their square, so that a few outliers move little.",
    }
    return how_to_read(meanings, "scipy")
