"""Answers to what-ifs: step times replayed from one simulated step, and which of them a replay does not know."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats
from simfrontier.simulation import SimulatedStep, replayed_s
from simfrontier.whatif.prices import VariedPrices

AT_ONCE: Final = 4096  # step times of a pass: with fewer, most of it is Python, with more, memory
# Relative errors of answers for which the library takes the same algorithms, against simulated steps: those of the
# questions of `python -m tests.whatif`, in which 15 to 18 numbers differ at once (docs/speed.md).
MEAN_ERROR: Final = 0.008
LARGEST_ERROR: Final = 0.13


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Step times of variations.

    step_s     [num_variations] seconds
    is_unlike  [num_variations] whether the library takes another algorithm there than in the simulated step, so that
               other links are loaded: whoever needs that step time simulates it
    """

    step_s: Floats
    is_unlike: NDArray[np.bool_]


def answered(prices: VariedPrices, step: SimulatedStep, num: int) -> Answers:
    """Return the step times of the first `num` variations after the one as it is.

    An op that took d in the simulated step takes d times the ratio of its prices, so what ran beside it slows it by the
    same factor. The step is the longest path through all ops, in the recorded order of waiting.
    """
    rows = np.arange(1, num + 1)
    parts = [rows[first : first + AT_ONCE] for first in range(0, num, AT_ONCE)]
    each = [replayed_s([step], np.zeros(len(part), np.int64), partial(prices.factor, part)) for part in parts]
    return Answers(step_s=np.concatenate(each), is_unlike=prices.has_other_algorithm[rows])
