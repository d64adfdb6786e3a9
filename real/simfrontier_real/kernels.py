"""The model's ops computed for real, by the kinds and names that workloads give them; for numpy and torch alike."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from simfrontier.errors import SimfrontierError
from simfrontier.schedule.ir import Compute, Ref
from simfrontier_real.arrays import Array
from simfrontier_real.site import Site
from simfrontier_real.work import Kernel

NORM_EPSILON = 1e-5
_STAGE = re.compile(r"\.full\.(forward|recompute|backward)$")
_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


def base_name(name: str) -> str:
    """What a buffer holds, whatever copy of it: `qkv.weight.full.forward` and `x.again` are qkv.weight and x."""
    return _STAGE.sub("", name).removesuffix(".again")


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of one op instance as arrays of the model's shapes."""

    site: Site
    index: int
    op: Compute

    @property
    def xp(self) -> Any:
        return self.site.backend.xp

    def sizes(self) -> dict[str, int]:
        """Local size of each label of the op's iteration space."""
        return self.op.local_sizes(self.site.schedule.mesh)

    def activations(self) -> list[tuple[str, Array]]:
        """(name, value) of what it reads that is no weight, in the op's order."""
        tensors, reads = self.site.schedule.tensors, self.site.program.reads[self.index]
        return [
            (base_name(ref.name), self.site.buffers[ref]) for ref in reads if tensors[ref.name].role == "activation"
        ]

    def one(self) -> Array:
        """The only activation it reads."""
        ((_, value),) = self.activations()
        return value

    def named(self, name: str) -> Array:
        """The activation of that name."""
        return dict(self.activations())[name]

    def weight(self, name: str) -> Array | None:
        """A weight it reads, in its shape; None where it reads none of that name."""
        tensors = self.site.schedule.tensors
        for ref in self.site.program.reads[self.index]:
            tensor = tensors[ref.name]
            if tensor.role != "activation" and base_name(ref.name) == name:
                line = self.xp.reshape(self.site.buffers[ref], (-1,))
                return self.xp.reshape(line[: tensor.num_elements], tensor.shape)
        return None

    def put(self, value: Array, number: int = 0) -> None:
        """Write the op's output of that number, in the type that the schedule gives it."""
        ref = [r for r in self.site.program.writes[self.index] if self._role(r) == "activation"][number]
        self.site.buffers[ref] = self.site.backend.cast(value, self.site.schedule.tensors[ref.name].dtype)

    def gradient(self, name: str, value: Array) -> None:
        """Write, or add to, the gradient of a weight, as a whole line."""
        from simfrontier_real.layout import whole_line

        _, writes, added = self.site.operands(self.index)
        for refs, adds in ((writes, False), (added, True)):
            for ref in refs:
                if ref.name in (f"{name}.grad.raw", f"{name}.grad"):
                    tensor = self.site.schedule.tensors[ref.name]
                    value = self.site.backend.cast(value, tensor.dtype)
                    line = whole_line(self.site.backend, value, tensor, self.site.schedule.mesh)
                    if adds:
                        self.site.add(ref, line)
                    else:
                        self.site.buffers[ref] = line
                    return
        raise SimfrontierError(f"op {self.op.name}: no gradient of {name} among what it writes")

    def has_gradient(self, name: str) -> bool:
        _, writes, added = self.site.operands(self.index)
        return any(ref.name in (f"{name}.grad.raw", f"{name}.grad") for ref in (*writes, *added))

    def _role(self, ref: Ref) -> str:
        return self.site.schedule.tensors[ref.name].role


def _matmul(site: Site, index: int, op: Compute) -> None:
    operands = Operands(site, index, op)
    module, _, part = op.name.rpartition(".")
    if op.name in _ATTENTION:
        _ATTENTION[op.name](operands)
    elif part == "dgrad" and module:
        weight = operands.weight(f"{module}.weight")
        assert weight is not None
        operands.put(operands.xp.matmul(_joined(operands, operands.activations()), weight))
    elif part == "wgrad" and module:
        _weight_gradient(operands, module)
    else:
        weight, bias = operands.weight(f"{op.name}.weight"), operands.weight(f"{op.name}.bias")
        assert weight is not None
        out = operands.xp.matmul(operands.one(), operands.xp.permute_dims(weight, (1, 0)))
        operands.put(out if bias is None else out + bias)


