"""The model's ops computed for real, by the kinds and names that workloads give them; for numpy and torch alike."""

from __future__ import annotations

import math

from simfrontier.schedule import Compute
from simfrontier_real.arrays import Array
from simfrontier_real.attention import ATTENTION_PRODUCTS, attention, by_head, softmax
from simfrontier_real.blocks import first_index, local_shape
from simfrontier_real.op_runner import Kernel
from simfrontier_real.operands import Operands
from simfrontier_real.rank_context import RankContext

NORM_EPSILON = 1e-5
_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def _matmul(context: RankContext, index: int, op: Compute) -> None:
    operands = Operands(context, index, op)
    module, part, *_ = operands.named
    if operands.named in ATTENTION_PRODUCTS:  # the others are linear modules
        ATTENTION_PRODUCTS[operands.named](operands)
    elif part == "dgrad":
        weight = operands.weight(operands.weight_of(module))
        assert weight is not None
        operands.put(operands.xp.matmul(_joined(operands, operands.activations()), weight))
    elif part == "wgrad":
        _weight_gradient(operands, module)
    else:
        weight, bias = operands.weight(operands.weight_of(module)), operands.weight(f"{module}.bias")
        assert weight is not None and op.matmul is not None
        out = operands.xp.matmul(operands.one(), operands.xp.permute_dims(weight, (1, 0)))
        # a product that is still to be summed takes its bias once: on the first rank of those that are summed
        operands.put(out + bias if bias is not None and context.is_first(operands.cuts(op.matmul[3])) else out)


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
    """The gradient of a linear module's output; that of query, key and value put together as qkv lays them out."""
    if len(above) == 1:
        return above[0][1]
    parts = dict(above)
    xp = operands.xp
    heads = [by_head(operands, parts[f"d.{name}"]) for name in ("query", "key", "value")]
    together = xp.stack(heads, axis=3)  # b s head part feature
    return xp.reshape(together, (*together.shape[:2], -1))


def _norm(context: RankContext, index: int, op: Compute) -> None:
    operands, wide = Operands(context, index, op), context.backend.wide
    module = operands.named.module
    if operands.is_backward:
        _norm_backward(operands, module)
        return
    weight, bias = operands.weight(f"{module}.weight"), operands.weight(f"{module}.bias")
    values, moments = _with_moments(operands)
    normal, _ = _normalised(operands, wide(values[0]), moments.get(f"{module}.moments"))
    operands.put(normal * wide(weight) + wide(bias))


def _with_moments(operands: Operands) -> tuple[list[Array], dict[str, Array]]:
    """The values that a norm reads, and the sums over all its features that it reads, by name."""
    every = operands.activations()
    module = operands.named.module
    sums = {f"{module}.moments", f"d.{module}.moments"}
    return [value for name, value in every if name not in sums], {
        name: operands.context.backend.wide(value) for name, value in every if name in sums
    }


def _normalised(operands: Operands, x: Array, moments: Array | None) -> tuple[Array, Array]:
    """(normalised values, inverse deviation), by the sums of values and of squares where the features are cut."""
    xp = operands.xp
    if moments is None:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    else:
        means = moments / dict(operands.op.iteration)["h"]
        centred = x - means[..., :1]
        variance = means[..., 1:] - means[..., :1] * means[..., :1]
    inverse = 1 / xp.sqrt(variance + NORM_EPSILON)
    return centred * inverse, inverse


def _norm_sums(context: RankContext, index: int, op: Compute) -> None:
    """Sums over this rank's features: of a norm's input and its squares; backward, of what the norm's gradient takes
    the means of."""
    operands = Operands(context, index, op)
    xp, wide, module = operands.xp, context.backend.wide, operands.named.module
    values, moments = _with_moments(operands)
    if not operands.is_backward:
        x = wide(values[0])
        parts = x, x * x
    else:
        scaled = wide(values[0]) * wide(operands.weight(f"{module}.weight"))
        normal, _ = _normalised(operands, wide(values[1]), moments[f"{module}.moments"])
        parts = scaled, scaled * normal
    operands.put(xp.stack([xp.sum(part, axis=-1) for part in parts], axis=-1))


