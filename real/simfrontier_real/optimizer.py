"""The loss, the gradient's norm and Adam, as the schedule's ops ask for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from simfrontier.schedule.ir import Compute, Ref
from simfrontier_real.arrays import Array
from simfrontier_real.blocks import first_index
from simfrontier_real.operands import Operands
from simfrontier_real.site import Site
from simfrontier_real.work import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Adam's settings, and the norm to which gradients are clipped (infinity: never)."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 1.0


@dataclass
class Trainer:
    """The state of training that no buffer holds: settings, the number of the step, and the losses seen.

    `labels` are this rank's targets by micro-batch; `loss_scale` multiplies the loss and divides the gradients, so that
    16-bit gradients do not vanish.
    """

    adam: Adam
    grad_accum: int
    loss_scale: float = 1.0
    step: int = 0  # of Adam, which does not count those that are skipped
    overflowed: bool = False
    num_skipped: int = 0
    labels: dict[int, Array] = field(default_factory=dict)
    losses: dict[int, Array] = field(default_factory=dict)

    def begin_step(self) -> None:
        """Set out on a step."""
        self.step += 1
        self.overflowed = False
        self.losses.clear()

    def end_step(self) -> None:
        """The step has run: it does not count where a gradient overflowed."""
        if self.overflowed:
            self.step -= 1
            self.num_skipped += 1

    def kernels(self) -> dict[str, Kernel]:
        losses = {"loss": self._loss, "loss_max": self._loss_max, "loss_sums": self._loss_sums}
        return {**losses, "norm2": self._norm2, "adam": self._adam}

    def _loss(self, site: Site, index: int, op: Compute) -> None:
        """Cross-entropy, averaged over all samples and positions of the step; writes its gradient.

        Where the classes are cut, the largest logit and the sums over all classes are read.
        """
        operands = Operands(site, index, op)
        xp, (logits, *sums) = operands.xp, [value for _, value in operands.activations()]
        micro = site.program.reads[index][0].micro
        count = math.prod(size for _, size in op.iteration[:-1]) * self.grad_accum  # the last label is the class
        top = sums[0][..., None] if sums else xp.max(logits, axis=-1, keepdims=True)
        shifted, hit = logits - top, self._hit(operands, logits)
        if sums:
            total, own = sums[1][..., :1], xp.sum(sums[1][..., 1])
        else:
            total, own = xp.sum(xp.exp(shifted), axis=-1, keepdims=True), xp.sum(shifted * hit)
        if self._counts(operands):
            # -log softmax as log of the sum less the logit: finite also where the probability is too small for a number
            self.losses[micro] = (xp.sum(xp.log(total)) - own) / count
        operands.put((xp.exp(shifted) / total - hit) * (self.loss_scale / count))

    def _loss_max(self, site: Site, index: int, op: Compute) -> None:
        """The largest logit among this rank's classes."""
        operands = Operands(site, index, op)
        operands.put(operands.xp.max(operands.one(), axis=-1))

    def _loss_sums(self, site: Site, index: int, op: Compute) -> None:
        """Over this rank's classes: the sum of exponentials, and the label's own logit where it is among them."""
        operands = Operands(site, index, op)
        xp, ((_, logits), (_, top)) = operands.xp, operands.activations()
        shifted = logits - top[..., None]
        parts = xp.exp(shifted), shifted * self._hit(operands, logits)
        operands.put(xp.stack([xp.sum(part, axis=-1) for part in parts], axis=-1))

    def _hit(self, operands: Operands, logits: Array) -> Array:
        """1 at the class of each position's label, if it is this rank's; else 0."""
        site, ref = operands.site, operands.site.program.reads[operands.index][0]
        tensor = site.schedule.tensors[ref.name]
        first = first_index(tensor, tensor.dims[-1], site.schedule.mesh, site.at)
        classes = operands.xp.arange(first, first + logits.shape[-1], device=site.backend.device)
        return operands.xp.astype(classes == self.labels[ref.micro][..., None], logits.dtype)

    def _counts(self, operands: Operands) -> bool:
        """Whether this rank says the loss of its samples: of ranks that have the same samples the first does."""
        site, rows = operands.site, operands.cuts(label for label, _ in operands.op.iteration[:-1])
        return site.is_first(axis for axis in site.schedule.mesh.names if axis not in (*rows, site.roles_axis))

    def _norm2(self, site: Site, index: int, op: Compute) -> None:
        """The sum of squares of this rank's share of the gradients, and whether one is not finite.

        What several ranks hold alike is counted by the first of them: the sum over all ranks is the norm's square.
        """
        xp = site.backend.xp
        reads, _, added = site.operands(index)
        totals = {ref.name: ref for ref in added}
        counted = site.schedule.tensors[added[0].name].placement.partial_axes - {site.roles_axis}
        for ref in reads:
            placement = site.schedule.tensors[ref.name].placement
            if not site.is_first(counted - placement.flat - {axis for axis, _ in placement.shards}):
                continue
            values = site.backend.wide(site.buffers[ref]) / self.loss_scale
            for name, value in (
                ("gradient_norm", xp.sum(values * values)),
                ("overflow", xp.sum(xp.astype(~xp.isfinite(values), values.dtype))),
            ):
                ref_to = totals[name]
                dtype = site.schedule.tensors[name].dtype
                site.add(ref_to, site.backend.cast(xp.reshape(value, (1,)), dtype))
        for ref in added:
            if ref not in site.buffers:
                site.buffers[ref] = site.backend.zeros((1,), site.schedule.tensors[ref.name].dtype)

    def _adam(self, site: Site, index: int, op: Compute) -> None:
        """One step of Adam on this rank's share; skipped where a gradient overflowed."""
        reads, writes, _ = site.operands(index)
        held = {ref.name: ref for ref in reads}
        overflow = float(site.buffers[held["overflow.total"]][0]) > 0
        self.overflowed |= overflow
        norm = math.sqrt(max(float(site.buffers[held["gradient_norm.total"]][0]), 0.0))
        factor = min(1.0, self.adam.clip / norm) if norm > 0 and math.isfinite(norm) else 1.0
        new = {ref.name: ref for ref in writes}
        for name in [n.removesuffix(".moments") for n in new if n.endswith(".moments")]:
            self._update(site, name, held, new, factor, overflow)

    def _update(
        self, site: Site, name: str, held: dict[str, Ref], new: dict[str, Ref], factor: float, overflow: bool
    ) -> None:
        xp, buffers, adam = site.backend.xp, site.buffers, self.adam
        moments, master = buffers[held[f"{name}.moments"]], buffers[held[f"{name}.master"]]
        if not overflow:
            ref = held[f"{name}.grad.reduced"] if f"{name}.grad.reduced" in held else held[f"{name}.grad"]
            gradient = xp.astype(buffers[ref], master.dtype) * (factor / self.loss_scale)
            first = adam.beta1 * moments[0] + (1 - adam.beta1) * gradient
            second = adam.beta2 * moments[1] + (1 - adam.beta2) * gradient * gradient
            moments = xp.stack([first, second])
            ahead = first / (1 - adam.beta1**self.step)
            spread = xp.sqrt(second / (1 - adam.beta2**self.step)) + adam.epsilon
            master = master - adam.learning_rate * ahead / spread
        buffers[new[f"{name}.moments"]], buffers[new[f"{name}.master"]] = moments, master
        target = new.get(f"{name}.new") or new[name]
        buffers[target] = site.backend.cast(master, site.schedule.tensors[target.name].dtype)


def all_kernels(trainer: Trainer) -> dict[str, Kernel]:
    """Every kind of op that training needs."""
    from simfrontier_real.kernels import MODEL_KERNELS
    from simfrontier_real.local import LOCAL_KERNELS

    return {**LOCAL_KERNELS, **MODEL_KERNELS, **trainer.kernels()}