def _weight_gradient(operands: Operands, module: str) -> None:
    xp = operands.xp
    *above, (_, source) = operands.activations()
    gradient = _joined(operands, above)
    rows = xp.reshape(gradient, (-1, gradient.shape[-1]))
    columns = xp.reshape(source, (-1, source.shape[-1]))
    operands.gradient(f"{module}.weight", xp.matmul(xp.permute_dims(rows, (1, 0)), columns))
    if operands.has_gradient(f"{module}.bias"):
        operands.gradient(f"{module}.bias", xp.sum(rows, axis=0))


def _joined(operands: Operands, above: list[tuple[str, Array]]) -> Array:
    """The gradient of a linear module's output; that of query, key and value put together as qkv lays them out."""
    if len(above) == 1:
        return above[0][1]
    parts = dict(above)
    xp = operands.xp
    heads = [_by_head(operands, parts[f"d.{name}"]) for name in ("query", "key", "value")]
    together = xp.stack(heads, axis=3)  # b s head part feature
    return xp.reshape(together, (*together.shape[:2], -1))


def _by_head(operands: Operands, values: Array) -> Array:
    """b s a → b s head feature."""
    tensor = operands.site.schedule.tensors["scores"]
    heads = tensor.shape[1]
    return operands.xp.reshape(values, (*values.shape[:2], heads, -1))


def _query_key_value(operands: Operands) -> tuple[Array, Array, Array]:
    """Each as b head s feature; qkv.out is b s (head part feature)."""
    xp = operands.xp
    qkv = operands.named("qkv.out")
    heads = operands.sizes()["a"]
    parts = xp.reshape(qkv, (*qkv.shape[:2], heads, 3, -1))
    query, key, value = (xp.permute_dims(parts[:, :, :, number, :], (0, 2, 1, 3)) for number in range(3))
    return query, key, value


def _rows_of_heads(operands: Operands, name: str) -> Array:
    """b s a → b head s feature."""
    return operands.xp.permute_dims(_by_head(operands, operands.named(name)), (0, 2, 1, 3))


def _put_rows(operands: Operands, values: Array) -> None:
    """b head s feature → b s a."""
    rows = operands.xp.permute_dims(values, (0, 2, 1, 3))
    operands.put(operands.xp.reshape(rows, (*rows.shape[:2], -1)))


def _turned(operands: Operands, values: Array) -> Array:
    return operands.xp.permute_dims(values, (0, 1, 3, 2))


def _scores(operands: Operands) -> None:
    query, key, _ = _query_key_value(operands)
    operands.put(operands.xp.matmul(query, _turned(operands, key)) / math.sqrt(query.shape[-1]))


def _context(operands: Operands) -> None:
    _, _, value = _query_key_value(operands)
    _put_rows(operands, operands.xp.matmul(operands.named("probabilities"), value))


def _d_probabilities(operands: Operands) -> None:
    _, _, value = _query_key_value(operands)
    operands.put(operands.xp.matmul(_rows_of_heads(operands, "d.context"), _turned(operands, value)))


def _d_value(operands: Operands) -> None:
    turned = _turned(operands, operands.named("probabilities"))
    _put_rows(operands, operands.xp.matmul(turned, _rows_of_heads(operands, "d.context")))


def _d_query(operands: Operands) -> None:
    _, key, _ = _query_key_value(operands)
    _put_rows(operands, operands.xp.matmul(operands.named("d.scores"), key) / math.sqrt(key.shape[-1]))


def _d_key(operands: Operands) -> None:
    query, _, _ = _query_key_value(operands)
    turned = _turned(operands, operands.named("d.scores"))
    _put_rows(operands, operands.xp.matmul(turned, query) / math.sqrt(query.shape[-1]))


_ATTENTION = {
    "scores": _scores,
    "context": _context,
    "context.dprobabilities": _d_probabilities,
    "context.dvalue": _d_value,
    "scores.dquery": _d_query,
    "scores.dkey": _d_key,
}


def _norm(site: Site, index: int, op: Compute) -> None:
    operands = Operands(site, index, op)
    xp, wide = operands.xp, site.backend.wide
    if op.name.endswith(".backward"):
        _norm_backward(operands, op.name.removesuffix(".backward"))
        return
    weight, bias = operands.weight(f"{op.name}.weight"), operands.weight(f"{op.name}.bias")
    normal, _ = _normalised(xp, wide(operands.one()))
    operands.put(normal * wide(weight) + wide(bias))


