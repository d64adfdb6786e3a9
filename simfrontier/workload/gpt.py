"""The decoder GPT as a graph of ops: attention and MLP side by side on the residual stream, as in GPT-NeoX-20B.

Labels: b sample, s position, t position attended to, h hidden feature, a feature of a head (heads × something), d
feature inside a head, f feed-forward feature, v vocabulary entry. A head dimension is labelled a wherever heads may be
split. Dropout is off, as in the published 20B configuration; the rotary embedding of a quarter of the query and key
features (under 0.5 % of a layer's traffic) is left out.
"""

from __future__ import annotations

from simfrontier.errors import InputError
from simfrontier.workload.catalog import GptShape
from simfrontier.workload.draft import Draft, here
from simfrontier.workload.graph import Phase, Use, Workload, WorkOp
from simfrontier.workload.precision import Precision, find_precision


def gpt(
    shape: GptShape, batch: int, checkpointing: bool, sequence: int | None = None, precision: str = "fp16"
) -> Workload:
    """The graph of one micro-batch of `batch` sequences over all data-parallel ranks together; `precision` is fp16,
    bf16, fp32 or fp64. Raises InputError."""
    length = shape.sequence if sequence is None else sequence
    for key, value in (("batch", batch), ("sequence", length)):
        if value < 1:
            raise InputError(f"model {shape.name}: {key} = {value}; allowed: 1 or more")
    return _Gpt(shape, batch, length, find_precision(precision)).workload(checkpointing)


