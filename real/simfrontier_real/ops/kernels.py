"""Kernels of the model's ops by kind of op, for numpy and torch."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.attention import (
    NORM_EPSILON,
    attention,
    context_of_scores,
    head_norm,
    put_together,
    rotary,
    scores,
    softmax,
    taken_apart,
)
from simfrontier_real.ops.experts import EXPERT_KERNELS
from simfrontier_real.ops.layout import block_of, first_index, local_shape
from simfrontier_real.ops.operands import Kernel, Operands

RATE = 0.1  # Megatron-LM's default (--hidden-dropout, --attention-dropout)
# Of GPT-OSS's experts (huggingface/transformers@v4.55.0 src/transformers/models/gpt_oss/modeling_gpt_oss.py).
CLAMP, SLOPE = 7, 1.702


def mask(name: str, layer: int, micro: int, shape: tuple[int, ...]) -> Any:
    """Return the dropout mask of a whole (unsharded) activation as a uint8 numpy array, 1 for kept elements; the mask
    is the same in every step."""
    numbers = np.random.default_rng([zlib.crc32(name.encode()), layer, micro])
    return (numbers.random(shape) >= RATE).astype(np.uint8)


def dropout(operands: Operands) -> None:
    """Compute dropout: the kept values, scaled by 1 / (1 - rate), and the mask; backward, the gradient under that
    mask."""
    wide = operands.wide
    if operands.is_backward:
        (_, gradient), (_, kept) = operands.activations()
        operands.put(wide(gradient) * kept / (1 - RATE))
        return
    ref = operands.context.program.writes[operands.index][1]
    tensor = operands.context.schedule.tensors[ref.name]
    whole = mask(operands.module, ref.layer, ref.micro, tensor.shape)
    block = block_of(tensor.shape, tensor.placement, operands.context.schedule.mesh, operands.context.at, tensor.name)
    kept = operands.backend.array(whole[block].copy(), "uint8")
    operands.put(wide(operands.one()) * kept / (1 - RATE))
    operands.put(kept, 1)


_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def _matmul(operands: Operands) -> None:
    module, part = operands.module, operands.op.named.part
    if part == "dgrad":
        weight = operands.weight(operands.weight_of(module))
        assert weight is not None
        operands.put(operands.xp.matmul(_joined(operands, operands.activations()), weight))
    elif part == "wgrad":
        _weight_gradient(operands, module)
    else:
        weight, bias = operands.weight(operands.weight_of(module)), operands.weight(f"{module}.bias")
        assert weight is not None and operands.op.matmul is not None
        out = operands.xp.matmul(operands.one(), operands.xp.permute_dims(weight, (1, 0)))
        # a product that is still to be summed takes its bias once: on the first rank of those that are summed
        takes_bias = operands.context.is_first(operands.cuts(operands.op.matmul[3]))
        made = out + bias if bias is not None and takes_bias else out
        if operands.num_outputs() == 1:
            operands.put(made)
            return
        # queries, keys and values apart; or a latent, and what all heads share of their keys
        shared = int(operands.context.schedule.meta.get("rope_features", 0))
        apart = (made[..., :-shared], made[..., -shared:]) if shared else taken_apart(operands, made)
        for number, each in enumerate(apart):
            operands.put(operands.xp.reshape(each, (*each.shape[:2], -1)), number)


def _weight_gradient(operands: Operands, module: str) -> None:
    xp = operands.xp
    *above, (_, source) = operands.activations()
    gradient = _joined(operands, above)
    rows = xp.reshape(gradient, (-1, gradient.shape[-1]))
    columns = xp.reshape(source, (-1, source.shape[-1]))
    operands.gradient(operands.weight_of(module), xp.matmul(xp.permute_dims(rows, (1, 0)), columns))
    bias = operands.gradient_of(f"{module}.bias")
    if bias is not None:
        assert operands.op.matmul is not None
        # where the gradient is still to be summed over axes that cut the module's input, it stands on their first ranks
        summed = bias.placement.partial_axes & set(operands.cuts(operands.op.matmul[2]))
        total = xp.sum(rows, axis=0)
        operands.gradient(f"{module}.bias", total if operands.context.is_first(summed) else xp.zeros_like(total))


def _joined(operands: Operands, above: list[tuple[str, Array]]) -> Array:
    """Return the gradient of a linear module's output; where it was taken apart, join the gradients of the parts."""
    parts = [values for _, values in above]
    if len(parts) == 1:
        return parts[0]
    return put_together(operands, *parts) if len(parts) == 3 else operands.xp.concat(parts, axis=-1)


