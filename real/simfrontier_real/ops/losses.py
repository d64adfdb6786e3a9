"""Cross-entropy kernels: with all classes on one rank, and with sharded classes by each of the methods."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from simfrontier.base.errors import InputError, SimfrontierError, nearest
from simfrontier.core.program import Compute
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.layout import first_index
from simfrontier_real.ops.operands import Kernel, Operands
from simfrontier_real.train.training_settings import TrainingState

MTP_SHARE: Final = 0.1  # of the losses of multi-token prediction (Megatron-Core's mtp_loss_scaling_factor)
LOG2E: Final = math.log2(math.e)
# ln 2 as a sum of which the first part has so few bits that its product with a whole number up to 2^20 is exact
# (fdlibm, e_exp.c).
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_REMAINDER: Final = 0.35  # more than ln 2 / 2, which it is but for numbers so large that their last digits are lost


def as_pairs(xp: Any, values: Array) -> tuple[Array, Array]:
    """Return (m, n) with exp(x) = m 2^n, where n is an integer in float64 and m, from 0.7 to 1.42, has the type of the
    values; (0, -inf) for x = -inf (arXiv 2001.04438). The argument is reduced in float64, so that n is exact for every
    finite float32."""
    is_none = values == -math.inf
    wide = xp.astype(xp.where(is_none, xp.zeros_like(values), values), xp.float64)
    power = xp.round(wide * LOG2E)
    remainder = xp.clip(wide - power * LN2_HIGH - power * LN2_LOW, -_REMAINDER, _REMAINDER)
    mantissa = xp.astype(xp.exp(remainder), values.dtype)
    nowhere = xp.full_like(power, -math.inf)
    return xp.where(is_none, xp.zeros_like(values), mantissa), xp.where(is_none, nowhere, power)


def summed_pairs(xp: Any, mantissa: Array, power: Array, axis: int) -> tuple[Array, Array]:
    """Return the pair (m, n) of the sum along an axis, which remains with size 1: (m1, n1) + (m2, n2) = (m1 2^(n1-K) +
    m2 2^(n2-K), K) with K the larger of n1 and n2. The empty sum is (0, -inf)."""
    top = xp.max(power, axis=axis, keepdims=True)
    scale = xp.exp2(power - xp.where(top == -math.inf, xp.zeros_like(top), top))
    return xp.sum(mantissa * xp.astype(scale, mantissa.dtype), axis=axis, keepdims=True), top


def summed_by_maximum(xp: Any, top: Array, total: Array, axis: int) -> tuple[Array, Array]:
    """Combine the partial results (maximum, sum of exp(x - maximum)) along an axis, which remains with size 1."""
    highest = xp.max(top, axis=axis, keepdims=True)
    return highest, xp.sum(total * xp.exp(top - highest), axis=axis, keepdims=True)


def softmax_by_pairs(xp: Any, values: Array) -> Array:
    """Compute the softmax over the last dimension in two passes, without the maximum of each row."""
    mantissa, power = as_pairs(xp, values)
    total, top = summed_pairs(xp, mantissa, power, axis=-1)
    return mantissa / total * xp.astype(xp.exp2(power - top), values.dtype)


def softmax_by_maximum(xp: Any, values: Array) -> Array:
    """Compute the softmax over the last dimension after subtracting the maximum of each row."""
    exponentials = xp.exp(values - xp.max(values, axis=-1, keepdims=True))
    return exponentials / xp.sum(exponentials, axis=-1, keepdims=True)


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Kernels of the cross-entropy loss, averaged over all samples and positions of the step. The loss of each of D
    depths of multi-token prediction counts MTP_SHARE / D."""

    training_state: TrainingState

    def kernels(self) -> dict[str, Kernel]:
        return {
            "loss": self._loss,
            "loss_max": lambda operands: operands.put(operands.xp.max(operands.one(), axis=-1)),
            "loss_sums": self._sums,
            "loss_own": self._own,
            "loss_exp": lambda operands: operands.put(operands.xp.exp(operands.one())),
            "loss_sum": lambda operands: operands.put(operands.xp.sum(operands.one(), axis=-1)),
            "loss_online": self._online,
            "loss_pairs": self._pairs,
        }

    def _loss(self, operands: Operands) -> None:
        """Compute the loss and its gradient with respect to the logits; where the classes are sharded, the sums over
        all classes are read as inputs.

        The loss -log softmax is computed as the log of the sum minus the logit, which is finite even where the
        probability underflows; and in float64 for each row, so that a large offset common to all logits costs no
        precision.
        """
        xp, values = operands.xp, operands.activations()
        first, held = values[0][1], dict(values[1:])
        hit = self._hit(operands, first)
        if "loss.pairs" in held:
            total, power, own = _columns(held["loss.pairs"])
            probabilities, log = _by_pairs(xp, *as_pairs(xp, first), total, _wide(xp, power))
        elif "loss.online" in held:
            top, total, own = _columns(held["loss.online"])
            probabilities, log = xp.exp(first - top) / total, _wide(xp, top) + _wide(xp, xp.log(total))
        elif "loss.total" in held:
            total, own = held["loss.total"][..., None], held["loss.own"]
            probabilities, log = first / total, xp.log(total)
        elif "loss.terms" in held:
            total, own = held["loss.terms"][..., :1], held["loss.terms"][..., 1]
            probabilities, log = xp.exp(first - held["loss.top"][..., None]) / total, xp.log(total)
        elif operands.op.kernel == "two-pass":
            mantissa, power = as_pairs(xp, first)
            own = xp.sum(first * hit, axis=-1)
            probabilities, log = _by_pairs(xp, mantissa, power, *summed_pairs(xp, mantissa, power, axis=-1))
        else:
            shifted = first - xp.max(first, axis=-1, keepdims=True)
            exponentials, own = xp.exp(shifted), xp.sum(shifted * hit, axis=-1)
            total = xp.sum(exponentials, axis=-1, keepdims=True)
            probabilities, log = exponentials / total, xp.log(total)
        rows = math.prod(size for _, size in operands.op.iteration[:-1])  # the last label is the class
        depths = int(operands.context.schedule.meta.get("mtp_layers", 0)) if operands.op.named.streams else 0
        count = rows * self.training_state.grad_accum * (depths / MTP_SHARE if depths else 1)
        if counts(operands):
            micro, losses = operands.context.program.reads[operands.index][0].micro, self.training_state.losses
            losses[micro] = losses.get(micro, 0.0) + xp.sum(_wide(xp, log[..., 0]) - _wide(xp, own)) / count
        operands.put((probabilities - hit) * (self.training_state.loss_scale / count))

    # ── partial results over a rank's classes ──

    def _sums(self, operands: Operands) -> None:
        """Compute the sum of exponentials over this rank's classes, and the label's logit if the label is among
        them."""
        xp, ((_, logits), (_, top)) = operands.xp, operands.activations()
        shifted = logits - top[..., None]
        parts = xp.exp(shifted), shifted * self._hit(operands, logits)
        operands.put(xp.stack([xp.sum(part, axis=-1) for part in parts], axis=-1))

    def _own(self, operands: Operands) -> None:
        """Compute the label's logit and all logits, minus the maximum over all classes."""
        (_, logits), (_, top) = operands.activations()
        shifted = logits - top[..., None]
        operands.put(operands.xp.sum(shifted * self._hit(operands, logits), axis=-1), 0)
        operands.put(shifted, 1)

    def _online(self, operands: Operands) -> None:
        """Compute the maximum of the logits, the sum of exp(logit - maximum), and the label's logit, over this rank's
        classes."""
        xp, logits = operands.xp, operands.one()
        top, total = summed_by_maximum(xp, logits, xp.ones_like(logits), axis=-1)
        self._put_three(operands, top, total, logits)

    def _pairs(self, operands: Operands) -> None:
        """Compute the sum of exponentials as a pair m 2^n, and the label's logit, over this rank's classes."""
        logits = operands.one()
        xp = operands.xp
        total, power = summed_pairs(xp, *as_pairs(xp, logits), axis=-1)
        _refuse_long(xp, operands.op, power, logits)
        self._put_three(operands, total, xp.astype(power, logits.dtype), logits)

    def _put_three(self, operands: Operands, one: Array, other: Array, logits: Array) -> None:
        own = operands.xp.sum(logits * self._hit(operands, logits), axis=-1, keepdims=True)
        operands.put(operands.xp.concat([one, other, own], axis=-1))

    def _hit(self, operands: Operands, logits: Array) -> Array:
        """Return 1 at the class of each position's label if this rank has that class, else 0."""
        context, ref = operands.context, operands.context.program.reads[operands.index][0]
        tensor = context.schedule.tensors[ref.name]
        first = first_index(tensor, tensor.dims[-1], context.schedule.mesh, context.at)
        classes = operands.xp.arange(first, first + logits.shape[-1], device=context.backend.device)
        labels = self.training_state.labels[len(tensor.streams), ref.micro]
        return operands.xp.astype(classes == labels[..., None], logits.dtype)


