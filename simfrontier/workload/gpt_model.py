"""The decoder GPT as a graph of ops: attention and MLP side by side on the residual stream, as in GPT-NeoX-20B, or one
after the other, as in Megatron-LM.

Labels: b sample, s position, t position attended to, h hidden feature, a feature of a head (heads × something), d
feature inside a head, f feed-forward feature, v vocabulary entry, e one of two entries. A head dimension is labelled a
wherever heads may be split. Dropout is off, as in the published 20B configuration; the rotary embedding of a quarter of
the query and key features (under 0.5 % of a layer's traffic) is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from simfrontier.errors import InputError
from simfrontier.opnames import Part
from simfrontier.workload.catalog import GptShape
from simfrontier.workload.graph import Phase, Use, Workload, WorkOp
from simfrontier.workload.graph_builder import GraphBuilder, Softmax, here
from simfrontier.workload.precision import Precision, find_precision

Attention = Literal["plain", "fused"]
_PER_HEAD = (("b", "a"), ("s",), ("t",), ("d",))  # every position with every other, head by head


def gpt(
    shape: GptShape,
    batch: int,
    checkpointing: bool,
    sequence: int | None = None,
    precision: str = "fp16",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
) -> Workload:
    """The graph of one micro-batch of `batch` sequences over all data-parallel ranks together; `precision` is fp16,
    bf16, fp32 or fp64. `attention`: with scores in memory (`plain`), or as one op that keeps them to itself (`fused`,
    as FlashAttention does, arXiv 2205.14135). `softmax`: the kernel of scores in memory and of the loss. Raises
    InputError."""
    length = shape.sequence if sequence is None else sequence
    for key, value in (("batch", batch), ("sequence", length)):
        if value < 1:
            raise InputError(f"model {shape.name}: {key} = {value}; allowed: 1 or more")
    return _Gpt(shape, batch, length, find_precision(precision), attention, softmax).workload(checkpointing)


class _Gpt(GraphBuilder):
    """The phases of the model."""

    def __init__(
        self,
        shape: GptShape,
        batch: int,
        sequence: int,
        precision: Precision,
        attention: Attention = "plain",
        softmax: Softmax = "fused",
    ) -> None:
        self.shape, self.batch, self.sequence, self.attention = shape, batch, sequence, attention
        sizes = {
            "b": batch,
            "s": sequence,
            "t": sequence,
            "h": shape.hidden,
            "d": shape.hidden // shape.heads,
            "f": 4 * shape.hidden,
            "v": shape.vocabulary,
        }
        self.is_parallel = shape.residual == "parallel"
        self.before_mlp = "x" if self.is_parallel else "middle"  # the stream that the MLP starts from
        self.table = "embedding" if shape.tied else "head"
        super().__init__(precision, sizes, rows=("b", "s"), softmax=softmax)

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
            traits={
                "residual": self.shape.residual,
                "tied": int(self.shape.tied),
                "attention": self.attention,
                "heads": self.shape.heads,
                **self.softmax_trait,
            },
        )

    # ── tensors ──

    def _declare(self) -> None:
        h, f, v, heads = self.shape.hidden, 4 * self.shape.hidden, self.shape.vocabulary, self.shape.heads
        stream = ("b", "s", "h")
        hidden = (self.batch, self.sequence, h)
        for name in ("x", "ln1.out", "attention.out", "ln2.out", "mlp.out"):
            self.value(name, stream, hidden)
        self.value("qkv.out", ("b", "s", "a"), (self.batch, self.sequence, 3 * h))
        squares = () if self.attention == "fused" else ("scores", "probabilities", "d.probabilities", "d.scores")
        for name in squares:
            self.value(name, ("b", "a", "s", "t"), (self.batch, heads, self.sequence, self.sequence))
        for name in ("context", "d.context", "d.query", "d.key", "d.value"):
            self.value(name, ("b", "s", "a"), hidden)
        for name in ("h_to_4h.out", "gelu.out", "d.gelu", "d.h_to_4h"):
            self.value(name, ("b", "s", "f"), (self.batch, self.sequence, f))
        for name in ("d.x", "d.ln1", "d.ln2", "d.mlp_path" if self.is_parallel else "d.middle"):
            self.value(name, stream, hidden)
        if not self.is_parallel:
            self.value("middle", stream, hidden)
        for norm in ("ln1", "ln2"):
            self._norm_values(norm, per_layer=True)
        self.value("tokens", ("b", "s"), hidden[:2], dtype="int64", per_layer=False, persistent=True)
        for name in ("final_norm.out", "d.final_norm"):
            self.value(name, stream, hidden, per_layer=False)
        self._norm_values("final_norm", per_layer=False)
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
        if not self.shape.tied:
            self.weight("head.weight", "head", ("v", "h"), (v, h), per_layer=False)

    def _norm_values(self, module: str, per_layer: bool) -> None:
        """What a norm sums over its features first where they are cut."""
        for name in (f"{module}.moments", f"d.{module}.moments"):
            shape, wide = (self.batch, self.sequence, 2), self.precision.wide
            self.value(name, ("b", "s", "e"), shape, dtype=wide, per_layer=per_layer, where_cut="h")

    def _norm_weights(self, module: str, per_layer: bool) -> None:
        for part in ("weight", "bias"):
            self.weight(f"{module}.{part}", module, ("h",), (self.shape.hidden,), per_layer)

    # ── ops ──

    def _layer(self) -> Phase:
        return Phase(forward=self._layer_forward(), backward=self._layer_backward())

    def _layer_forward(self) -> tuple[WorkOp, ...]:
        h = self.shape.hidden
        attention = (
            *self._norm("ln1", "x"),
            *self._attention(),
            self.linear("dense", "ha", "context", "attention.out", {"a": h}),
        )
        mlp = (
            *self._norm("ln2", self.before_mlp),
            self.linear("h_to_4h", "fh", "ln2.out", "h_to_4h.out"),
            self.pointwise("gelu", "gelu", "bsf", reads=here("h_to_4h.out"), writes=here("gelu.out")),
            self.linear("4h_to_h", "hf", "gelu.out", "mlp.out"),
        )
        if self.is_parallel:
            return *attention, *mlp, self._add("residual", here("x", "attention.out", "mlp.out"), (("x", 1),))
        first = self._add("attention.residual", here("x", "attention.out"), here("middle"))
        return *attention, first, *mlp, self._add("residual", here("middle", "mlp.out"), (("x", 1),))

    def _add(self, name: str, reads: tuple[Use, ...], writes: tuple[Use, ...]) -> WorkOp:
        return self.pointwise(name, "add", "bsh", reads=reads, writes=writes)

    def _attention(self) -> tuple[WorkOp, ...]:
        qkv = self.linear("qkv", "ah", "ln1.out", "qkv.out", {"a": 3 * self.shape.hidden})
        return qkv, *(self._fused() if self.attention == "fused" else self._unfused())

    def _fused(self) -> tuple[WorkOp, ...]:
        """Two products of every position with every other, nothing of which reaches memory."""
        return (self._fused_op(None, 2, here("qkv.out"), here("context")),)

    def _fused_op(self, part: Part | None, products: int, reads: tuple[Use, ...], writes: tuple[Use, ...]) -> WorkOp:
        op = self.matmul("attention", _PER_HEAD, {"a": self.shape.heads}, part, reads=reads, writes=writes)
        return replace(op, kind="attention", flops=products * op.flops)

    def _unfused(self) -> tuple[WorkOp, ...]:
        heads = {"a": self.shape.heads}
        return (
            self.matmul("scores", _PER_HEAD, heads, reads=here("qkv.out"), writes=here("scores")),
            self.pointwise(
                "softmax",
                "softmax",
                "bast",
                heads,
                kernel=self.kernel,
                reads=here("scores"),
                writes=here("probabilities"),
            ),
            self.matmul(
                "context",
                (("b", "a"), ("s",), ("d",), ("t",)),
                heads,
                reads=here("probabilities", "qkv.out"),
                writes=here("context"),
            ),
        )

    def _norm(self, module: str, source: str) -> tuple[WorkOp, ...]:
        """A norm, after its sums over cut features."""
        out = "final_norm.out" if module == "final_norm" else f"{module}.out"
        moments = f"{module}.moments"
        return (
            self.pointwise(
                module, "norm_sums", "bsh", is_sums=True, where_cut="h", reads=here(source), writes=here(moments)
            ),
            self.pointwise(
                module,
                "norm",
                "bsh",
                reads=here(source, moments),
                writes=here(out),
                weights=(f"{module}.weight", f"{module}.bias"),
            ),
        )

    def _norm_backward(self, module: str, source: str, target: str, others: tuple[Use, ...] = ()) -> tuple[WorkOp, ...]:
        """A norm's backward from `d.module`; `others` are gradients of the same stream, added to its input's."""
        weight, bias = f"{module}.weight", f"{module}.bias"
        before = here(f"d.{module}", source, f"{module}.moments")
        sums = f"d.{module}.moments"
        return (
            self.pointwise(
                module,
                "norm_sums",
                "bsh",
                part="backward",
                is_sums=True,
                where_cut="h",
                reads=before,
                writes=here(sums),
                weights=(weight,),
            ),
            self.pointwise(
                module,
                "norm",
                "bsh",
                part="backward",
                reads=(*before, *here(sums), *others),
                writes=here(target),
                weights=(weight,),
                gradients=(weight, bias),
            ),
        )

    def _layer_backward(self) -> tuple[WorkOp, ...]:
        h = self.shape.hidden
        out = (("d.x", 1),)
        after_attention = out if self.is_parallel else here("d.middle")
        mlp = (
            *self.linear_backward("4h_to_h", "hf", out, "gelu.out", "d.gelu"),
            self.pointwise(
                "gelu", "gelu", "bsf", part="backward", reads=here("d.gelu", "h_to_4h.out"), writes=here("d.h_to_4h")
            ),
            *self.linear_backward("h_to_4h", "fh", here("d.h_to_4h"), "ln2.out", "d.ln2"),
        )
        if self.is_parallel:
            norm = self._norm_backward("ln2", "x", "d.mlp_path")
            others = (*here("d.mlp_path"), *out)
        else:
            norm = self._norm_backward("ln2", "middle", "d.middle", out)
            others = here("d.middle")
        return (
            *mlp,
            *norm,
            *self.linear_backward("dense", "ha", after_attention, "context", "d.context", {"a": h}),
            *self._attention_backward(),
            *self.linear_backward("qkv", "ah", here("d.query", "d.key", "d.value"), "ln1.out", "d.ln1", {"a": 3 * h}),
            *self._norm_backward("ln1", "x", "d.x", others),
        )

    def _attention_backward(self) -> tuple[WorkOp, ...]:
        if self.attention == "fused":  # scores again, then the gradients of probabilities, queries, keys and values
            reads, writes = here("d.context", "qkv.out", "context"), here("d.query", "d.key", "d.value")
            return (self._fused_op("backward", 5, reads, writes),)
        heads, per_head = {"a": self.shape.heads}, ("b", "a")
        return (
            self.matmul(
                "context",
                (per_head, ("s",), ("t",), ("d",)),
                heads,
                part="dprobabilities",
                reads=here("d.context", "qkv.out"),
                writes=here("d.probabilities"),
            ),
            self.matmul(
                "context",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                part="dvalue",
                reads=here("probabilities", "d.context"),
                writes=here("d.value"),
            ),
            self.pointwise(
                "softmax",
                "softmax",
                "bast",
                heads,
                part="backward",
                reads=here("d.probabilities", "probabilities"),
                writes=here("d.scores"),
            ),
            self.matmul(
                "scores",
                (per_head, ("s",), ("d",), ("t",)),
                heads,
                part="dquery",
                reads=here("d.scores", "qkv.out"),
                writes=here("d.query"),
            ),
            self.matmul(
                "scores",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                part="dkey",
                reads=here("d.scores", "qkv.out"),
                writes=here("d.key"),
            ),
        )

    def _embedding(self) -> Phase:
        table = ("embedding.weight",)
        return Phase(
            forward=(
                self.pointwise("embedding", "lookup", "bshv", reads=here("tokens"), writes=here("x"), weights=table),
            ),
            backward=(
                self.pointwise(
                    "embedding", "scatter", "bshv", part="wgrad", reads=here("tokens", "d.x"), gradients=table
                ),
            ),
        )

    def _head(self) -> Phase:
        return Phase(
            forward=(*self._norm("final_norm", "x"), *self.classifier("vh", "final_norm.out", self.table)),
            backward=(
                *self.classifier_backward("vh", "final_norm.out", "d.final_norm", self.table),
                *self._norm_backward("final_norm", "x", "d.x"),
            ),
        )
