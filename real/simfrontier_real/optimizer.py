"""Training's settings and state, and the gradient's norm, as the schedule's ops ask for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from simfrontier.schedule import Compute
from simfrontier_real.arrays import Array
from simfrontier_real.losses import CrossEntropy
from simfrontier_real.models import RealModel
from simfrontier_real.op_runner import Kernel
from simfrontier_real.rank_context import RankContext
from simfrontier_real.weight_steps import WeightSteps

CLIP: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Adam's settings, also of the steps that LAMB scales, and the norm to which gradients are clipped (infinity:
    never).

    The default clip binds on no step of the small models of this repository, so that a wrong scale of the gradients is
    not hidden by it (docs/real.md has their norms).
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = CLIP


@dataclass
class Trainer:
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

    def kernels(self) -> dict[str, Kernel]:
        return {**CrossEntropy(self).kernels(), "norm2": self._norm2, **WeightSteps(self).kernels()}

    def _norm2(self, context: RankContext, index: int, op: Compute) -> None:
        """The sum of squares of this rank's share of the gradients, and whether one is not finite.

        What several ranks hold alike is counted by the first of them: the sum over all ranks is the norm's square.
        """
        xp = context.backend.xp
        reads, _, added = context.operands(index)
        totals = {ref.name: ref for ref in added}
        counted = context.schedule.tensors[added[0].name].placement.partial_axes - {context.roles_axis}
        for ref in reads:
            placement = context.schedule.tensors[ref.name].placement
            if not context.is_first(counted - placement.flat - {axis for axis, _ in placement.shards}):
                continue
            values = context.backend.wide(context.buffers[ref]) / self.loss_scale
            for name, value in (
                ("gradient_norm", xp.sum(values * values)),
                ("overflow", xp.sum(xp.astype(~xp.isfinite(values), values.dtype))),
            ):
                ref_to = totals[name]
                dtype = context.schedule.tensors[name].dtype
                context.add(ref_to, context.backend.cast(xp.reshape(value, (1,)), dtype))
        for ref in added:
            if ref not in context.buffers:
                context.buffers[ref] = context.backend.zeros((1,), context.schedule.tensors[ref.name].dtype)


def all_kernels(trainer: Trainer, model: RealModel | None, settings: object | None) -> dict[str, Kernel]:
    """Every kind of op that training needs; `model`: an extra's, with its own settings."""
    from simfrontier_real.kernels import MODEL_KERNELS
    from simfrontier_real.local import LOCAL_KERNELS

    own = {} if model is None else model.kernels(trainer, settings)
    return {**LOCAL_KERNELS, **MODEL_KERNELS, **trainer.kernels(), **own}