_MERGES: Final = {"loss.online": summed_by_maximum, "loss.pairs": summed_pairs}


def merged(operands: Operands) -> None:
    """Kernel of `merge`: combine the results that the ranks of a group have for their classes to those for all
    classes."""
    reads, writes, _ = operands.context.operands(operands.index)
    xp = operands.xp
    for src, dst in zip(reads, writes, strict=False):  # a token may be written, too
        one, other, own = _columns(operands.context.buffers[src])
        name = operands.context.schedule.tensors[dst.name].quantity
        if name not in _MERGES:
            raise InputError(f"op merge {operands.op.name}: no way to merge {name!r}; {nearest(name, _MERGES)}")
        parts = [*_MERGES[name](xp, one, other, axis=0), xp.sum(own[..., None], axis=0, keepdims=True)]
        operands.context.buffers[dst] = xp.concat(parts, axis=-1)[0]


def _columns(values: Array) -> tuple[Array, Array, Array]:
    """Return the three numbers of each row: the first two as [..., 1], the label's logit as [...]."""
    return values[..., :1], values[..., 1:2], values[..., 2]


def _by_pairs(xp: Any, mantissa: Array, power: Array, total: Array, top: Array) -> tuple[Array, Array]:
    """Return (probabilities, log of the sum of exponentials in float64)."""
    scale = xp.astype(xp.exp2(power - top), mantissa.dtype)
    return mantissa / total * scale, top * LN2_HIGH + (top * LN2_LOW + _wide(xp, xp.log(total)))


def _wide(xp: Any, values: Array) -> Array:
    return xp.astype(values, xp.float64, copy=False)


def _refuse_long(xp: Any, op: Compute, power: Array, logits: Array) -> None:
    """Raise an error if an exponent is too large: exponents are sent as numbers of the logits' type, which represents
    integers exactly only up to a limit."""
    most = {"float32": 2.0**24, "float64": 2.0**53}[str(logits.dtype).rpartition(".")[2]]
    largest = float(xp.max(xp.abs(power)))
    if most < largest < math.inf:
        raise SimfrontierError(
            f"{op.name}: a logit of {largest * math.log(2):.3g} makes an exponent that {logits.dtype} does not hold; "
            f"allowed: logits up to {most * math.log(2):.3g}, or another way to form the loss"
        )


def counts(operands: Operands) -> bool:
    """Return whether this rank reports the loss of its samples: of the ranks with the same samples, only the first
    does."""
    context, rows = operands.context, operands.cuts(label for label, _ in operands.op.iteration[:-1])
    return context.is_first(axis for axis in context.schedule.mesh.names if axis not in (*rows, context.roles_axis))
