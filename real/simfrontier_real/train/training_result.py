"""Results of training: the report of each rank, and the losses and weights of the whole model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simfrontier_real.train.states import Weights
from simfrontier_real.verify.arrivals import Calls
from simfrontier_real.verify.gradients import Digests, StepGradients


@dataclass(frozen=True, slots=True)
class RankReport:
    """The report of one rank on its training: its part of every step's loss, what its optimizer was given in every
    step, its lines of the weights and states at the end, what it sent and got in the calls of every step, what
    publishing should make of its masters, and how far the codes of weights were from those in every step."""

    losses: tuple[float, ...]
    gradients: tuple[StepGradients, ...]
    states: dict[tuple[str, int], Any]
    calls: tuple[Calls, ...]
    published: dict[tuple[str, int], Any]
    code_errors: tuple[float, ...]

    @property
    def skipped(self) -> frozenset[int]:
        """The numbers, from 0, of the steps that were skipped because gradients overflowed."""
        return frozenset(number for number, step in enumerate(self.gradients) if step.was_skipped)


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The mean loss of every step, and the whole weights and states at the end, of which `copy_difference` is how far
    those are from each other that ranks should hold alike; of the unsharded model also the digests of every step's
    gradients before clipping, and in how many steps some gradient was clipped."""

    losses: tuple[float, ...]
    weights: Weights
    copy_difference: float = 0.0
    gradients: tuple[Digests, ...] = ()
    clipped_steps: int = 0
