"""Optimizer kernels on a rank's shard of the states, for the optimizer ops of a schedule: gradient norm, Adam, LAMB."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from simfrontier.core.program import Ref, TensorRole
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.operands import Kernel, Operands
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.training_settings import TrainingState

OTHER: Final = "other"  # the gradient that an op reads, or the new weight that it writes
_OTHERS: Final[frozenset[TensorRole]] = frozenset({"accumulator", "gradient", "weight"})
_OfWeight = dict[str, Ref]  # what an op reads, or writes, of one weight, by role


@dataclass
class Optimizer:
    """Kernels of the optimizer ops; the gradients and norms that they read are recorded in the training state."""

    training_state: TrainingState
    _held: dict[str, Ref] = field(default_factory=dict)  # what the op at hand reads, by name
    _skips: bool = False

    def kernels(self) -> dict[str, Kernel]:
        return {"norm2": self._norm2, "adam": self._adam, "lamb_update": self._lamb_update, "lamb": self._lamb}

    def _norm2(self, operands: Operands) -> None:
        """Compute the sum of squares of this rank's shard of the gradients, and whether any gradient is non-finite.

        Only the first of several ranks with equal shards counts them, so that the sum over all ranks is the square of
        the norm.
        """
        context, xp = operands.context, operands.xp
        reads, _, added = operands.refs
        totals = {ref.name: ref for ref in added}
        counted = context.schedule.tensors[added[0].name].placement.partial_axes - {context.roles_axis}
        for ref in reads:
            placement = context.schedule.tensors[ref.name].placement
            if not context.is_first(counted - placement.flat - {axis for axis, _ in placement.shards}):
                continue
            values = context.backend.wide(context.buffers[ref]) / self.training_state.loss_scale
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

    def _adam(self, operands: Operands) -> None:
        """Compute one Adam step on this rank's shard; the step is skipped if a gradient overflowed."""
        context = operands.context
        for weight, read, new in self._begun(operands):
            self._renew(context, read, new, self._adam_step(context, weight, read, new))

    def _lamb_update(self, operands: Operands) -> None:
        """Compute LAMB's Adam step before scaling. It is stored as the update of each weight, with this rank's partial
        sums of the squared norms of the master weight and of the update."""
        context, xp, backend = operands.context, operands.xp, operands.backend
        buffers, tensors = context.buffers, context.schedule.tensors
        for weight, read, new in self._begun(operands):
            master, step = backend.wide(buffers[read["master"]]), self._adam_step(context, weight, read, new)
            buffers[new["update"]] = backend.cast(step, tensors[new["update"].name].dtype)
            squares = xp.stack([xp.sum(master * master), xp.sum(step * step)])
            buffers[new["norms"]] = backend.cast(squares, tensors[new["norms"].name].dtype)

    def _lamb(self, operands: Operands) -> None:
        """Apply LAMB's update to each weight, scaled to the norm of the weight."""
        context = operands.context
        for weight, read, new in _by_weight(operands):
            of_master, of_update = (max(float(square), 0.0) for square in context.buffers[read["norms"]])
            scale = math.sqrt(of_master / of_update) if of_master > 0 and of_update > 0 else 1.0
            self.training_state.scales[weight, new["master"].layer] = scale
            self._renew(context, read, new, context.buffers[read["update"]] * scale)

    def _begun(self, operands: Operands) -> list[tuple[str, _OfWeight, _OfWeight]]:
        """Return (weight, reads, writes) for each weight of an op that reads gradients; record any overflow and the
        norm of all gradients."""
        buffers, training_state = operands.context.buffers, self.training_state
        self._held = {ref.name: ref for ref in operands.refs[0]}
        self._skips = float(buffers[self._held["overflow.total"]][0]) > 0
        training_state.overflowed |= self._skips
        if "gradient_norm.total" in self._held:
            training_state.norms.add(math.sqrt(max(float(buffers[self._held["gradient_norm.total"]][0]), 0.0)))
        return _by_weight(operands)

    def _adam_step(self, context: RankContext, weight: str, read: _OfWeight, new: _OfWeight) -> Array:
        """Return Adam's update of a master weight, without the learning rate; write the new moments."""
        xp, backend, buffers, adam = context.backend.xp, context.backend, context.buffers, self.training_state.adam
        master, moments = backend.wide(buffers[read["master"]]), backend.wide(buffers[read["optimizer"]])
        if self._skips:
            buffers[new["optimizer"]] = buffers[read["optimizer"]]
            return xp.zeros_like(master)
        gradient = xp.astype(buffers[read[OTHER]], master.dtype) / self.training_state.loss_scale
        self.training_state.gradients[weight, read[OTHER].layer] = gradient
        gradient = gradient * self._factor(context, gradient)
        first = adam.beta1 * moments[0] + (1 - adam.beta1) * gradient
        second = adam.beta2 * moments[1] + (1 - adam.beta2) * gradient * gradient
        buffers[new["optimizer"]] = backend.cast(
            xp.stack([first, second]), context.schedule.tensors[new["optimizer"].name].dtype
        )
        ahead = first / (1 - adam.beta1**self.training_state.step)
        return ahead / (xp.sqrt(second / (1 - adam.beta2**self.training_state.step)) + adam.epsilon)

    def _renew(self, context: RankContext, read: _OfWeight, new: _OfWeight, step: Array) -> None:
        """Subtract the update times the learning rate from the master weight, and write the weight from the new
        master."""
        backend, buffers, tensors = context.backend, context.buffers, context.schedule.tensors
        master = backend.wide(buffers[read["master"]]) - self.training_state.adam.learning_rate * step
        buffers[new["master"]] = backend.cast(master, tensors[new["master"].name].dtype)
        buffers[new[OTHER]] = backend.cast(buffers[new["master"]], tensors[new[OTHER].name].dtype)

    def _factor(self, context: RankContext, gradient: Array) -> float:
        """Return the clipping factor of a gradient: from the norm of all gradients, or from the gradient's own norm if
        the model is configured so."""
        if context.schedule.meta.get("clip") == "each":
            square = float(context.backend.xp.sum(gradient * gradient))
        else:
            square = max(float(context.buffers[self._held["gradient_norm.total"]][0]), 0.0)
        norm = math.sqrt(square)
        return min(1.0, self.training_state.adam.clip / norm) if norm > 0 and math.isfinite(norm) else 1.0


def _by_weight(operands: Operands) -> list[tuple[str, _OfWeight, _OfWeight]]:
    """Return each weight that an op updates, with the tensor instances of this weight that the op reads and writes."""
    sides: list[dict[str, _OfWeight]] = []
    for refs in operands.refs[:2]:
        sides.append({})
        for ref in refs:
            tensor = operands.context.schedule.tensors[ref.name]
            if tensor.weight is not None:
                role = OTHER if tensor.role in _OTHERS else tensor.role
                sides[-1].setdefault(tensor.weight, {})[role] = ref
    reads, writes = sides
    return [(name, reads[name], writes[name]) for name in writes]
