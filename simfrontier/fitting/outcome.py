"""What a fit comes to: errors fitted and left out, and the calibration file that carries them with the numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfrontier.collectives import Calibration
from simfrontier.collectives.calibration import HARNESS, RESIDUAL
from simfrontier.collectives.fit_record import Far, FitRecord, Place
from simfrontier.fitting.cross import Crossed, Where
from simfrontier.fitting.data import Chosen
from simfrontier.fitting.fit import Fitted, Floats, Problem
from simfrontier.fitting.parameters import free_parameters
from simfrontier.units import unit_of
from simfrontier.validation.calls import NORMAL_90


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

    chosen: Chosen
    problem: Problem
    fitted: Fitted
    crossed: Crossed

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
        known = self.crossed.errors[~np.isnan(self.crossed.errors)]
        return float((np.abs(known) <= NORMAL_90 * self.record().model_sd).mean()) if len(known) else None

    def record(self) -> FitRecord:
        """How well the fit holds, as a calibration file says it."""
        known = ~np.isnan(self.crossed.errors)
        return FitRecord(
            library=self.chosen.library,
            machines=self.chosen.machines,
            parameters=self.fitted.num_parameters,
            fitted=far_of(self.fitted.errors, self.fitted.num_parameters),
            left_out=far_of(self.crossed.errors[known]) if known.any() else None,
            places=tuple(map(self._place, sorted(self.crossed.fits))),
            unseen=self.fitted.unseen,
        )

    def calibration(self, title: str, where: str, when: str, how: str) -> Calibration:
        """The calibration with the fitted numbers, their intervals, and how well they hold."""
        values, record = self.fitted.values, self.record()
        library = {key: value for key, value in values.items() if not key.startswith(HARNESS)}
        if self.problem.library.residual is not None:
            library[RESIDUAL] = record.model_sd
        return Calibration(
            title=title,
            where=where,
            when=when,
            how=how,
            library=library,
            harness={key.removeprefix(HARNESS): value for key, value in values.items() if key.startswith(HARNESS)},
            intervals=self.fitted.intervals,
            fit=record,
        )

    def _place(self, place: Where) -> Place:
        machine, devices = place
        here = np.array([(row.machine, row.devices) == place for row in self.problem.rows])
        unseen = self.crossed.fits[place].unseen
        return Place(
            machine=machine,
            devices=devices,
            far=far_of(self.crossed.errors[here]),
            kept=tuple(key for key in unseen if key not in self.fitted.unseen),
        )


def far_of(errors: Floats, num_parameters: int = 0) -> Far:
    """What log errors come to; `num_parameters` that were fitted to these points take freedom from their spread."""
    apart = np.abs(np.expm1(errors))
    freedom = max(1, len(errors) - num_parameters)
    return Far(
        points=len(errors),
        mean_abs_error=float(apart.mean()),
        p90_abs_error=float(np.quantile(apart, 0.9)),
        worst_abs_error=float(apart.max()),
        residual_sd=float(np.sqrt((errors**2).sum() / freedom)),
    )
