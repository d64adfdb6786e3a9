"""Fit of model parameters to published step times, linear in logarithms, and fits that leave runs out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from simfrontier.answers.accuracy.fit_rows import Mask
from simfrontier.answers.accuracy.least_squares import with_number
from simfrontier.answers.accuracy.published_runs.step import JobStep, TimedStep
from simfrontier.answers.accuracy.residual import covariance
from simfrontier.base.arrays import Floats
from simfrontier.base.io import Strict, Text, read_toml, typed

PARAMETERS: Final = Path(__file__).parent / "parameters.toml"


class Parameter(Strict):
    """One number of a machine or a library (dotted `key` of `JobStep`), shared by all jobs on these machines and stacks
    (None: all). Knowledge from sources other than step times: the value `prior` (of the first machine) with standard
    deviation `prior_sd` of its natural logarithm, and its `source`.
    """

    name: Text
    key: Text
    machines: tuple[str, ...] | None = None
    stacks: tuple[str, ...] | None = None
    prior: Annotated[float, Field(gt=0)]
    prior_sd: Annotated[float, Field(gt=0)]
    source: Text

    def applies(self, step: JobStep | TimedStep) -> bool:
        """Return whether the parameter applies to the job of a step."""
        file = step.job.scenario.file
        return (
            (self.machines is None or file.machine.name in self.machines)
            and (self.stacks is None or file.stack in self.stacks)
            and self.of(step) is not None
        )

    def values(self, steps: Iterable[JobStep | TimedStep]) -> list[float]:
        """Return the current values in the machines or libraries of the steps that it applies to, each once."""
        found = dict.fromkeys(self.of(step) for step in steps if self.applies(step))
        return [value for value in found if value is not None]

    def of(self, step: JobStep | TimedStep) -> float | None:
        """Return the current value of the parameter in the step's machine or library; None if they have
        no such number.
        """
        here: Any = step.job.scenario
        for name in self.key.split("."):
            here = here.get(name) if isinstance(here, Mapping) else getattr(here, name)
            if here is None:
                return None
        return float(here) or None


def step_s(step: JobStep, parameters: Sequence[Parameter], factors: Sequence[float]) -> float:
    """Return the step time in seconds with the parameters multiplied by these factors, where they apply to the step."""
    machine, library = step.machine, step.library
    for parameter, factor in zip(parameters, factors, strict=True):
        now = parameter.of(step) if factor != 1.0 and parameter.applies(step) else None
        if now is None:
            continue
        root, *path = parameter.key.split(".")
        if root == "library":
            library = with_number(library, path, now * factor)
        else:
            machine = with_number(machine, path, now * factor)
    return step.on(machine, None if library is step.library else library).step_s


class ParametersFile(Strict):
    """File of fitted parameters. `spread`: standard deviation of the natural logarithm of the step times of runs that
    state everything, in which errors are counted; how many of them an interval reaches is taken from left-out runs
    (`Calibration`).
    """

    spread: Annotated[float, Field(gt=0)]
    parameters: list[Parameter]


@cache
def load_parameters() -> ParametersFile:
    """Load the shipped file of fitted parameters. Raises InputError."""
    return typed(read_toml(PARAMETERS, "parameters"), ParametersFile, str(PARAMETERS))


STEP: Final = 1.05  # factor by which a number is moved to see what it does
NOISE: Final = 0.06  # of the logarithm of one published value
FAR: Final = 1.0  # deviations from which a residual counts linearly (Huber)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """Best fit to some runs: changes of the logarithms of the parameters ([parameters]) and their covariance
    ([parameters, parameters]), determined by the runs and the priors.
    """

    change: Floats
    covariance: Floats

    def of(self, moves: Floats) -> tuple[float, float]:
        """Return the change of the logarithm of a step time, given its derivatives `moves` with respect to the
        logarithms of the parameters, and the standard deviation of this change.
        """
        return float(moves @ self.change), math.sqrt(float(moves @ self.covariance @ moves))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivities:
    """Step times and their sensitivities: log(predicted / measured) of each step time (`off`: [runs]), its derivatives
    with respect to the logarithms of the parameters (`moves`: [runs, parameters]), and the distance of the logarithms
    of the parameters from their priors with the prior standard deviations (`from_prior`, `prior_sd`: [parameters]).
    """

    off: Floats
    moves: Floats
    from_prior: Floats
    prior_sd: Floats

    def without(self, left: Mask) -> Fit:
        """Fit the runs that are not `left` out, starting from the current parameters: least squares in which large
        residuals count linearly and the prior of each parameter counts as one more measurement.
        """
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
    """Sensitivity of one step time: log(predicted / measured) (`off`), its derivatives with respect to the logarithms
    of the parameters (`moves`: [parameters]), and the distance in logarithms of parameters from their priors, by
    parameter index (`from_prior`: only parameters whose prior is stated for the step's machine).
    """

    off: float
    moves: Floats
    from_prior: Mapping[int, float]


def moves_of(
    step: JobStep, measured_s: float, parameters: Sequence[Parameter], at: Sequence[float] | None = None
) -> StepMoves:
    """Return the sensitivity of a step time to the parameters. `measured_s`: published seconds of the step; `at`:
    factors on the parameters at which the sensitivity is computed (None: parameters as in their files).
    """
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
    """Combine the sensitivities of several steps."""
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