class _Gpt(Draft):
    """The model's phases, written down one after the other."""

    def __init__(self, shape: GptShape, batch: int, sequence: int, precision: Precision) -> None:
        self.shape, self.batch, self.sequence = shape, batch, sequence
        sizes = {
            "b": batch,
            "s": sequence,
            "t": sequence,
            "h": shape.hidden,
            "d": shape.hidden // shape.heads,
            "f": 4 * shape.hidden,
            "v": shape.vocabulary,
        }
        super().__init__(precision, sizes, rows=("b", "s"))

    def workload(self, checkpointing: bool) -> Workload:
        self._declare()
        return Workload(
            name=self.shape.name,
            batch=self.batch,
            sequence=self.sequence,
            num_layers=self.shape.num_layers,
            checkpointing=checkpointing,
            precision=self.precision,
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
            self.value(name, stream, hidden)
        self.value("qkv.out", ("b", "s", "a"), (self.batch, self.sequence, 3 * h))
        for name in ("scores", "probabilities", "d.probabilities", "d.scores"):
            self.value(name, ("b", "a", "s", "t"), (self.batch, heads, self.sequence, self.sequence))
        for name in ("context", "d.context", "d.query", "d.key", "d.value"):
            self.value(name, ("b", "s", "a"), hidden)
        for name in ("h_to_4h.out", "gelu.out", "d.gelu", "d.h_to_4h"):
            self.value(name, ("b", "s", "f"), (self.batch, self.sequence, f))
        for name in ("d.x", "d.ln1", "d.ln2", "d.mlp_path"):
            self.value(name, stream, hidden)
        self.value("tokens", ("b", "s"), hidden[:2], dtype="int64", per_layer=False, persistent=True)
        for name in ("final_norm.out", "d.final_norm"):
            self.value(name, stream, hidden, per_layer=False)
        self.logits("v")

        self.weight("embedding.weight", "embedding", ("v", "h"), (v, h), per_layer=False)
        for module, dims, rows, columns in (
            ("qkv", ("a", "h"), 3 * h, h),
            ("dense", ("h", "a"), h, h),
            ("h_to_4h", ("f", "h"), f, h),
            ("4h_to_h", ("h", "f"), h, f),
        ):
            self.linear_weights(module, dims, (rows, columns))
        for module in ("ln1", "ln2"):
            self._norm_weights(module, per_layer=True)
        self._norm_weights("final_norm", per_layer=False)
        self.weight("head.weight", "head", ("v", "h"), (v, h), per_layer=False)

    def _norm_weights(self, module: str, per_layer: bool) -> None:
        for part in ("weight", "bias"):
            self.weight(f"{module}.{part}", module, ("h",), (self.shape.hidden,), per_layer)

    # ── ops ──

    def _layer(self) -> Phase:
        return Phase(forward=self._layer_forward(), backward=self._layer_backward())

    def _layer_forward(self) -> tuple[WorkOp, ...]:
        h, heads = self.shape.hidden, {"a": self.shape.heads}
        return (
            self.pointwise(
                "ln1", "norm", "bsh", reads=here("x"), writes=here("ln1.out"), weights=("ln1.weight", "ln1.bias")
            ),
            self.linear("qkv", "ah", "ln1.out", "qkv.out", {"a": 3 * h}),
            self.matmul(
                "scores", (("b", "a"), ("s",), ("t",), ("d",)), heads, reads=here("qkv.out"), writes=here("scores")
            ),
            self.pointwise("softmax", "softmax", "bast", heads, reads=here("scores"), writes=here("probabilities")),
            self.matmul(
                "context",
                (("b", "a"), ("s",), ("d",), ("t",)),
                heads,
                reads=here("probabilities", "qkv.out"),
                writes=here("context"),
            ),
            self.linear("dense", "ha", "context", "attention.out", {"a": h}),
            self.pointwise(
                "ln2", "norm", "bsh", reads=here("x"), writes=here("ln2.out"), weights=("ln2.weight", "ln2.bias")
            ),
            self.linear("h_to_4h", "fh", "ln2.out", "h_to_4h.out"),
            self.pointwise("gelu", "gelu", "bsf", reads=here("h_to_4h.out"), writes=here("gelu.out")),
            self.linear("4h_to_h", "hf", "gelu.out", "mlp.out"),
            self.pointwise("residual", "add", "bsh", reads=here("x", "attention.out", "mlp.out"), writes=(("x", 1),)),
        )

    def _norm_backward(self, module: str, reads: tuple[Use, ...], target: str) -> WorkOp:
        weight, bias = f"{module}.weight", f"{module}.bias"
        return self.pointwise(
            f"{module}.backward",
            "norm",
            "bsh",
            reads=reads,
            writes=here(target),
            weights=(weight,),
            gradients=(weight, bias),
        )

    def _layer_backward(self) -> tuple[WorkOp, ...]:
        h, heads = self.shape.hidden, {"a": self.shape.heads}
        out = (("d.x", 1),)
        per_head = ("b", "a")
        return (
            *self.linear_backward("4h_to_h", "hf", out, "gelu.out", "d.gelu"),
            self.pointwise(
                "gelu.backward", "gelu", "bsf", reads=here("d.gelu", "h_to_4h.out"), writes=here("d.h_to_4h")
            ),
            *self.linear_backward("h_to_4h", "fh", here("d.h_to_4h"), "ln2.out", "d.ln2"),
            self._norm_backward("ln2", here("d.ln2", "x"), "d.mlp_path"),
            *self.linear_backward("dense", "ha", out, "context", "d.context", {"a": h}),
            self.matmul(
                "context.dprobabilities",
                (per_head, ("s",), ("t",), ("d",)),
                heads,
                reads=here("d.context", "qkv.out"),
                writes=here("d.probabilities"),
            ),
            self.matmul(
                "context.dvalue",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                reads=here("probabilities", "d.context"),
                writes=here("d.value"),
            ),
            self.pointwise(
                "softmax.backward",
                "softmax",
                "bast",
                heads,
                reads=here("d.probabilities", "probabilities"),
                writes=here("d.scores"),
            ),
            self.matmul(
                "scores.dquery",
                (per_head, ("s",), ("d",), ("t",)),
                heads,
                reads=here("d.scores", "qkv.out"),
                writes=here("d.query"),
            ),
            self.matmul(
                "scores.dkey",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                reads=here("d.scores", "qkv.out"),
                writes=here("d.key"),
            ),
            *self.linear_backward("qkv", "ah", here("d.query", "d.key", "d.value"), "ln1.out", "d.ln1", {"a": 3 * h}),
            self._norm_backward("ln1", (*here("d.ln1", "x", "d.mlp_path"), *out), "d.x"),
        )

    def _embedding(self) -> Phase:
        table = ("embedding.weight",)
        return Phase(
            forward=(
                self.pointwise("embedding", "lookup", "bsh", reads=here("tokens"), writes=here("x"), weights=table),
            ),
            backward=(
                self.pointwise("embedding.wgrad", "scatter", "bsh", reads=here("tokens", "d.x"), gradients=table),
            ),
        )

    def _head(self) -> Phase:
        return Phase(
            forward=(
                self.pointwise(
                    "final_norm",
                    "norm",
                    "bsh",
                    reads=here("x"),
                    writes=here("final_norm.out"),
                    weights=("final_norm.weight", "final_norm.bias"),
                ),
                *self.classifier("vh", "final_norm.out"),
            ),
            backward=(
                *self.classifier_backward("vh", "final_norm.out", "d.final_norm"),
                self._norm_backward("final_norm", here("d.final_norm", "x"), "d.x"),
            ),
        )
