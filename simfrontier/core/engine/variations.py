"""Step times of a simulated step with ops of other prices: one pass over all variations, without a clock."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.cost import VariedPrices
from simfrontier.core.engine.durations import FactorsOf, ScaledDurations
from simfrontier.core.engine.step import SimulatedStep
from simfrontier.core.engine.step_path import StepPath

AT_ONCE: Final = 4096  # step times of a pass: with fewer, most of it is Python, with more, memory
# Relative errors against simulated steps where the library takes the same algorithms, of the 24 questions of
# tests/whatif.py in which 15 to 18 numbers differ at once.
REPLAY_MEAN_ERROR: Final = 0.008
REPLAY_LARGEST_ERROR: Final = 0.13


def varied_step_s(step: SimulatedStep, prices: VariedPrices, num: int) -> Floats:
    """Return the step times in seconds of the first `num` variations after the one that was simulated.

    An op that took d in the simulated step takes d times the ratio of its prices, so what ran beside it slows it by the
    same factor. The step is the longest path through all ops, in the recorded order of waiting.
    """
    rows = np.arange(1, num + 1)
    parts = [rows[first : first + AT_ONCE] for first in range(0, num, AT_ONCE)]
    each = [scaled_s(step, len(part), partial(prices.factor, part)) for part in parts]
    return np.concatenate(each)


def scaled_s(step: SimulatedStep, num_variations: int, factors_of: FactorsOf) -> Floats:
    """Step times in seconds [num_variations] when every op takes so many times as long as simulated."""
    return StepPath(ScaledDurations(step.pricing, step.roles, num_variations, factors_of)).step_s()