def _norm(operands: Operands) -> None:
    wide = operands.wide
    module = operands.module
    if operands.is_backward:
        _norm_backward(operands, module)
        return
    weight, bias = operands.weight(f"{module}.weight"), operands.weight(f"{module}.bias")
    values, moments = _with_moments(operands)
    normal, _ = _normalised(operands, wide(values[0]), moments.get(f"{module}.moments"))
    scaled = normal * wide(weight)
    operands.put(scaled if bias is None else scaled + wide(bias))


def _has_mean(operands: Operands) -> bool:
    """Return whether a norm subtracts the mean (an RMSNorm does not)."""
    return operands.op.kind not in ("rmsnorm", "rmsnorm_sums")


def _with_moments(operands: Operands) -> tuple[list[Array], dict[str, Array]]:
    """Return the input of a norm, and the sums over all features that the norm reads, by name."""
    every = operands.activations()
    module = operands.module
    sums = {f"{module}.moments", f"d.{module}.moments"}
    return [value for name, value in every if name not in sums], {
        name: operands.context.backend.wide(value) for name, value in every if name in sums
    }


def _normalised(operands: Operands, x: Array, moments: Array | None) -> tuple[Array, Array]:
    """Return (normalised values, inverse deviation); where the features are sharded, from the sums of the values and of
    their squares."""
    xp = operands.xp
    if not _has_mean(operands):
        centred = x
        summed = None if moments is None else moments[..., :1] / dict(operands.op.iteration)["h"]
        variance = xp.mean(x * x, axis=-1, keepdims=True) if summed is None else summed
    elif moments is None:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    else:
        means = moments / dict(operands.op.iteration)["h"]
        centred = x - means[..., :1]
        variance = means[..., 1:] - means[..., :1] * means[..., :1]
    inverse = 1 / xp.sqrt(variance + NORM_EPSILON)
    return centred * inverse, inverse


def _norm_sums(operands: Operands) -> None:
    """Compute partial sums over this rank's features: of a norm's input and its squares; backward, of the terms whose
    means the norm's gradient needs."""
    xp, wide, module = operands.xp, operands.wide, operands.module
    values, moments = _with_moments(operands)
    parts: tuple[Array, ...]
    if not operands.is_backward:
        x = wide(values[0])
        parts = x, x * x
    else:
        scaled = wide(values[0]) * wide(operands.weight(f"{module}.weight"))
        normal, _ = _normalised(operands, wide(values[1]), moments[f"{module}.moments"])
        parts = scaled, scaled * normal
    parts = parts if _has_mean(operands) else parts[1:]
    operands.put(xp.stack([xp.sum(part, axis=-1) for part in parts], axis=-1))


def _norm_backward(operands: Operands, module: str) -> None:
    """Compute the backward of a norm; further gradients of the same activation that the op reads are added to the
    gradient of the norm's input."""
    xp, wide = operands.xp, operands.context.backend.wide
    (gradient, x, *others), moments = _with_moments(operands)
    gradient = wide(gradient)
    normal, inverse = _normalised(operands, wide(x), moments.get(f"{module}.moments"))
    scaled = gradient * wide(operands.weight(f"{module}.weight"))
    if moments:
        means = moments[f"d.{module}.moments"] / dict(operands.op.iteration)["h"]
        mean, along = means[..., :1], means[..., -1:]
    else:
        mean = xp.mean(scaled, axis=-1, keepdims=True)
        along = xp.mean(scaled * normal, axis=-1, keepdims=True)
    out = inverse * ((scaled - mean if _has_mean(operands) else scaled) - normal * along)
    for other in others:
        out = out + wide(other)
    operands.put(out)
    operands.gradient(f"{module}.weight", xp.sum(gradient * normal, axis=tuple(range(len(x.shape) - 1))))
    if operands.gradient_of(f"{module}.bias") is not None:
        operands.gradient(f"{module}.bias", xp.sum(gradient, axis=tuple(range(len(x.shape) - 1))))


