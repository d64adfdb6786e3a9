"""The decoder GPT as a graph of ops. Attention and MLP are parallel on the residual stream, as in GPT-NeoX-20B, or
sequential, as in Megatron-LM.

Labels of dimensions: b sample, s position, t position attended to, p row of a table of positions, h hidden feature, a
feature of all heads (heads × features per head), d feature inside a head, f feed-forward feature, v vocabulary entry, e
index of a norm's sum (two sums). A dimension over heads is labelled a wherever heads may be split. Where several query
heads share a key and a value head (GQA), the features of qkv are ordered by groups: the queries of a group, its key,
its value. The first matrix product of a gated MLP has 2f output features, gate and up side by side.

Not modelled: the rotary embedding of a quarter of the query and key features of GPT-NeoX (under 0.5 % of a layer's
memory traffic), and dropout after the embedding.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from simfrontier.core.program import Part
from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.graph import Attention, Checkpointing, Phase, Precision, Workload, WorkOp, find_precision
from simfrontier.core.workload.graph_builder import GraphBuilder, Softmax


def gpt(
    shape: GptArchitecture,
    batch: int,
    checkpointing: Checkpointing,
    precision: str = "fp16",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
) -> Workload:
    """Return the graph of one micro-batch of `batch` sequences, summed over all data-parallel ranks. `precision`: fp16,
    bf16, fp32 or fp64. `attention`: `plain`, with scores in memory, or `fused`, one op that keeps scores on the chip
    (FlashAttention, arXiv 2205.14135). `softmax`: the softmax kernel for scores in memory and for the loss. Raises
    InputError."""
    return _Gpt(shape, batch, find_precision(precision), attention, softmax).workload(checkpointing)


class _Gpt(GraphBuilder):
    """Builder of a GPT's graph."""

    def __init__(
        self, shape: GptArchitecture, batch: int, precision: Precision, attention: Attention, softmax: Softmax
    ) -> None:
        self.shape, self.attention = shape, attention
        sizes = {
            "b": batch,
            "s": shape.sequence,
            "t": shape.sequence,
            "h": shape.hidden,
            "a": shape.query_features,
            "p": shape.sequence,
            "d": shape.head_features,
            "f": shape.feed_forward,
            "v": shape.padded_vocabulary,
        }
        super().__init__(precision, sizes, rows=("b", "s"), softmax=softmax)
        self.is_parallel = shape.residual == "parallel"
        self.before_mlp = "x" if self.is_parallel else "middle"  # the stream that the MLP starts from
        self.table = "embedding" if shape.tied else "head"
        self.norm_kind = "norm" if shape.norm == "layernorm" else "rmsnorm"
        self.bend = "swiglu" if shape.gated else "gelu"  # what is not linear in the MLP
        self.is_rotary = shape.positions == "rotary"
        self.projected = "query.out key.out value.out" if self.is_rotary else "qkv.out"
        """What qkv makes: queries, keys and values apart where the first two are rotated."""
        self.query, self.key, self.of_value = (
            ("rotary.query", "rotary.key", "value.out") if self.is_rotary else ("qkv.out",) * 3
        )
        self.query_and_key = " ".join(dict.fromkeys((self.query, self.key)))
        self.attended = " ".join(dict.fromkeys((self.query, self.key, self.of_value)))
        self.dropped = "probabilities.dropped" if shape.dropout else "probabilities"
        self.unrotated = "d.rotary.query d.rotary.key" if self.is_rotary else "d.query d.key"
        self.heads = {"a": shape.heads}  # the size of `a` where heads are counted
        self.joint = {
            "a": shape.query_features + 2 * shape.key_features
        }  # where it has queries, keys and values together
        self.rise = {"f": shape.feed_forward * (2 if shape.gated else 1)}  # features of the MLP's first product

    def workload(self, checkpointing: Checkpointing) -> Workload:
        self._declare()
        return Workload(
            name=self.shape.name,
            batch=self.sizes["b"],
            sequence=self.shape.sequence,
            num_layers=self.shape.num_layers,
            checkpointing=checkpointing,
            precision=self.precision,
            embedding=self._embedding(),
            layer=self._layer(),
            head=self._head(),
            values=self.values,
            weights=self.weights,
            core=("scores", "softmax", "probabilities.dropout", "context") if self.attention == "plain" else (),
            traits={
                "residual": self.shape.residual,
                "tied": int(self.shape.tied),
                "attention": self.attention,
                "heads": self.shape.heads,
                **self._other_traits(),
                **self.softmax_trait,
            },
        )

    def _other_traits(self) -> dict[str, str | int]:
        """Return the traits in which the model differs from the default architecture."""
        shape = self.shape
        given: dict[str, tuple[str | int, str | int]] = {
            "kv_heads": (shape.key_heads, shape.heads),
            "gated": (int(shape.gated), 0),
            "norm": (shape.norm, "layernorm"),
            "biases": (int(shape.biases), 1),
            "positions": (shape.positions, "none"),
            "embedding_norm": (int(shape.embedding_norm), 0),
            "causal": (int(shape.causal), 0),
            "dropout": (int(shape.dropout), 0),
        }
        return {key: value for key, (value, usual) in given.items() if value != usual}

    # ── tensors ──

    def _declare(self) -> None:
        self._declare_layer()
        self._declare_ends()
        self._declare_weights()

    def _declare_layer(self) -> None:
        self.declare("bsh", "x", "ln1.out", "attention.out", "ln2.out", "mlp.out", "d.x", "d.ln1", "d.ln2")
        self.declare("bsh", *(("d.mlp_path",) if self.is_parallel else ("middle", "d.middle")))
        for norm in ("ln1", "ln2"):
            self._declare_moments(norm, per_layer=True)
        of_keys = {"a": self.shape.key_features}
        self.declare("bsa", "context", "d.context", "d.query")
        self.declare("bsa", "d.key", "d.value", sizes=of_keys)
        if self.is_rotary:
            self.declare("bsa", "query.out", "rotary.query", "d.rotary.query")
            self.declare("bsa", "key.out", "value.out", "rotary.key", "d.rotary.key", sizes=of_keys)
        else:
            self.declare("bsa", "qkv.out", sizes=self.joint)
        if self.attention == "plain":
            self.declare("bast", "scores", "probabilities", "d.probabilities", "d.scores", sizes=self.heads)
        self.declare("bsf", "h_to_4h.out", "d.h_to_4h", sizes=self.rise)
        self.declare("bsf", f"{self.bend}.out", f"d.{self.bend}")
        if self.shape.dropout:
            self.declare("bsh", "attention.dropped", "mlp.dropped", "d.attention", "d.mlp")
            self.declare("bsh", "attention.mask", "mlp.mask", dtype="uint8")
            if self.attention == "plain":
                self.declare("bast", "probabilities.dropped", "d.probabilities.dropped", sizes=self.heads)
                self.declare("bast", "probabilities.mask", sizes=self.heads, dtype="uint8")

    def _declare_ends(self) -> None:
        self.declare("bs", "tokens", dtype="int64", per_layer=False, persistent=True)
        self.declare("bsh", *self._embedded(), "final_norm.out", "d.final_norm", per_layer=False)
        self._declare_moments("final_norm", per_layer=False)
        if self.shape.embedding_norm:
            self.declare("bsh", "d.embedding", per_layer=False)
            self._declare_moments("embedding_norm", per_layer=False)
        self.logits("v")

    def _declare_moments(self, norm: str, per_layer: bool) -> None:
        """Declare the partial sums that a norm all-reduces if its features are split over ranks, forward and backward:
        two sums, or one for a norm without a mean."""
        names, sizes = (f"{norm}.moments", f"d.{norm}.moments"), {"e": 2 if self.norm_kind == "norm" else 1}
        self.declare("bse", *names, sizes=sizes, dtype=self.precision.wide, per_layer=per_layer, where_cut="h")

    def _declare_weights(self) -> None:
        self.weight("embedding", "weight", "vh", per_layer=False)
        if self.shape.positions == "learned":
            self.weight("positions", "weight", "ph", per_layer=False)
        if self.shape.embedding_norm:
            self._norm_weights("embedding_norm", per_layer=False)
        for module, nk, sizes in (
            ("qkv", "ah", self.joint),
            ("dense", "ha", {}),
            ("h_to_4h", "fh", self.rise),
            ("4h_to_h", "hf", {}),
        ):
            self.linear_weights(module, nk, sizes, has_bias=self.shape.biases)
        for module in ("ln1", "ln2"):
            self._norm_weights(module, per_layer=True)
        self._norm_weights("final_norm", per_layer=False)
        if not self.shape.tied:
            self.weight("head", "weight", "vh", per_layer=False)

    def _norm_weights(self, module: str, per_layer: bool) -> None:
        for part in ("weight", "bias") if self.shape.norms_have_biases else ("weight",):
            self.weight(module, part, "h", per_layer=per_layer)

    def _embedded(self) -> tuple[str, ...]:
        """Return the names of the values between the embedding's look-up and the residual stream, in order."""
        after = (self.shape.positions == "learned", self.shape.embedding_norm)
        return ("embedding.out", "positions.out")[: sum(after)] if after[0] else ("embedding.out",)[: sum(after)]

    # ── ops ──

    def _layer(self) -> Phase:
        return Phase(forward=self._layer_forward(), backward=self._layer_backward())

    def _layer_forward(self) -> tuple[WorkOp, ...]:
        attention = (
            *self._norm("ln1", "x"),
            *self._attention(),
            self.linear("dense", "ha", "context", "attention.out"),
            *self._dropout("attention", "attention.out"),
        )
        mlp = (
            *self._norm("ln2", self.before_mlp),
            self.linear("h_to_4h", "fh", "ln2.out", "h_to_4h.out", self.rise),
            self.pointwise(self.bend, self.bend, "bsf", "h_to_4h.out", f"{self.bend}.out"),
            self.linear("4h_to_h", "hf", f"{self.bend}.out", "mlp.out"),
            *self._dropout("mlp", "mlp.out"),
        )
        added, raised = ("attention.dropped", "mlp.dropped") if self.shape.dropout else ("attention.out", "mlp.out")
        if self.is_parallel:
            return *attention, *mlp, self.pointwise("residual", "add", "bsh", f"x {added} {raised}", "x@1")
        first = self.pointwise("attention.residual", "add", "bsh", f"x {added}", "middle")
        return *attention, first, *mlp, self.pointwise("residual", "add", "bsh", f"middle {raised}", "x@1")

    def _dropout(self, name: str, source: str, labels: str = "bsh") -> tuple[WorkOp, ...]:
        """Return the dropout op on a value; () if the model has no dropout."""
        if not self.shape.dropout:
            return ()
        op, writes = f"{name}.dropout", f"{name}.dropped {name}.mask"
        return (self.pointwise(op, "dropout", labels, source, writes, sizes=self.heads),)

    def _dropout_backward(self, name: str, gradient: str, target: str, labels: str = "bsh") -> tuple[WorkOp, ...]:
        if not self.shape.dropout:
            return ()
        op, reads = f"{name}.dropout", f"{gradient} {name}.mask"
        return (self.pointwise(op, "dropout", labels, reads, target, sizes=self.heads, part="backward"),)

    def _attention(self) -> tuple[WorkOp, ...]:
        qkv = self.linear("qkv", "ah", "ln1.out", self.projected, self.joint)
        core = self._fused() if self.attention == "fused" else self._unfused()
        if not self.is_rotary:
            return qkv, *core
        return qkv, self.pointwise("rotary", "rotary", "bsa", "query.out key.out", self.query_and_key), *core

    def _fused(self) -> tuple[WorkOp, ...]:
        """Return fused attention as one op: two batched matrix products over all pairs of positions, whose scores stay
        on the chip."""
        return (self._fused_op(None, 2, self.attended, "context"),)

    def _fused_op(self, part: Part | None, products: int, reads: str, writes: str) -> WorkOp:
        op = self._per_head("attention", "s|t|d", part, reads, writes)
        flops = products * op.flops
        if self.shape.causal:  # s (s + 1) / 2 of s² pairs
            flops = flops // (2 * self.shape.sequence) * (self.shape.sequence + 1)
        return replace(op, flops=flops)

    def _per_head(self, module: str, mnk: str, part: Part | None, reads: str, writes: str) -> WorkOp:
        """Return a matrix product of attention, batched over heads."""
        return self.matmul(module, f"ba|{mnk}", reads, writes, kind=module, sizes=self.heads, part=part)

    def _unfused(self) -> tuple[WorkOp, ...]:
        softmax = self.pointwise(
            "softmax", "softmax", "bast", "scores", "probabilities", sizes=self.heads, kernel=self.kernel
        )
        return (
            self._per_head("scores", "s|t|d", None, self.query_and_key, "scores"),
            softmax,
            *self._dropout("probabilities", "probabilities", "bast"),
            self._per_head("context", "s|d|t", None, f"{self.dropped} {self.of_value}", "context"),
        )

    def _norm(self, module: str, source: str, target: str = "") -> tuple[WorkOp, ...]:
        """Return the ops of a norm that writes `target` (default: `module.out`): the sums, needed only where features
        are split over ranks, then the norm itself."""
        moments, sums = f"{module}.moments", f"{self.norm_kind}_sums"
        out, weights = target or f"{module}.out", self._weights_of(module)
        return (
            self.pointwise(module, sums, "bsh", source, moments, is_sums=True, where_cut="h"),
            self.pointwise(module, self.norm_kind, "bsh", f"{source} {moments}", out, weights=weights),
        )

    def _norm_backward(
        self, module: str, source: str, target: str, others: str = "", gradient: str = ""
    ) -> tuple[WorkOp, ...]:
        """Return the ops of a norm's backward, from its output's gradient `gradient` (default: `d.module`); `others`
        are further gradients of the norm's input, which are added to its own."""
        weights, gradients = (f"{module}.weight",), self._weights_of(module)
        before = f"{gradient or f'd.{module}'} {source} {module}.moments"
        kind, sums = self.norm_kind, f"d.{module}.moments"
        back = partial(self.pointwise, part="backward", weights=weights)
        return (
            back(module, f"{kind}_sums", "bsh", before, sums, is_sums=True, where_cut="h"),
            back(module, kind, "bsh", f"{before} {sums} {others}", target, gradients=gradients),
        )

    def _layer_backward(self) -> tuple[WorkOp, ...]:
        bend, out = self.bend, "d.x@1"
        after_attention = out if self.is_parallel else "d.middle"
        of_mlp, of_attention = ("d.mlp", "d.attention") if self.shape.dropout else (out, after_attention)
        mlp = (
            *self._dropout_backward("mlp", out, "d.mlp"),
            *self.linear_backward("4h_to_h", "hf", of_mlp, f"{bend}.out", f"d.{bend}"),
            self.pointwise(bend, bend, "bsf", f"d.{bend} h_to_4h.out", "d.h_to_4h", part="backward"),
            *self.linear_backward("h_to_4h", "fh", "d.h_to_4h", "ln2.out", "d.ln2", self.rise),
        )
        if self.is_parallel:
            norm, others = self._norm_backward("ln2", "x", "d.mlp_path"), f"d.mlp_path {out}"
        else:
            norm, others = self._norm_backward("ln2", "middle", "d.middle", out), "d.middle"
        return (
            *mlp,
            *norm,
            *self._dropout_backward("attention", after_attention, "d.attention"),
            *self.linear_backward("dense", "ha", of_attention, "context", "d.context"),
            *self._attention_backward(),
            *self._rotary_backward(),
            *self.linear_backward("qkv", "ah", f"{self.unrotated} d.value", "ln1.out", "d.ln1", self.joint),
            *self._norm_backward("ln1", "x", "d.x", others),
        )

    def _rotary_backward(self) -> tuple[WorkOp, ...]:
        if not self.is_rotary:
            return ()
        return (self.pointwise("rotary", "rotary", "bsa", "d.query d.key", self.unrotated, part="backward"),)

    def _attention_backward(self) -> tuple[WorkOp, ...]:
        if self.attention == "fused":  # scores again, then the gradients of probabilities, queries, keys and values
            return (self._fused_op("backward", 5, f"d.context {self.attended} context", "d.query d.key d.value"),)
        dropped = "d.probabilities.dropped" if self.shape.dropout else "d.probabilities"
        reads = "d.probabilities probabilities"
        return (
            self._per_head("context", "s|t|d", "dprobabilities", f"d.context {self.of_value}", dropped),
            self._per_head("context", "t|d|s", "dvalue", f"{self.dropped} d.context", "d.value"),
            *self._dropout_backward("probabilities", dropped, "d.probabilities", "bast"),
            self.pointwise("softmax", "softmax", "bast", reads, "d.scores", sizes=self.heads, part="backward"),
            self._per_head("scores", "s|d|t", "dquery", f"d.scores {self.key}", "d.query"),
            self._per_head("scores", "t|d|s", "dkey", f"d.scores {self.query}", "d.key"),
        )

    def _embedding(self) -> Phase:
        """Return the embedding phase: the look-up in the table, then optional learned positions and an optional
        norm."""
        table, rows = ("embedding.weight",), ("positions.weight",)
        outs = (*self._embedded(), "x")
        gradient = "d.embedding" if self.shape.embedding_norm else "d.x"  # of what the tables give
        forward = [self.pointwise("embedding", "lookup", "bshv", "tokens", outs[0], weights=table)]
        backward = [self.pointwise("embedding", "scatter", "bshv", f"tokens {gradient}", part="wgrad", gradients=table)]
        if self.shape.positions == "learned":
            how = "positions", "add_positions", "bshp"
            forward.append(self.pointwise(*how, outs[0], outs[1], weights=rows))
            backward.insert(0, self.pointwise(*how, gradient, part="wgrad", gradients=rows))
        if self.shape.embedding_norm:
            forward += self._norm("embedding_norm", outs[-2], "x")
            backward = [*self._norm_backward("embedding_norm", outs[-2], gradient, gradient="d.x"), *backward]
        return Phase(forward=tuple(forward), backward=tuple(backward))

    def _head(self) -> Phase:
        return Phase(
            forward=(*self._norm("final_norm", "x"), *self.classifier("vh", "final_norm.out", self.table)),
            backward=(
                *self.classifier_backward("vh", "final_norm.out", "d.final_norm", self.table),
                *self._norm_backward("final_norm", "x", "d.x"),
            ),
        )