def _norm_backward(operands: Operands, module: str) -> None:
    """Layer norm backward; other gradients of the same stream that the op reads are added to its input's."""
    xp, wide = operands.xp, operands.context.backend.wide
    (gradient, x, *others), moments = _with_moments(operands)
    gradient = wide(gradient)
    normal, inverse = _normalised(operands, wide(x), moments.get(f"{module}.moments"))
    scaled = gradient * wide(operands.weight(f"{module}.weight"))
    if moments:
        means = moments[f"d.{module}.moments"] / dict(operands.op.iteration)["h"]
        mean, along = means[..., :1], means[..., 1:]
    else:
        mean = xp.mean(scaled, axis=-1, keepdims=True)
        along = xp.mean(scaled * normal, axis=-1, keepdims=True)
    out = inverse * (scaled - mean - normal * along)
    for other in others:
        out = out + wide(other)
    operands.put(out)
    operands.gradient(f"{module}.weight", xp.sum(gradient * normal, axis=tuple(range(len(x.shape) - 1))))
    operands.gradient(f"{module}.bias", xp.sum(gradient, axis=tuple(range(len(x.shape) - 1))))


def _gelu(context: RankContext, index: int, op: Compute) -> None:
    """GELU by the hyperbolic tangent, as GPT-NeoX computes it, and its backward."""
    operands = Operands(context, index, op)
    xp, wide = operands.xp, context.backend.wide
    backward = operands.is_backward
    x = wide(operands.activations()[1][1] if backward else operands.one())
    bent = xp.tanh(_GELU_SCALE * (x + _GELU_CUBIC * x * x * x))
    if not backward:
        operands.put(0.5 * x * (1 + bent))
        return
    slope = 0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * _GELU_SCALE * (1 + 3 * _GELU_CUBIC * x * x)
    operands.put(wide(operands.activations()[0][1]) * slope)


def _add(context: RankContext, index: int, op: Compute) -> None:
    operands = Operands(context, index, op)
    (_, total), *others = operands.activations()
    for _, other in others:
        total = total + other
    operands.put(total)


def _cast(context: RankContext, index: int, op: Compute) -> None:
    operands = Operands(context, index, op)
    operands.put(operands.one())


def _lookup(context: RankContext, index: int, op: Compute) -> None:
    """Rows of the table by token; zeros for tokens whose rows are on other ranks."""
    operands = Operands(context, index, op)
    name = f"{operands.named.module}.weight"
    table, tokens = operands.weight(name), operands.one()
    assert table is not None
    index_of, is_here = _own_rows(operands, name, tokens)
    rows = operands.xp.take(table, index_of, axis=0)
    operands.put(operands.xp.reshape(rows if is_here is None else rows * is_here[:, None], (*tokens.shape, -1)))


def _own_rows(operands: Operands, name: str, tokens: Array) -> tuple[Array, Array | None]:
    """(row of this rank's part of a table for each token, 0 where it has none; whether it has it, None: it has all)."""
    xp, mesh = operands.xp, operands.context.schedule.mesh
    tensor = operands.context.schedule.tensors[name]
    flat = xp.reshape(tokens, (-1,))
    num_rows = local_shape(tensor, mesh)[0]
    if num_rows == tensor.shape[0]:
        return flat, None
    flat = flat - first_index(tensor, tensor.dims[0], mesh, operands.context.at)
    is_here = (flat >= 0) & (flat < num_rows)
    return xp.where(is_here, flat, xp.zeros_like(flat)), is_here


def _scatter(context: RankContext, index: int, op: Compute) -> None:
    operands = Operands(context, index, op)
    xp, name = operands.xp, f"{operands.named.module}.weight"
    (_, tokens), (_, gradient) = operands.activations()
    rows = xp.reshape(gradient, (-1, gradient.shape[-1]))
    index_of, is_here = _own_rows(operands, name, tokens)
    rows = rows if is_here is None else rows * is_here[:, None]
    num_rows = local_shape(context.schedule.tensors[name], context.schedule.mesh)[0]
    operands.gradient(name, context.backend.scatter_rows(num_rows, index_of, rows))


MODEL_KERNELS: dict[str, Kernel] = {
    "matmul": _matmul,
    "norm": _norm,
    "norm_sums": _norm_sums,
    "softmax": softmax,
    "attention": attention,
    "gelu": _gelu,
    "add": _add,
    "cast": _cast,
    "lookup": _lookup,
    "scatter": _scatter,
}