def _normalised(xp: Any, x: Array) -> tuple[Array, Array]:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    inverse = 1 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + NORM_EPSILON)
    return centred * inverse, inverse


def _norm_backward(operands: Operands, module: str) -> None:
    """Layer norm backward; other gradients of the same stream that the op reads are added to its input's."""
    xp, wide = operands.xp, operands.site.backend.wide
    (_, gradient), (_, x), *others = operands.activations()
    gradient = wide(gradient)
    normal, inverse = _normalised(xp, wide(x))
    scaled = gradient * wide(operands.weight(f"{module}.weight"))
    along = xp.mean(scaled * normal, axis=-1, keepdims=True)
    out = inverse * (scaled - xp.mean(scaled, axis=-1, keepdims=True) - normal * along)
    for _, other in others:
        out = out + wide(other)
    operands.put(out)
    operands.gradient(f"{module}.weight", xp.sum(gradient * normal, axis=tuple(range(len(x.shape) - 1))))
    operands.gradient(f"{module}.bias", xp.sum(gradient, axis=tuple(range(len(x.shape) - 1))))


def _softmax(site: Site, index: int, op: Compute) -> None:
    """Causal softmax over the last dimension, and its backward."""
    operands = Operands(site, index, op)
    xp, wide = operands.xp, site.backend.wide
    if op.name.endswith(".backward"):
        gradient, probabilities = wide(operands.named("d.probabilities")), wide(operands.named("probabilities"))
        along = xp.sum(gradient * probabilities, axis=-1, keepdims=True)
        operands.put(probabilities * (gradient - along))
        return
    scores = wide(operands.one())
    places = xp.arange(scores.shape[-1], device=site.backend.device)
    later = places[None, :] > places[:, None]
    scores = xp.where(later, xp.asarray(-math.inf, dtype=scores.dtype, device=site.backend.device), scores)
    exponentials = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    operands.put(exponentials / xp.sum(exponentials, axis=-1, keepdims=True))


def _gelu(site: Site, index: int, op: Compute) -> None:
    """GELU by the hyperbolic tangent, as GPT-NeoX computes it, and its backward."""
    operands = Operands(site, index, op)
    xp, wide = operands.xp, site.backend.wide
    backward = op.name.endswith(".backward")
    x = wide(operands.activations()[1][1] if backward else operands.one())
    bent = xp.tanh(_GELU_SCALE * (x + _GELU_CUBIC * x * x * x))
    if not backward:
        operands.put(0.5 * x * (1 + bent))
        return
    slope = 0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * _GELU_SCALE * (1 + 3 * _GELU_CUBIC * x * x)
    operands.put(wide(operands.activations()[0][1]) * slope)


def _add(site: Site, index: int, op: Compute) -> None:
    operands = Operands(site, index, op)
    (_, total), *others = operands.activations()
    for _, other in others:
        total = total + other
    operands.put(total)


def _cast(site: Site, index: int, op: Compute) -> None:
    operands = Operands(site, index, op)
    operands.put(operands.one())


def _lookup(site: Site, index: int, op: Compute) -> None:
    operands = Operands(site, index, op)
    table, tokens = operands.weight(f"{op.name}.weight"), operands.one()
    rows = operands.xp.take(table, operands.xp.reshape(tokens, (-1,)), axis=0)
    operands.put(operands.xp.reshape(rows, (*tokens.shape, -1)))


def _scatter(site: Site, index: int, op: Compute) -> None:
    operands = Operands(site, index, op)
    xp, name = operands.xp, op.name.removesuffix(".wgrad") + ".weight"
    (_, tokens), (_, gradient) = operands.activations()
    rows = xp.reshape(gradient, (-1, gradient.shape[-1]))
    num_rows = site.schedule.tensors[name].shape[0]
    operands.gradient(name, site.backend.scatter_rows(num_rows, xp.reshape(tokens, (-1,)), rows))


MODEL_KERNELS: dict[str, Kernel] = {
    "matmul": _matmul,
    "norm": _norm,
    "softmax": _softmax,
    "gelu": _gelu,
    "add": _add,
    "cast": _cast,
    "lookup": _lookup,
    "scatter": _scatter,
}
