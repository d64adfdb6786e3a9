"""The outcome of a fit: errors of the fitted and the left-out points, and the calibration file with
errors and numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from simfrontier.answers.accuracy.fit_rows import CrossValidation, FitRows, Where
from simfrontier.answers.accuracy.least_squares import FitProblem, FitResult, free_parameters, with_partners
from simfrontier.answers.accuracy.predictors import was_fitted
from simfrontier.answers.accuracy.predictors.calls import KINDS, groups_of
from simfrontier.answers.accuracy.residual import Residual, Use, around, errors_of
from simfrontier.base.arrays import Floats
from simfrontier.base.units import unit_of
from simfrontier.core.collectives import HARNESS, RESIDUAL, Calibration, ErrorSummary, FitRecord, LeftOutDevices
from simfrontier.inputs.measured import CallRow

LARGE = 4 * 2**20  # bytes of messages that the errors of large ones are of
HARDLY = 9.0  # times its lower end is the upper end of an interval of which there is something to say

Point = Residual[CallRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A free parameter of a fit: its fitted value with its 90 % interval (None if no point depends on the parameter),
    and its value in the file of the library or of the measuring program (harness).
    """

    key: str
    unit: str
    file_value: float
    value: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLine:
    """Errors of a set of points, predicted in three ways: by the fit to all points, by fits that had not seen the
    number of devices of the point, and by the shipped file of the library. `large`: only messages of at least 4 MiB
    among several nodes; `machine` and `devices`: only points of this machine and device count (empty and 0: all
    points).
    """

    by: Literal["fitted", "left out", "shipped"]
    far: ErrorSummary
    large: bool = False
    machine: str = ""
    devices: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseFit:
    """Mean absolute errors of left-out points, by fits that had not seen the points and by the shipped file of the
    library, which itself was fitted to `num_known` of these `num_points` points.
    """

    fit: float
    shipped: float
    num_known: int
    num_points: int


