"""The state of training that kernels of the loss and of the optimizer share."""

from __future__ import annotations

from dataclasses import dataclass, field

from simfrontier_real.ops.arrays import Array
from simfrontier_real.train.training_settings import Adam


@dataclass
class TrainingState:
    """The state of training that no buffer holds: settings, the number of the step, and the losses seen.

    `labels` are this rank's targets by micro-batch; `loss_scale` multiplies the loss and divides the gradients, so that
    16-bit gradients do not vanish. `gradients` and `norms` are what Adam got in the step: its shares of the gradients
    by (name, layer), before clipping, and the norms of all gradients that it read; `scales`: by how much LAMB
    multiplied its updates.
    """

    adam: Adam
    grad_accum: int
    loss_scale: float = 1.0
    step: int = 0  # of Adam, which does not count those that are skipped
    overflowed: bool = False
    num_skipped: int = 0
    labels: dict[int, Array] = field(default_factory=dict)
    losses: dict[int, Array] = field(default_factory=dict)
    gradients: dict[tuple[str, int], Array] = field(default_factory=dict)
    norms: set[float] = field(default_factory=set)
    scales: dict[tuple[str, int], float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)  # of a model's kernels: see `losses.LossTargets`

    def begin_step(self) -> None:
        """Set out on a step."""
        self.step += 1
        self.overflowed = False
        self.losses.clear()
        self.gradients.clear()
        self.norms.clear()
        self.scales.clear()

    def end_step(self) -> None:
        """The step has run: it does not count where a gradient overflowed."""
        if self.overflowed:
            self.step -= 1
            self.num_skipped += 1
