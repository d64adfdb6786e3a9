"""How steps move with the fitted numbers, and fits that leave runs out, on the linear law of the logarithms."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.records import dataclass
from simfrontier.runs.forecast import Step
from simfrontier.runs.parameters import Parameter

STEP: Final = 1.05  # factor by which a number is moved to see what it does
NOISE: Final = 0.06  # of the logarithm of one published value
FAR: Final = 1.0  # deviations from which a residual counts linearly (Huber)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivities:
    """Logarithms of steps, predicted over measured (`off`: [runs]), how they move with those of the parameters
    (`moves`: [runs, parameters]), and where the parameters lie from what is known of them without steps (`from_prior`,
    `prior_sd`: [parameters])."""

    parameters: tuple[Parameter, ...]
    off: NDArray[np.float64]
    moves: NDArray[np.float64]
    from_prior: NDArray[np.float64]
    prior_sd: NDArray[np.float64]

    def fitted(self, rows: Collection[int]) -> NDArray[np.float64]:
        """Changes of the logarithms of the parameters that fit these runs best, from where they are: least squares
        with large residuals counted linearly, and what is known of them as one more measurement each."""
        kept = sorted(rows)
        moves, off = self.moves[kept], self.off[kept]
        change = np.zeros(len(self.parameters))
        for _ in range(20):
            left = off + moves @ change
            weight = np.minimum(1.0, FAR * NOISE / np.maximum(np.abs(left), 1e-12)) / NOISE**2
            normal = moves.T @ (moves * weight[:, None]) + np.diag(self.prior_sd**-2.0)
            right = -moves.T @ (weight * off) - self.from_prior / self.prior_sd**2
            new = np.linalg.solve(normal, right)
            if np.abs(new - change).max(initial=0.0) < 1e-6:
                return new
            change = new
        return change


def sensitivities(steps: Sequence[Step], measured_s: Sequence[float], parameters: Sequence[Parameter]) -> Sensitivities:
    """How these steps move with these parameters; `measured_s`: seconds of each, as published."""
    moves = np.zeros((len(steps), len(parameters)))
    off = np.zeros(len(steps))
    start = np.zeros(len(parameters))
    for row, (step, seconds) in enumerate(zip(steps, measured_s, strict=True)):
        own = step.estimate.step_s
        off[row] = math.log(own / seconds)
        for column, parameter in enumerate(parameters):
            if not parameter.applies(step):
                continue
            now = parameter.of(step.machine)
            assert now is not None
            start[column] = math.log(now / parameter.prior)
            moved = step.on(parameter.times(step.machine, STEP)).step_s
            moves[row, column] = math.log(moved / own) / math.log(STEP)
    prior_sd = np.array([each.prior_sd for each in parameters])
    return Sensitivities(
        parameters=tuple(parameters), off=off, moves=moves, from_prior=start, prior_sd=prior_sd
    )
