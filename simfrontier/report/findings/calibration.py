"""What a fit comes to: the errors of its points by what the fits had seen, and what speaks against it."""

from __future__ import annotations

import math
from typing import Literal

from simfrontier.accuracy import ComparedRow, FitOutcome, Prediction, Use, far_of, was_fitted
from simfrontier.analysis import NORMAL_90
from simfrontier.arrays import Floats
from simfrontier.collectives import ErrorSummary, FitRecord
from simfrontier.records import dataclass

HARDLY = 9.0  # times its lower end is the upper end of an interval of which there is something to say


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """The errors of points as the fit to all predicts them, as fits do that had not seen their number of devices, or as
    the library's file does. `large`: only messages of 4 MiB and more among several nodes; `machine` and `devices`: only
    of these, empty and 0 for all."""

    by: Literal["fitted", "left out", "shipped"]
    far: ErrorSummary
    large: bool = False
    machine: str = ""
    devices: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseFit:
    """Mean absolute errors of points left out, by fits that had not seen them and by the library's file, which was
    fitted to `num_known` of these `num_points`."""

    fit: float
    shipped: float
    num_known: int
    num_points: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFindings:
    """What follows from a fit. `worse`: where the library's file is nearer; `kept_sd`: the spread of the library's file
    where error bars keep it; `most_sd`: the largest spread of any point; `hardly`: parameters whose interval says next
    to nothing."""

    done: FitOutcome
    record: FitRecord
    covered: float | None
    model_sd: float
    most_sd: float
    kept_sd: float | None
    hardly: tuple[str, ...]
    worse: WorseFit | None
    lines: tuple[ErrorLine, ...]


def calibration_findings(done: FitOutcome) -> CalibrationFindings:
    """What follows from a fit."""
    record, residual = done.record(), done.problem.library.residual
    return CalibrationFindings(
        done=done,
        record=record,
        covered=done.covered,
        model_sd=done.model_sd,
        most_sd=float(done.spreads.max()),
        kept_sd=residual.model_sd if residual is not None and done.model_sd != record.model_sd else None,
        hardly=tuple(key for key, (low, high) in done.fitted.intervals.items() if high > HARDLY * low),
        worse=_worse(done) if done.is_worse else None,
        lines=tuple(_lines(done, record)),
    )


def compared_rows(done: FitOutcome) -> list[ComparedRow]:
    """Every point as the fit to all predicts it, and as a fit that had not seen its number of devices does; the 90 %
    interval by the spread of the calibration."""
    return [*_compared(done, "fitted", done.fitted.errors), *_compared(done, "left out", done.cross_validation.errors)]


def _lines(done: FitOutcome, record: FitRecord) -> list[ErrorLine]:
    left, large = done.was_left_out, done.is_large
    lines = [ErrorLine(by="fitted", far=record.fitted)]
    if record.left_out is not None:
        lines.append(ErrorLine(by="left out", far=record.left_out))
        if (left & large).any():
            lines.append(ErrorLine(by="left out", large=True, far=far_of(done.cross_validation.errors[left & large])))
    lines.append(ErrorLine(by="shipped", far=far_of(done.shipped_errors)))
    if large.any():
        lines.append(ErrorLine(by="shipped", large=True, far=far_of(done.shipped_errors[large])))
    places = (ErrorLine(by="left out", machine=one.machine, devices=one.devices, far=one.far) for one in record.places)
    return [*lines, *places]


def _worse(done: FitOutcome) -> WorseFit:
    left = done.was_left_out
    return WorseFit(
        fit=far_of(done.cross_validation.errors[left]).mean_abs_error,
        shipped=far_of(done.shipped_errors[left]).mean_abs_error,
        num_known=sum(was_fitted(row) for row, out in zip(done.chosen.rows, left.tolist(), strict=True) if out),
        num_points=int(left.sum()),
    )


def _compared(done: FitOutcome, use: Use, errors: Floats) -> list[ComparedRow]:
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
