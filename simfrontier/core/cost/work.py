"""What an op asks of a machine: a latency, and an amount that flows and loads links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LOCAL = "local"  # key of the pattern of ranks by themselves


@dataclass(frozen=True, slots=True)
class Flow:
    """How an activity class loads the link classes at speed 1, and the largest speed it has by itself.

    `reserved`: what it keeps of the link classes for as long as it runs, at any speed: the compute units of a
    collective's channels. It is taken before what is left is shared.
    """

    rows: NDArray[np.int64]
    load: NDArray[np.float64]
    reserved: NDArray[np.float64]
    cap: float


@dataclass(frozen=True, slots=True)
class OpWork:
    """One op on one activity class: latency in seconds, then `amount` at a speed of at most `alone`; `flow` is
    interned. While latency lasts the flow `starting`, which moves nothing, holds what `flow` holds; -1: nothing. Where
    something is dead that it needs, it stands still: its latency is endless."""

    latency_s: float
    amount: float
    alone: float
    flow: int
    starting: int = -1

    @property
    def alone_s(self) -> float:
        """Its time without contention."""
        return np.inf if self.stands_still else self.latency_s + (self.amount / self.alone if self.amount else 0.0)

    @property
    def stands_still(self) -> bool:
        """Whether it cannot go on before the machine is in another state."""
        return self.latency_s == np.inf


NO_WORK = OpWork(0.0, 0.0, 1.0, -1)
STILL = OpWork(np.inf, 0.0, 1.0, -1)  # a wait of a dead device


@dataclass(frozen=True, slots=True)
class PricedOp:
    """An op on every activity class of its pattern; on those of other roles there is no work."""

    pattern: str
    works: tuple[OpWork, ...]