def _gelu(operands: Operands) -> None:
    """Compute GELU with the tanh approximation, as in GPT-NeoX, or its backward."""
    xp, wide = operands.xp, operands.wide
    x = wide(operands.activations()[1][1] if operands.is_backward else operands.activations()[0][1])
    bent = xp.tanh(_GELU_SCALE * (x + _GELU_CUBIC * x * x * x))
    slope = 0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * _GELU_SCALE * (1 + 3 * _GELU_CUBIC * x * x)
    _put_bent(operands, 0.5 * x * (1 + bent), lambda above: above * slope)


def _swiglu(operands: Operands) -> None:
    """Compute silu(gate) · up from features in the order (feature, gate and up), or its backward."""
    xp, wide = operands.xp, operands.wide
    both = wide(operands.activations()[1][1] if operands.is_backward else operands.activations()[0][1])
    pairs = xp.reshape(both, (*both.shape[:-1], -1, 2))
    gate, up = pairs[..., 0], pairs[..., 1]
    share = 0.5 * (1 + xp.tanh(0.5 * gate))  # the logistic function

    def backward(above: Array) -> Array:
        d_gate, d_up = above * up * share * (1 + gate * (1 - share)), above * gate * share
        return xp.reshape(xp.stack([d_gate, d_up], axis=-1), both.shape)

    _put_bent(operands, gate * share * up, backward)


def _clamped_swiglu(operands: Operands) -> None:
    """Compute gate · sigmoid(SLOPE gate) · (up + 1) of gate up to CLAMP and up from -CLAMP to it, or its backward."""
    xp, wide = operands.xp, operands.wide
    both = wide(operands.activations()[1][1] if operands.is_backward else operands.activations()[0][1])
    pairs = xp.reshape(both, (*both.shape[:-1], -1, 2))
    low, high = pairs[..., 0] < CLAMP, xp.abs(pairs[..., 1]) < CLAMP
    gate = xp.where(low, pairs[..., 0], xp.full_like(pairs[..., 0], CLAMP))
    up = xp.where(high, pairs[..., 1], CLAMP * xp.sign(pairs[..., 1])) + 1
    share = 0.5 * (1 + xp.tanh(0.5 * SLOPE * gate))

    def backward(above: Array) -> Array:
        d_gate, d_up = above * up * share * (1 + SLOPE * gate * (1 - share)) * low, above * gate * share * high
        return xp.reshape(xp.stack([d_gate, d_up], axis=-1), both.shape)

    _put_bent(operands, gate * share * up, backward)


def _put_bent(operands: Operands, bent: Array, backward: Callable[[Array], Array]) -> None:
    """Write the result `bent` of an activation function, or the gradient that `backward` computes from the gradient of
    the result. If the op reads a weight for every row, as that of an expert does, it scales the rows by it, and its
    backward writes the gradient of the weights, too."""
    read = operands.activations()[1:] if operands.is_backward else operands.activations()
    weight = operands.wide(read[1][1])[..., None] if len(read) > 1 else None
    if not operands.is_backward:
        operands.put(bent if weight is None else bent * weight)
        return
    above = operands.wide(operands.activations()[0][1])
    operands.put(backward(above if weight is None else above * weight))
    if weight is not None:
        operands.put(operands.xp.sum(above * bent, axis=-1), 1)


def _add_positions(operands: Operands) -> None:
    """Add the position embeddings of this rank's positions; backward, sum the gradients of each position."""
    xp, name = operands.xp, f"{operands.module}.weight"
    values = operands.one()
    first, length = operands.first("s"), values.shape[1]
    if not operands.is_backward:
        table = operands.weight(name)
        assert table is not None
        operands.put(values + table[first : first + length, :][None, :, :])
        return
    rows, features = local_shape(operands.context.schedule.tensors[name], operands.context.schedule.mesh)
    made = xp.sum(values, axis=0)
    before, after = (_zeros(xp, made, count, features) for count in (first, rows - first - length))
    operands.gradient(name, xp.concat([before, made, after], axis=0))


