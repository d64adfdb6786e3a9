"""How steps move with the fitted numbers, and fits that leave runs out, on the linear law of the logarithms."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.accuracy.published_runs.parameters import Parameter, step_s
from simfrontier.accuracy.published_runs.step import Step
from simfrontier.records import dataclass

STEP: Final = 1.05  # factor by which a number is moved to see what it does
NOISE: Final = 0.06  # of the logarithm of one published value
ROUNDS: Final = 8  # of a fit
LEAST: Final = 1e-3  # by which the logarithm of a parameter moves at least
MOST: Final = 0.4  # by which the logarithm of a parameter moves in one of them
FAR: Final = 1.0  # deviations from which a residual counts linearly (Huber)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """What fits some runs best: changes of the logarithms of the parameters ([parameters]), and the covariance of these
    ([parameters, parameters]), as sure as the runs and what is known without them make them."""

    change: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def of(self, moves: NDArray[np.float64]) -> tuple[float, float]:
        """By how much the logarithm of a step changes that moves so with the parameters, and its standard deviation."""
        return float(moves @ self.change), math.sqrt(float(moves @ self.covariance @ moves))


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

    def cost(self, off: NDArray[np.float64], change: NDArray[np.float64]) -> float:
        """What a fit makes as small as it can: of runs that lie so far off, with parameters changed so far."""
        apart = np.abs(off) / NOISE
        runs = np.where(apart <= FAR, apart**2 / 2.0, FAR * (apart - FAR / 2.0))
        return float(runs.sum() + (((self.from_prior + change) / self.prior_sd) ** 2).sum() / 2.0)

    def fitted(self, rows: Collection[int]) -> Fit:
        """What fits these runs best, from where the parameters are: least squares with large residuals counted
        linearly, and what is known of the parameters as one more measurement each."""
        kept = sorted(rows)
        moves, off = self.moves[kept], self.off[kept]
        change: NDArray[np.float64] = np.zeros(len(self.parameters))
        for _ in range(20):
            left = off + moves @ change
            weight = np.minimum(1.0, FAR * NOISE / np.maximum(np.abs(left), 1e-12)) / NOISE**2
            normal = moves.T @ (moves * weight[:, None]) + np.diag(self.prior_sd**-2.0)
            right = -moves.T @ (weight * off) - self.from_prior / self.prior_sd**2
            before, change = change, np.asarray(np.linalg.solve(normal, right), np.float64)
            if np.abs(change - before).max(initial=0.0) < 1e-6:
                break
        return Fit(change=change, covariance=np.asarray(np.linalg.inv(normal), np.float64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepMoves:
    """Of one step the logarithm of its time, predicted over measured (`off`), how that moves with those of the
    parameters (`moves`: [parameters]), and how far parameters, by their place, are from their priors (`from_prior`:
    those of which the step's machine says the prior)."""

    off: float
    moves: NDArray[np.float64]
    from_prior: Mapping[int, float]


def moves_of(
    step: Step, measured_s: float, parameters: Sequence[Parameter], at: Sequence[float] | None = None
) -> StepMoves:
    """How a step moves with these parameters; `measured_s`: its seconds, as published; `at`: with the parameters times
    these factors (None: as their files say)."""
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
    """How these steps move with these parameters."""
    start = np.zeros(len(parameters))
    for step in steps:
        for column, known in step.from_prior.items():
            start[column] = known
    return Sensitivities(
        parameters=tuple(parameters),
        off=np.array([step.off for step in steps]),
        moves=np.array([step.moves for step in steps]).reshape(len(steps), len(parameters)),
        from_prior=start,
        prior_sd=np.array([each.prior_sd for each in parameters]),
    )


def refitted(steps: Sequence[Step], measured_s: Sequence[float], parameters: Sequence[Parameter]) -> list[float]:
    """Factors on the parameters that fit all of these runs best (Gauss-Newton, with steps that are halved until the
    fit gets better)."""
    at = np.zeros(len(parameters))
    for _ in range(ROUNDS):
        here = np.exp(at).tolist()
        each = zip(steps, measured_s, strict=True)
        law = sensitivities([moves_of(step, seconds, parameters, here) for step, seconds in each], parameters)
        change = np.clip(law.fitted(range(len(steps))).change, -MOST, MOST)
        best = law.cost(law.off, np.zeros(len(at)))
        while np.abs(change).max() > LEAST:
            here = np.exp(at + change).tolist()
            each = zip(steps, measured_s, strict=True)
            off = np.array([math.log(step_s(step, parameters, here) / seconds) for step, seconds in each])
            if law.cost(off, change) < best:
                break
            change = change / 2.0
        else:
            break
        at = at + change
    return [math.exp(each) for each in at.tolist()]
