"""Optimizer kernels on a rank's shard of the states, for the optimizer ops of a schedule: gradient norm, Adam, LAMB and
Muon."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from simfrontier.core.program import NEWTON_SCHULZ_STEPS, Ref, TensorRole
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.layout import local_shape, whole_line
from simfrontier_real.ops.operands import Kernel, Operands
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.training_settings import TrainingState

OTHER: Final = "other"  # the gradient that an op reads, or the new weight that it writes
_OTHERS: Final[frozenset[TensorRole]] = frozenset({"accumulator", "gradient", "weight"})
_OfWeight = dict[str, Ref]  # what an op reads, or writes, of one weight, by role
MOMENTUM: Final = 0.95  # of Muon, and below its quintic (github.com/KellerJordan/Muon)
QUINTIC: Final = (3.4445, -4.7750, 2.0315)


@dataclass
class Optimizer:
    """Kernels of the optimizer ops; the gradients and norms that they read are recorded in the training state."""

    training_state: TrainingState
    _held: dict[str, Ref] = field(default_factory=dict)  # what the op at hand reads, by name
    _skips: bool = False

    def kernels(self) -> dict[str, Kernel]:
        return {
            **{"norm2": self._norm2, "adam": self._adam, "lamb_update": self._lamb_update, "lamb": self._lamb},
            **{"muon_update": self._muon_update, "newton_schulz": orthogonalised, "muon": self._muon},
        }

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

    def _muon_update(self, operands: Operands) -> None:
        """Compute the momentum of gradients, and from it, with Nesterov's look ahead, the update of each weight."""
        context, backend, buffers = operands.context, operands.backend, operands.context.buffers
        for weight, read, new in self._begun(operands):
            momentum = backend.wide(buffers[read["optimizer"]])
            update = operands.xp.zeros_like(momentum[0])
            if not self._skips:
                gradient = self._clipped(context, weight, read, momentum)
                momentum = MOMENTUM * momentum + gradient
                update = gradient + MOMENTUM * momentum[0]
            for ref, values in ((new["optimizer"], momentum), (new["update"], update)):
                buffers[ref] = backend.cast(values, context.schedule.tensors[ref.name].dtype)

    def _muon(self, operands: Operands) -> None:
        """Apply the orthogonal updates, scaled such that they are as large as Adam's (arXiv 2502.16982: 0.2 times the
        root of a matrix's larger side)."""
        context = operands.context
        for _, read, new in _by_weight(operands):
            larger = max(context.schedule.tensors[read["update"].name].shape[-2:])
            step = operands.backend.wide(context.buffers[read["update"]])
            self._renew(context, read, new, 0.2 * math.sqrt(larger) * step)

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
        gradient = self._clipped(context, weight, read, master)
        first = adam.beta1 * moments[0] + (1 - adam.beta1) * gradient
        second = adam.beta2 * moments[1] + (1 - adam.beta2) * gradient * gradient
        buffers[new["optimizer"]] = backend.cast(
            xp.stack([first, second]), context.schedule.tensors[new["optimizer"].name].dtype
        )
        ahead = first / (1 - adam.beta1**self.training_state.step)
        return ahead / (xp.sqrt(second / (1 - adam.beta2**self.training_state.step)) + adam.epsilon)

    def _clipped(self, context: RankContext, weight: str, read: _OfWeight, like: Array) -> Array:
        """Return the gradient of a weight, scaled back and clipped, in the type of `like`; record it as it came."""
        wide = context.backend.xp.astype(context.buffers[read[OTHER]], like.dtype)
        gradient = wide / self.training_state.loss_scale
        self.training_state.gradients[weight, read[OTHER].layer] = gradient
        return gradient * self._factor(context, gradient)

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


def orthogonalised(operands: Operands) -> None:
    """Write the nearest orthogonal matrices to the update of a weight, approximately: the last two dimensions are
    scaled to norm 1, and the quintic a X + b (X X^T) X + c (X X^T)^2 X is iterated, with rows along the smaller
    side."""
    context, xp, (read,), (new,) = operands.context, operands.xp, *operands.refs[:2]
    tensors, mesh = context.schedule.tensors, context.schedule.mesh
    shape = local_shape(tensors[read.name], mesh)
    line = xp.reshape(operands.wide(context.buffers[read]), (-1,))
    values = xp.reshape(line[: math.prod(shape)], shape)
    is_tall = shape[-2] > shape[-1]
    values = xp.matrix_transpose(values) if is_tall else values
    values = values / (xp.sqrt(xp.sum(values * values, axis=(-2, -1), keepdims=True)) + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = values @ xp.matrix_transpose(values)
        values = QUINTIC[0] * values + (QUINTIC[1] * square + QUINTIC[2] * square @ square) @ values
    values = xp.matrix_transpose(values) if is_tall else values
    values = operands.backend.cast(values, tensors[new.name].dtype)
    context.buffers[new] = whole_line(operands.backend, values, tensors[new.name], mesh)


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