@dataclass(frozen=True, kw_only=True)
class FitOutcome:
    """The selected rows, the fit to all of them, and the fits that leave out one device count each."""

    chosen: FitRows
    problem: FitProblem
    fitted: FitResult
    cross_validation: CrossValidation

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All free parameters of the fit; parameters on which no point depends come last."""
        free = free_parameters(self.problem.library, self.problem.harnesses)
        return tuple(
            Parameter(
                key=key,
                unit=unit_of(key),
                file_value=free[key],
                value=self.fitted.values.get(key),
                interval=self.fitted.intervals.get(key),
            )
            for key in sorted(free, key=lambda key: key in self.fitted.unseen)
        )

    @property
    def hardly(self) -> tuple[str, ...]:
        """Parameters whose 90 % interval is so wide that the points hardly determine their value."""
        return tuple(key for key, (low, high) in self.fitted.intervals.items() if high > HARDLY * low)

    # ── errors ──

    @cached_property
    def record(self) -> FitRecord:
        """Errors of the fit, in the form in which a calibration file stores them."""
        number, left = self.fitted.num_parameters, self._points("left out", self.cross_validation.errors)
        return FitRecord(
            library=self.chosen.library,
            machines=self.chosen.machines,
            parameters=number,
            fitted=error_summary(self._points("fitted", self.fitted.errors), number),
            left_out=error_summary(left) if left else None,
            places=tuple(self._place(place, left) for place in sorted(self.cross_validation.fits)),
            unseen=self.fitted.unseen,
        )

    @cached_property
    def shipped(self) -> tuple[Point, ...]:
        """Every point with its prediction by the shipped file of the library."""
        return self._points("held", self.problem.log_errors({}))

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Every point with its prediction by the fit to all points, followed by the left-out points with predictions by
        fits that had not seen their device counts. The 90 % intervals are those of the calibration.
        """
        errors: dict[Use, Floats] = {"fitted": self.fitted.errors, "left out": self.cross_validation.errors}
        return tuple(point for use, each in errors.items() for point in self._points(use, each, self.spreads))

    @property
    def covered(self) -> float | None:
        """Share of the left-out points that lie within the calibration's 90 % interval; None if no point
        was left out.
        """
        errors = errors_of(point for point in self.points if point.use == "left out")
        return None if errors is None else errors.covered

    @cached_property
    def lines(self) -> tuple[ErrorLine, ...]:
        """Errors of the fit, of the left-out points, and of the shipped file of the library: over all points, over
        large messages, and by machine and device count.
        """
        return tuple(self._lines())

    @cached_property
    def worse(self) -> WorseFit | None:
        """Errors of left-out points if fits that had not seen them predict worse than the shipped file of the library;
        None otherwise.
        """
        was_left_out = ~np.isnan(self.cross_validation.errors)
        known = [point for point, out in zip(self.shipped, was_left_out.tolist(), strict=True) if out]
        if self.record.left_out is None or not known:
            return None
        fit, shipped = self.record.left_out.mean_abs_error, error_summary(known).mean_abs_error
        num_known = sum(was_fitted(point.row) for point in known)
        return WorseFit(fit=fit, shipped=shipped, num_known=num_known, num_points=len(known)) if fit > shipped else None

    # ── spread ──

    @property
    def model_sd(self) -> float:
        """Standard deviation to use for predictions: that of the fit where points were left out, but at least that of
        the shipped file of the library, since few points of one kind do not show how far off others are.
        """
        record, residual = self.record, self.problem.library.residual
        if residual is None:
            return record.model_sd
        return residual.model_sd if record.left_out is None else max(record.model_sd, residual.model_sd)

    @property
    def kept_sd(self) -> float | None:
        """Standard deviation of the shipped file of the library, if the error bars keep it; None otherwise."""
        residual = self.problem.library.residual
        return residual.model_sd if residual is not None and self.model_sd != self.record.model_sd else None

    @property
    def most_sd(self) -> float:
        """Largest standard deviation of any point."""
        return float(self.spreads.max())

    @cached_property
    def spreads(self) -> Floats:
        """Standard deviation of every point under the calibration: `model_sd`, except that small messages and some
        kinds of calls have the value of the shipped file of the library.
        """
        residual = self.problem.library.residual
        if residual is None:
            return np.full(len(self.problem.rows), self.model_sd)
        changed = replace(residual, model_sd=self.model_sd)
        return np.array(
            [changed.sd(KINDS[row.collective], row.num_bytes, _num_nodes(row)) for row in self.problem.rows]
        )

    # ── the file ──

    def calibration(self, title: str, where: str, when: str, how: str) -> Calibration:
        """Return the calibration with the fitted numbers, their 90 % intervals, and the errors of the fit."""
        values, record = self.fitted.values, self.record
        of_law = {key: value for key, value in values.items() if not key.startswith(HARNESS)}
        library = with_partners(record.library, of_law)
        if self.problem.library.residual is not None and record.left_out is not None:
            library[RESIDUAL] = self.model_sd
        return Calibration(
            title=title,
            where=where,
            when=when,
            how=how,
            library=library,
            harness={key.removeprefix(HARNESS): value for key, value in values.items() if key.startswith(HARNESS)},
            intervals=with_partners(record.library, self.fitted.intervals),
            fit=record,
        )

    def _points(self, use: Use, errors: Floats, spreads: Floats | None = None) -> tuple[Point, ...]:
        """Return points made of log errors, without the points whose error is unknown; without `spreads`, points have
        no interval.
        """
        sds = np.full(len(errors), np.nan) if spreads is None else spreads
        return tuple(
            Residual(
                table=row.source,
                row=row,
                measured=row.seconds,
                prediction=around(row.seconds * math.exp(error), sd),
                use=use,
            )
            for row, error, sd in zip(self.problem.rows, errors.tolist(), sds.tolist(), strict=True)
            if not math.isnan(error)
        )

    def _place(self, place: Where, left: Iterable[Point]) -> LeftOutDevices:
        machine, devices = place
        unseen = self.cross_validation.fits[place].unseen
        return LeftOutDevices(
            machine=machine,
            devices=devices,
            far=error_summary(point for point in left if (point.row.machine, point.row.devices) == place),
            kept=tuple(key for key in unseen if key not in self.fitted.unseen),
        )

    def _lines(self) -> Iterator[ErrorLine]:
        record = self.record
        yield ErrorLine(by="fitted", far=record.fitted)
        if record.left_out is not None:
            yield ErrorLine(by="left out", far=record.left_out)
            large = [point for point in self.points if point.use == "left out" and _is_large(point.row)]
            if large:
                yield ErrorLine(by="left out", large=True, far=error_summary(large))
        yield ErrorLine(by="shipped", far=error_summary(self.shipped))
        if large := [point for point in self.shipped if _is_large(point.row)]:
            yield ErrorLine(by="shipped", large=True, far=error_summary(large))
        for one in record.places:
            yield ErrorLine(by="left out", machine=one.machine, devices=one.devices, far=one.far)


def error_summary(points: Iterable[Point], num_parameters: int = 0) -> ErrorSummary:
    """Return the errors of `points` (at least one) as a calibration file stores them. The `num_parameters` parameters
    that were fitted to these points reduce the degrees of freedom of the standard deviation.
    """
    errors = errors_of(points)
    assert errors is not None
    freedom = max(1, errors.count - num_parameters)
    return ErrorSummary(
        points=errors.count,
        mean_abs_error=errors.mean_abs,
        p90_abs_error=errors.p90_abs,
        worst_abs_error=abs(errors.worst.error or 0.0),
        residual_sd=errors.log_rms * math.sqrt(errors.count / freedom),
    )


def _num_nodes(row: CallRow) -> int:
    return groups_of(row.machine, row.devices).shape.num_nodes


def _is_large(row: CallRow) -> bool:
    """Return whether a row is of a message of 4 MiB and more among several nodes."""
    return row.num_bytes >= LARGE and _num_nodes(row) > 1
