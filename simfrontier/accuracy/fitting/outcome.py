"""The outcome of a fit: errors of fitted and of left-out points, and the calibration file with them and the numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simfrontier.accuracy.fitting.cross import CrossValidation, Where
from simfrontier.accuracy.fitting.least_squares import FitProblem, FitResult
from simfrontier.accuracy.fitting.parameters import free_parameters, with_partners
from simfrontier.accuracy.fitting.rows import FitRows
from simfrontier.accuracy.predictors.calls import KINDS
from simfrontier.analysis import NORMAL_90
from simfrontier.arrays import Floats
from simfrontier.collectives import HARNESS, RESIDUAL, Calibration, ErrorSummary, FitRecord, LeftOutDevices
from simfrontier.records import dataclass
from simfrontier.units import unit_of

LARGE = 4 * 2**20  # bytes of messages that the errors of large ones are of


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A free parameter: its value by the fit with its 90 % interval, None where no point shows it; and its value in the
    library's (or the harnesses') file."""

    key: str
    unit: str
    file_value: float
    value: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class FitOutcome:
    """The rows chosen, the fit to all of them, and the fits without each device count."""

    chosen: FitRows
    problem: FitProblem
    fitted: FitResult
    cross_validation: CrossValidation

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every free parameter, those that no point shows last."""
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
    def covered(self) -> float | None:
        """Part of the points left out that lie in the 90 % interval of the spread that the calibration says; None
        where none is left out."""
        known, spread = self.cross_validation.errors[self.was_left_out], self.spreads[self.was_left_out]
        return float((np.abs(known) <= NORMAL_90 * spread).mean()) if len(known) else None

    @property
    def model_sd(self) -> float:
        """The spread to reckon with: the fit's where points were left out, and no less than the library's file says, as
        few points of one kind do not show how far off others are."""
        record, residual = self.record(), self.problem.library.residual
        if residual is None:
            return record.model_sd
        return residual.model_sd if record.left_out is None else max(record.model_sd, residual.model_sd)

    @property
    def spreads(self) -> Floats:
        """The spread of every point under the calibration: `model_sd`, but for small messages and some kinds of calls
        what the library's file says."""
        residual = self.problem.library.residual
        if residual is None:
            return np.full(len(self.problem.rows), self.model_sd)
        changed = replace(residual, model_sd=self.model_sd)
        points = zip(self.problem.rows, self.problem.groups, strict=True)
        return np.array(
            [changed.sd(KINDS[row.collective], row.num_bytes, groups.shape.num_nodes) for row, groups in points]
        )

    @property
    def was_left_out(self) -> NDArray[np.bool_]:
        """Which points a fit without their number of devices predicts."""
        return ~np.isnan(self.cross_validation.errors)

    @property
    def is_large(self) -> NDArray[np.bool_]:
        """Which points are of messages of 4 MiB and more among several nodes."""
        points = zip(self.problem.rows, self.problem.groups, strict=True)
        return np.array([row.num_bytes >= LARGE and groups.shape.num_nodes > 1 for row, groups in points], dtype=bool)

    @cached_property
    def shipped_errors(self) -> Floats:
        """Log errors of every point by the library's file as it is."""
        return self.problem.log_errors({})

    @property
    def is_worse(self) -> bool:
        """Whether points are farther off where the fit had not seen them than they are by the library's file."""
        left = self.was_left_out
        if not left.any():
            return False
        return (
            far_of(self.cross_validation.errors[left]).mean_abs_error > far_of(self.shipped_errors[left]).mean_abs_error
        )

    def record(self) -> FitRecord:
        """How well the fit holds, as a calibration file says it."""
        known = self.was_left_out
        return FitRecord(
            library=self.chosen.library,
            machines=self.chosen.machines,
            parameters=self.fitted.num_parameters,
            fitted=far_of(self.fitted.errors, self.fitted.num_parameters),
            left_out=far_of(self.cross_validation.errors[known]) if known.any() else None,
            places=tuple(map(self._place, sorted(self.cross_validation.fits))),
            unseen=self.fitted.unseen,
        )

    def calibration(self, title: str, where: str, when: str, how: str) -> Calibration:
        """The calibration with the fitted numbers, their intervals, and how well they hold."""
        values, record = self.fitted.values, self.record()
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

    def _place(self, place: Where) -> LeftOutDevices:
        machine, devices = place
        here = np.array([(row.machine, row.devices) == place for row in self.problem.rows])
        unseen = self.cross_validation.fits[place].unseen
        return LeftOutDevices(
            machine=machine,
            devices=devices,
            far=far_of(self.cross_validation.errors[here]),
            kept=tuple(key for key in unseen if key not in self.fitted.unseen),
        )


def far_of(errors: Floats, num_parameters: int = 0) -> ErrorSummary:
    """What log errors come to; `num_parameters` that were fitted to these points take freedom from their spread."""
    apart = np.abs(np.expm1(errors))
    freedom = max(1, len(errors) - num_parameters)
    return ErrorSummary(
        points=len(errors),
        mean_abs_error=float(apart.mean()),
        p90_abs_error=float(np.quantile(apart, 0.9)),
        worst_abs_error=float(apart.max()),
        residual_sd=float(np.sqrt((errors**2).sum() / freedom)),
    )
