"""Fits the numbers of `accuracy/published_runs/parameters.toml` to all shipped runs; prints what files are to say."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from simfrontier.answers.accuracy import load_parameters, shipped_runs
from simfrontier.answers.accuracy.published_runs.fit import (
    FAR,
    NOISE,
    Parameter,
    Sensitivities,
    moves_of,
    sensitivities,
    step_s,
)
from simfrontier.answers.accuracy.published_runs.step import JobStep, model_kind_of, step_of
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError

ROUNDS: Final = 8  # of a fit
LEAST: Final = 1e-3  # by which the logarithm of a parameter moves at least
MOST: Final = 0.4  # by which the logarithm of a parameter moves in one of them


def shipped_steps() -> list[JobStep]:
    """The steps of all shipped runs that have one and to which numbers are fitted."""
    steps = []
    for run in shipped_runs():
        with suppress(InputError):
            steps.append(step_of(run))
    return [step for step in steps if model_kind_of(step.case.shape) == "dense"]


def refitted(steps: Sequence[JobStep], measured_s: Sequence[float], parameters: Sequence[Parameter]) -> list[float]:
    """Factors on the parameters that fit all of these runs best (Gauss-Newton, with steps that are halved until the
    fit gets better)."""
    at = np.zeros(len(parameters))
    for _ in range(ROUNDS):
        here = np.exp(at).tolist()
        each = zip(steps, measured_s, strict=True)
        law = sensitivities([moves_of(step, seconds, parameters, here) for step, seconds in each], parameters)
        change = np.clip(law.without(np.zeros(len(steps), bool)).change, -MOST, MOST)
        best = cost(law, law.off, np.zeros(len(at)))
        while np.abs(change).max() > LEAST:
            here = np.exp(at + change).tolist()
            each = zip(steps, measured_s, strict=True)
            off = np.array([math.log(step_s(step, parameters, here) / seconds) for step, seconds in each])
            if cost(law, off, change) < best:
                break
            change = change / 2.0
        else:
            break
        at = at + change
    return [math.exp(each) for each in at.tolist()]


def cost(law: Sensitivities, off: Floats, change: Floats) -> float:
    """What a fit makes as small as it can: of runs that lie so far off, with parameters changed so far."""
    apart = np.abs(off) / NOISE
    runs = np.where(apart <= FAR, apart**2 / 2.0, FAR * (apart - FAR / 2.0))
    return float(runs.sum() + (((law.from_prior + change) / law.prior_sd) ** 2).sum() / 2.0)


def main() -> None:
    steps = shipped_steps()
    parameters = load_parameters().parameters
    factors = refitted(steps, [step.timed.measured_s for step in steps], parameters)
    for parameter, factor in zip(parameters, factors, strict=True):
        then = ", ".join(f"{now:.4g} → {now * factor:.4g}" for now in parameter.values(steps))
        sys.stdout.write(f"{parameter.name} ({parameter.key}): {then}\n")


if __name__ == "__main__":
    main()
