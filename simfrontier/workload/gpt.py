"""The decoder GPT as a graph of ops: attention and MLP side by side on the residual stream, as in GPT-NeoX-20B.

Labels: b sample, s position, t position attended to, h hidden feature, a feature of a head (heads × something), d
feature inside a head, f feed-forward feature, v vocabulary entry. A head dimension is labelled a wherever heads may be
split. Dropout is off, as in the published 20B configuration; the rotary embedding of a quarter of the query and key
features (under 0.5 % of a layer's traffic) is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from simfrontier.errors import InputError
from simfrontier.workload.catalog import GptShape
from simfrontier.workload.graph import MatmulLabels, Phase, Use, Value, Weight, Workload, WorkOp

DTYPE = "fp16"


def gpt(shape: GptShape, batch: int, checkpointing: bool, sequence: int | None = None) -> Workload:
    """The graph of one micro-batch of `batch` sequences over all data-parallel ranks together; raises InputError."""
    length = shape.sequence if sequence is None else sequence
    for key, value in (("batch", batch), ("sequence", length)):
        if value < 1:
            raise InputError(f"model {shape.name}: {key} = {value}; allowed: 1 or more")
    return _Gpt(shape, batch, length).workload(checkpointing)


def _here(*names: str) -> tuple[Use, ...]:
    return tuple((name, 0) for name in names)


@dataclass
class _Gpt:
    """Collects values, weights and ops of the model while its phases are written down."""

    shape: GptShape
    batch: int
    sequence: int
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = self.shape
        self.size = {
            "b": self.batch,
            "s": self.sequence,
            "t": self.sequence,
            "h": shape.hidden,
            "d": shape.hidden // shape.heads,
            "f": 4 * shape.hidden,
            "v": shape.vocabulary,
        }

    def workload(self, checkpointing: bool) -> Workload:
        self._declare()
        return Workload(
            name=self.shape.name,
            batch=self.batch,
            sequence=self.sequence,
            num_layers=self.shape.num_layers,
            checkpointing=checkpointing,
            embedding=self._embedding(),
            layer=self._layer(),
            head=self._head(),
            values=self.values,
            weights=self.weights,
        )

    # ── tensors ──

    def _declare(self) -> None:
        h, f, v, heads = self.shape.hidden, 4 * self.shape.hidden, self.shape.vocabulary, self.shape.heads
        stream = ("b", "s", "h")
        hidden = (self.batch, self.sequence, h)
        for name in ("x", "ln1.out", "attention.out", "ln2.out", "mlp.out"):
            self._value(name, stream, hidden)
        self._value("qkv.out", ("b", "s", "a"), (self.batch, self.sequence, 3 * h))
        for name in ("scores", "probabilities", "d.probabilities", "d.scores"):
            self._value(name, ("b", "a", "s", "t"), (self.batch, heads, self.sequence, self.sequence))
        for name in ("context", "d.context", "d.query", "d.key", "d.value"):
            self._value(name, ("b", "s", "a"), hidden)
        for name in ("h_to_4h.out", "gelu.out", "d.gelu", "d.h_to_4h"):
            self._value(name, ("b", "s", "f"), (self.batch, self.sequence, f))
        for name in ("d.x", "d.ln1", "d.ln2", "d.mlp_path"):
            self._value(name, stream, hidden)
        self._value("tokens", ("b", "s"), hidden[:2], dtype="int64", per_layer=False)
        for name in ("final_norm.out", "d.final_norm"):
            self._value(name, stream, hidden, per_layer=False)
        for name, dtype in (("logits", DTYPE), ("logits.fp32", "fp32"), ("d.logits", DTYPE)):
            self._value(name, ("b", "s", "v"), (self.batch, self.sequence, v), dtype=dtype, per_layer=False)

        self._weight("embedding.weight", "embedding", ("v", "h"), (v, h), per_layer=False)
        for module, dims, rows, columns in (
            ("qkv", ("a", "h"), 3 * h, h),
            ("dense", ("h", "a"), h, h),
            ("h_to_4h", ("f", "h"), f, h),
            ("4h_to_h", ("h", "f"), h, f),
        ):
            self._weight(f"{module}.weight", module, dims, (rows, columns))
            self._weight(f"{module}.bias", module, dims[:1], (rows,))
        for module in ("ln1", "ln2"):
            self._norm_weights(module, per_layer=True)
        self._norm_weights("final_norm", per_layer=False)
        self._weight("head.weight", "head", ("v", "h"), (v, h), per_layer=False)

    def _norm_weights(self, module: str, per_layer: bool) -> None:
        for part in ("weight", "bias"):
            self._weight(f"{module}.{part}", module, ("h",), (self.shape.hidden,), per_layer)

    def _value(
        self, name: str, dims: tuple[str, ...], shape: tuple[int, ...], dtype: str = DTYPE, per_layer: bool = True
    ) -> None:
        self.values[name] = Value(name=name, dims=dims, shape=shape, dtype=dtype, per_layer=per_layer)

    def _weight(
        self, name: str, module: str, dims: tuple[str, ...], shape: tuple[int, ...], per_layer: bool = True
    ) -> None:
        self.weights[name] = Weight(name=name, module=module, dims=dims, shape=shape, per_layer=per_layer)

    # ── ops ──

    def _matmul(self, name: str, labels: MatmulLabels, sizes: dict[str, int], **operands: tuple[object, ...]) -> WorkOp:
        every = tuple((label, sizes.get(label, self.size.get(label, 0))) for group in labels for label in group)
        flops = 2 * math.prod(size for _, size in every)
        return WorkOp(name=name, kind="matmul", iteration=every, matmul=labels, flops=flops, **operands)  # type: ignore[arg-type]

    def _pointwise(
        self, name: str, kind: str, labels: str, sizes: dict[str, int], **operands: tuple[object, ...]
    ) -> WorkOp:
        every = tuple((label, sizes.get(label, self.size.get(label, 0))) for label in labels)
        return WorkOp(name=name, kind=kind, iteration=every, **operands)  # type: ignore[arg-type]

    def _layer(self) -> Phase:
        return Phase(forward=self._layer_forward(), backward=self._layer_backward())

    def _layer_forward(self) -> tuple[WorkOp, ...]:
        h, heads = self.shape.hidden, {"a": self.shape.heads}
        rows = ("b", "s")
        return (
            self._pointwise(
                "ln1", "norm", "bsh", {}, reads=_here("x"), writes=_here("ln1.out"), weights=("ln1.weight", "ln1.bias")
            ),
            self._linear("qkv", (rows, ("a",), ("h",)), {"a": 3 * h}, "ln1.out", "qkv.out"),
            self._matmul(
                "scores", (("b", "a"), ("s",), ("t",), ("d",)), heads, reads=_here("qkv.out"), writes=_here("scores")
            ),
            self._pointwise("softmax", "softmax", "bast", heads, reads=_here("scores"), writes=_here("probabilities")),
            self._matmul(
                "context",
                (("b", "a"), ("s",), ("d",), ("t",)),
                heads,
                reads=_here("probabilities", "qkv.out"),
                writes=_here("context"),
            ),
            self._linear("dense", (rows, ("h",), ("a",)), {"a": h}, "context", "attention.out"),
            self._pointwise(
                "ln2", "norm", "bsh", {}, reads=_here("x"), writes=_here("ln2.out"), weights=("ln2.weight", "ln2.bias")
            ),
            self._linear("h_to_4h", (rows, ("f",), ("h",)), {}, "ln2.out", "h_to_4h.out"),
            self._pointwise("gelu", "gelu", "bsf", {}, reads=_here("h_to_4h.out"), writes=_here("gelu.out")),
            self._linear("4h_to_h", (rows, ("h",), ("f",)), {}, "gelu.out", "mlp.out"),
            self._pointwise(
                "residual", "add", "bsh", {}, reads=_here("x", "attention.out", "mlp.out"), writes=(("x", 1),)
            ),
        )

    def _linear(
        self, module: str, mnk: tuple[tuple[str, ...], ...], sizes: dict[str, int], source: str, target: str
    ) -> WorkOp:
        m, n, k = mnk
        return self._matmul(
            module,
            ((), m, n, k),
            sizes,
            reads=_here(source),
            writes=_here(target),
            weights=(f"{module}.weight", f"{module}.bias"),
        )

    def _linear_backward(
        self,
        module: str,
        mnk: tuple[tuple[str, ...], ...],
        sizes: dict[str, int],
        gradient: tuple[Use, ...],
        source: str,
        target: str,
    ) -> tuple[WorkOp, WorkOp]:
        m, n, k = mnk
        return (
            self._matmul(
                f"{module}.dgrad",
                ((), m, k, n),
                sizes,
                reads=gradient,
                writes=_here(target),
                weights=(f"{module}.weight",),
            ),
            self._matmul(
                f"{module}.wgrad",
                ((), n, k, m),
                sizes,
                reads=(*gradient, *_here(source)),
                gradients=tuple(w for w in (f"{module}.weight", f"{module}.bias") if w in self.weights),
            ),
        )

    def _norm_backward(self, module: str, reads: tuple[Use, ...], target: str) -> WorkOp:
        weight, bias = f"{module}.weight", f"{module}.bias"
        return self._pointwise(
            f"{module}.backward",
            "norm",
            "bsh",
            {},
            reads=reads,
            writes=_here(target),
            weights=(weight,),
            gradients=(weight, bias),
        )

    def _layer_backward(self) -> tuple[WorkOp, ...]:
        h, heads = self.shape.hidden, {"a": self.shape.heads}
        rows, out = ("b", "s"), (("d.x", 1),)
        per_head = ("b", "a")
        return (
            *self._linear_backward("4h_to_h", (rows, ("h",), ("f",)), {}, out, "gelu.out", "d.gelu"),
            self._pointwise(
                "gelu.backward", "gelu", "bsf", {}, reads=_here("d.gelu", "h_to_4h.out"), writes=_here("d.h_to_4h")
            ),
            *self._linear_backward("h_to_4h", (rows, ("f",), ("h",)), {}, _here("d.h_to_4h"), "ln2.out", "d.ln2"),
            self._norm_backward("ln2", _here("d.ln2", "x"), "d.mlp_path"),
            *self._linear_backward("dense", (rows, ("h",), ("a",)), {"a": h}, out, "context", "d.context"),
            self._matmul(
                "context.dprobabilities",
                (per_head, ("s",), ("t",), ("d",)),
                heads,
                reads=_here("d.context", "qkv.out"),
                writes=_here("d.probabilities"),
            ),
            self._matmul(
                "context.dvalue",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                reads=_here("probabilities", "d.context"),
                writes=_here("d.value"),
            ),
            self._pointwise(
                "softmax.backward",
                "softmax",
                "bast",
                heads,
                reads=_here("d.probabilities", "probabilities"),
                writes=_here("d.scores"),
            ),
            self._matmul(
                "scores.dquery",
                (per_head, ("s",), ("d",), ("t",)),
                heads,
                reads=_here("d.scores", "qkv.out"),
                writes=_here("d.query"),
            ),
            self._matmul(
                "scores.dkey",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                reads=_here("d.scores", "qkv.out"),
                writes=_here("d.key"),
            ),
            *self._linear_backward(
                "qkv",
                (rows, ("a",), ("h",)),
                {"a": 3 * h},
                _here("d.query", "d.key", "d.value"),
                "ln1.out",
                "d.ln1",
            ),
            self._norm_backward("ln1", (*_here("d.ln1", "x", "d.mlp_path"), *out), "d.x"),
        )

    def _embedding(self) -> Phase:
        table = ("embedding.weight",)
        return Phase(
            forward=(
                self._pointwise(
                    "embedding", "lookup", "bsh", {}, reads=_here("tokens"), writes=_here("x"), weights=table
                ),
            ),
            backward=(
                self._pointwise("embedding.wgrad", "scatter", "bsh", {}, reads=_here("tokens", "d.x"), gradients=table),
            ),
        )

    def _head(self) -> Phase:
        rows = ("b", "s")
        weight = ("head.weight",)
        return Phase(
            forward=(
                self._pointwise(
                    "final_norm",
                    "norm",
                    "bsh",
                    {},
                    reads=_here("x"),
                    writes=_here("final_norm.out"),
                    weights=("final_norm.weight", "final_norm.bias"),
                ),
                self._matmul(
                    "head",
                    ((), rows, ("v",), ("h",)),
                    {},
                    reads=_here("final_norm.out"),
                    writes=_here("logits"),
                    weights=weight,
                ),
                self._pointwise("to_fp32", "cast", "bsv", {}, reads=_here("logits"), writes=_here("logits.fp32")),
            ),
            backward=(
                self._pointwise("loss", "loss", "bsv", {}, reads=_here("logits.fp32"), writes=_here("d.logits")),
                *self._linear_backward(
                    "head", (rows, ("v",), ("h",)), {}, _here("d.logits"), "final_norm.out", "d.final_norm"
                ),
                self._norm_backward("final_norm", _here("d.final_norm", "x"), "d.x"),
            ),
        )
