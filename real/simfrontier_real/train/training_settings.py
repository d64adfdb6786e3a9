"""Training settings, the training state that kernels share, and the results of ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.states import Weights
from simfrontier_real.verify.arrivals import Calls
from simfrontier_real.verify.gradients import Digests, StepGradients

CLIP: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Settings of Adam, also for the Adam steps in LAMB, and the norm to which gradients are clipped (infinity: never).

    The default norm clips in no step of this repository's small models, so that clipping does not hide a wrong scale of
    the gradients (the norms are in docs/real.md).
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = CLIP


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """Settings of training: number of optimizer steps, seed of the weights, seed of the data (None: the same), settings
    of Adam, loss scale, and settings of an extra's model (None: its defaults)."""

    steps: int = 20
    seed: int = 0
    data: int | None = None
    adam: Adam = field(default_factory=Adam)
    loss_scale: float = 1.0
    of_model: object | None = None

    @property
    def data_seed(self) -> int:
        """Seed of the data."""
        return self.seed if self.data is None else self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """Starting point of training: the number of completed `steps`, the numbers (from 0) of those that were `skipped`
    because gradients overflowed, their mean `losses`, and the `counters` of the model's kernels; `restore` writes the
    states at this point into a rank's buffers. `loses` is the reason why these states, computed by another schedule,
    need not agree with the unsharded model (empty: they agree up to rounding)."""

    steps: int
    skipped: frozenset[int]
    losses: tuple[float, ...]
    restore: Callable[[RankContext], None]
    counters: Mapping[str, int] = field(default_factory=dict)
    loses: str = ""


BEGINNING: Final = StartingPoint(steps=0, skipped=frozenset(), losses=(), restore=lambda context: None)


@dataclass
class TrainingState:
    """Training state outside of buffers: settings, the number of the step, and the losses so far.

    `labels` are this rank's targets by depth of multi-token prediction (0: the next token) and micro-batch;
    `loss_scale` multiplies the loss and divides the gradients, so that 16-bit gradients do not underflow. `gradients`
    and `norms` are the inputs of Adam in the step: this rank's shards of the gradients by (name, layer), before
    clipping, and the norms of all gradients; `scales` are the factors by which LAMB multiplied its updates. `counters`
    are integers that a model's kernels keep between steps in addition to the states; they are equal on all ranks and
    saved in checkpoints.
    """

    adam: Adam
    grad_accum: int
    loss_scale: float = 1.0
    step: int = 0  # Adam's step number, without skipped steps
    overflowed: bool = False
    labels: dict[tuple[int, int], Array] = field(default_factory=dict)
    losses: dict[int, Array] = field(default_factory=dict)
    gradients: dict[tuple[str, int], Array] = field(default_factory=dict)
    norms: set[float] = field(default_factory=set)
    scales: dict[tuple[str, int], float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    def begin_step(self) -> None:
        """Begin a step."""
        self.step += 1
        self.overflowed = False
        self.losses.clear()
        self.gradients.clear()
        self.norms.clear()
        self.scales.clear()

    def end_step(self) -> None:
        """End the step; it does not count if a gradient overflowed."""
        if self.overflowed:
            self.step -= 1


@dataclass(frozen=True, slots=True)
class RankReport:
    """Report of one rank on its training: its part of every step's loss, the gradients that its optimizer received in
    every step, its flat buffers of the weights and states at the end, the messages that it sent and received in the
    collectives and exchanges of every step, the expected published weights of its masters, and the errors of encoded
    weights in every step."""

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
    """Mean loss of every step, and the whole weights and states at the end; `copy_difference` is the largest difference
    between copies on different ranks. For the unsharded model also the digests of every step's gradients before
    clipping, and the number of steps in which some gradient was clipped."""

    losses: tuple[float, ...]
    weights: Weights
    copy_difference: float = 0.0
    gradients: tuple[Digests, ...] = ()
    clipped_steps: int = 0