def _zeros(xp: Any, like: Array, rows: int, features: int) -> Array:
    return xp.zeros((rows, features), dtype=like.dtype, device=like.device)


def _add(operands: Operands) -> None:
    (_, total), *others = operands.activations()
    for _, other in others:
        total = total + other
    operands.put(total)


def _concat(operands: Operands) -> None:
    """Join the features of two values, of which this rank may have a part; backward, the gradients of both, where those
    of other ranks' features are zeros."""
    xp, whole, first = operands.xp, dict(operands.op.iteration)["f"], operands.first("f")
    after = first + operands.sizes()["f"]
    if not operands.is_backward:
        operands.put(xp.concat([values for _, values in operands.activations()], axis=-1)[..., first:after])
        return
    held = operands.one()
    before, behind = (
        xp.zeros((*held.shape[:-1], count), dtype=held.dtype, device=held.device) for count in (first, whole - after)
    )
    joined = xp.concat([before, held, behind], axis=-1)
    operands.put(joined[..., : whole // 2])
    operands.put(joined[..., whole // 2 :], 1)


def _lookup(operands: Operands) -> None:
    """Return the embedding of each token; zeros for tokens whose table rows are on other ranks."""
    name = f"{operands.module}.weight"
    table, tokens = operands.weight(name), operands.one()
    assert table is not None
    index_of, is_here = _own_rows(operands, name, tokens)
    rows = operands.xp.take(table, index_of, axis=0)
    operands.put(operands.xp.reshape(rows if is_here is None else rows * is_here[:, None], (*tokens.shape, -1)))


def _own_rows(operands: Operands, name: str, tokens: Array) -> tuple[Array, Array | None]:
    """Return (index of each token in this rank's shard of a table, 0 for tokens outside of it; mask of the tokens
    inside of it, None if this rank has the whole table)."""
    xp, mesh = operands.xp, operands.context.schedule.mesh
    tensor = operands.context.schedule.tensors[name]
    flat = xp.reshape(tokens, (-1,))
    num_rows = local_shape(tensor, mesh)[0]
    if num_rows == tensor.shape[0]:
        return flat, None
    flat = flat - first_index(tensor, tensor.dims[0], mesh, operands.context.at)
    is_here = (flat >= 0) & (flat < num_rows)
    return xp.where(is_here, flat, xp.zeros_like(flat)), is_here


def _scatter(operands: Operands) -> None:
    xp, name = operands.xp, f"{operands.module}.weight"
    (_, tokens), (_, gradient) = operands.activations()
    rows = xp.reshape(gradient, (-1, gradient.shape[-1]))
    index_of, is_here = _own_rows(operands, name, tokens)
    rows = rows if is_here is None else rows * is_here[:, None]
    num_rows = local_shape(operands.context.schedule.tensors[name], operands.context.schedule.mesh)[0]
    operands.gradient(name, operands.backend.scatter_rows(num_rows, index_of, rows))


MODEL_KERNELS: dict[str, Kernel] = {
    "matmul": _matmul,
    "scores": scores,
    "context": context_of_scores,
    "norm": _norm,
    "norm_sums": _norm_sums,
    "rmsnorm": _norm,
    "rmsnorm_sums": _norm_sums,
    "head_norm": head_norm,
    "softmax": softmax,
    "attention": attention,
    "gelu": _gelu,
    "swiglu": _swiglu,
    "clamped_swiglu": _clamped_swiglu,
    "rotary": rotary,
    "add_positions": _add_positions,
    "add": _add,
    "concat": _concat,
    "cast": lambda operands: operands.put(operands.one()),
    "dropout": dropout,
    "lookup": _lookup,
    "scatter": _scatter,
    **EXPERT_KERNELS,
}
