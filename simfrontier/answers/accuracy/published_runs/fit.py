"""Linear law of the logarithms of steps in the fitted numbers, and fits that leave runs out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simfrontier.answers.accuracy.leave_out import Mask
from simfrontier.answers.accuracy.published_runs.parameters import Parameter, step_s
from simfrontier.answers.accuracy.published_runs.step import JobStep
from simfrontier.answers.accuracy.uncertainty import covariance
from simfrontier.base.arrays import Floats

STEP: Final = 1.05  # factor by which a number is moved to see what it does
NOISE: Final = 0.06  # of the logarithm of one published value
FAR: Final = 1.0  # deviations from which a residual counts linearly (Huber)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """Best fit to some runs: changes of the logarithms of the parameters ([parameters]), and the covariance of these
    ([parameters, parameters]), as sure as the runs and what is known without them make them."""

    change: Floats
    covariance: Floats

    def of(self, moves: Floats) -> tuple[float, float]:
        """Change of the logarithm of a step that moves so with the parameters, and its standard deviation."""
        return float(moves @ self.change), math.sqrt(float(moves @ self.covariance @ moves))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivities:
    """Logarithms of steps, predicted over measured (`off`: [runs]), how they move with those of the parameters
    (`moves`: [runs, parameters]), and where the parameters lie from what is known of them without steps (`from_prior`,
    `prior_sd`: [parameters])."""

    off: Floats
    moves: Floats
    from_prior: Floats
    prior_sd: Floats

    def without(self, left: Mask) -> Fit:
        """Fit the other runs, from where the parameters are: least squares with large residuals counted
        linearly, and what is known of the parameters as one more measurement each."""
        moves, off = self.moves[~left], self.off[~left]
        change: Floats = np.zeros(len(self.prior_sd))
        for _ in range(20):
            apart = off + moves @ change
            weight = np.minimum(1.0, FAR * NOISE / np.maximum(np.abs(apart), 1e-12)) / NOISE**2
            normal = moves.T @ (moves * weight[:, None]) + np.diag(self.prior_sd**-2.0)
            right = -moves.T @ (weight * off) - self.from_prior / self.prior_sd**2
            before, change = change, np.asarray(np.linalg.solve(normal, right), np.float64)
            if np.abs(change - before).max(initial=0.0) < 1e-6:
                break
        return Fit(change=change, covariance=covariance(moves, weight, self.prior_sd))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepMoves:
    """Logarithm of the time of one step, predicted over measured (`off`), how it moves with those of the parameters
    (`moves`: [parameters]), and how far parameters, by their place, are from their priors (`from_prior`: those of which
    the step's machine says the prior)."""

    off: float
    moves: Floats
    from_prior: Mapping[int, float]


def moves_of(
    step: JobStep, measured_s: float, parameters: Sequence[Parameter], at: Sequence[float] | None = None
) -> StepMoves:
    """Return how a step moves with these parameters; `measured_s`: its seconds, as published; `at`: with the parameters
    times these factors (None: as their files say)."""
    here = [1.0] * len(parameters) if at is None else list(at)
    moves = np.zeros(len(parameters))
    from_prior: dict[int, float] = {}
    own = step_s(step, parameters, here)
    for column, parameter in enumerate(parameters):
        if not parameter.applies(step):
            continue
        if parameter.machines is None or step.machine.name == parameter.machines[0]:
            now = parameter.of(step)
            assert now is not None
            from_prior[column] = math.log(now * here[column] / parameter.prior)
        other = [factor * (STEP if place == column else 1.0) for place, factor in enumerate(here)]
        moves[column] = math.log(step_s(step, parameters, other) / own) / math.log(STEP)
    return StepMoves(off=math.log(own / measured_s), moves=moves, from_prior=from_prior)


def sensitivities(steps: Sequence[StepMoves], parameters: Sequence[Parameter]) -> Sensitivities:
    """Return how these steps move with these parameters."""
    start = np.zeros(len(parameters))
    for step in steps:
        for column, known in step.from_prior.items():
            start[column] = known
    return Sensitivities(
        off=np.array([step.off for step in steps]),
        moves=np.array([step.moves for step in steps]).reshape(len(steps), len(parameters)),
        from_prior=start,
        prior_sd=np.array([each.prior_sd for each in parameters]),
    )
