"""The result of simulating one step: when every op ran on every rank class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When every op ran on every rank class, in seconds: when the rank was ready for it, when all of its group were and
    it started, when it ended. Arrays [num_rank_classes, num_ops]."""

    ready: NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    num_solves: int

    @property
    def step_s(self) -> float:
        """The end of the last op on the slowest rank."""
        return float(self.end.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallTimes:
    """When the ops of one call ran on one rank class, in seconds from some instant; arrays [num_ops of the call]."""

    ready: NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
