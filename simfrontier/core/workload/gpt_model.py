"""The decoder GPT as a graph of ops: attention and MLP side by side on the residual stream, as in GPT-NeoX-20B, or one
after the other, as in Megatron-LM.

Labels: b sample, s position, t position attended to, p row of a table of positions, h hidden feature, a feature of a
head (heads × something), d feature inside a head, f feed-forward feature, v vocabulary entry, e one of two entries. A
head dimension is labelled a wherever heads may be split; where several heads share a key and a value (GQA), the
features of qkv lie by groups: the queries of a group, its key, its value. A gated MLP's first product has the feature f
twice, gate and up side by side. Left out: the rotary embedding of a quarter of the query and key features of GPT-NeoX
(under 0.5 % of a layer's traffic), and dropout of the embedding.
"""

from __future__ import annotations

from dataclasses import replace

from simfrontier.base.errors import InputError
from simfrontier.core.program import Part
from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.graph import Attention, Checkpointing, Phase, Use, Workload, WorkOp
from simfrontier.core.workload.graph_builder import GraphBuilder, Softmax, here
from simfrontier.core.workload.precision import Precision, find_precision

_PER_HEAD = (("b", "a"), ("s",), ("t",), ("d",))  # every position with every other, head by head


def gpt(
    shape: GptArchitecture,
    batch: int,
    checkpointing: Checkpointing,
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
    if shape.positions == "learned" and length > shape.sequence:
        raise InputError(
            f"model {shape.name}: sequence = {length}; allowed: up to {shape.sequence}, which have learned positions"
        )
    return _Gpt(shape, batch, length, find_precision(precision), attention, softmax).workload(checkpointing)


class _Gpt(GraphBuilder):
    """The phases of the model."""

    def __init__(
        self,
        shape: GptArchitecture,
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
            "p": shape.sequence,
            "d": shape.head_features,
            "f": shape.feed_forward,
            "v": shape.padded_vocabulary,
        }
        self.is_parallel = shape.residual == "parallel"
        self.before_mlp = "x" if self.is_parallel else "middle"  # the stream that the MLP starts from
        self.table = "embedding" if shape.tied else "head"
        self.norm_kind = "norm" if shape.norm == "layernorm" else "rmsnorm"
        self.bend = "swiglu" if shape.gated else "gelu"  # what is not linear in the MLP
        self.is_rotary = shape.positions == "rotary"
        query_key_value = "query.out", "key.out", "value.out"
        self.projected = query_key_value if self.is_rotary else ("qkv.out",)
        """What qkv makes: queries, keys and values apart where the first two are rotated."""
        self.query, self.key, self.of_value = (
            ("rotary.query", "rotary.key", "value.out") if self.is_rotary else ("qkv.out",) * 3
        )
        self.dropped = "probabilities.dropped" if shape.dropout else "probabilities"
        self.unrotated = ("d.rotary.query", "d.rotary.key") if self.is_rotary else ("d.query", "d.key")
        super().__init__(precision, sizes, rows=("b", "s"), softmax=softmax)

    def workload(self, checkpointing: Checkpointing) -> Workload:
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
        """What differs from a GPT's usual traits."""
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
        h, f, v, heads = self.sizes["h"], self.sizes["f"], self.sizes["v"], self.shape.heads
        joint, rise = self._joint, self._rise
        of_keys = (self.batch, self.sequence, self.shape.key_features)
        stream = ("b", "s", "h")
        hidden = (self.batch, self.sequence, h)
        for name in ("x", "ln1.out", "attention.out", "ln2.out", "mlp.out"):
            self.value(name, stream, hidden)
        if self.is_rotary:
            for name in ("query.out", "rotary.query", "d.rotary.query"):
                self.value(name, ("b", "s", "a"), hidden)
            for name in ("key.out", "value.out", "rotary.key", "d.rotary.key"):
                self.value(name, ("b", "s", "a"), of_keys)
        else:
            self.value("qkv.out", ("b", "s", "a"), (self.batch, self.sequence, joint))
        squares = () if self.attention == "fused" else ("scores", "probabilities", "d.probabilities", "d.scores")
        pairs = ("b", "a", "s", "t"), (self.batch, heads, self.sequence, self.sequence)
        for name in squares:
            self.value(name, *pairs)
        if self.shape.dropout:
            for name in ("attention", "mlp"):
                self._dropout_values(name, stream, hidden)
                self.value(f"d.{name}", stream, hidden)
            if squares:
                self._dropout_values("probabilities", *pairs)
                self.value("d.probabilities.dropped", *pairs)
        for name in ("context", "d.context", "d.query"):
            self.value(name, ("b", "s", "a"), hidden)
        for name in ("d.key", "d.value"):
            self.value(name, ("b", "s", "a"), of_keys)
        bend = self.bend
        for name, width in (("h_to_4h.out", rise), (f"{bend}.out", f), (f"d.{bend}", f), ("d.h_to_4h", rise)):
            self.value(name, ("b", "s", "f"), (self.batch, self.sequence, width))
        for name in ("d.x", "d.ln1", "d.ln2", "d.mlp_path" if self.is_parallel else "d.middle"):
            self.value(name, stream, hidden)
        if not self.is_parallel:
            self.value("middle", stream, hidden)
        for norm in ("ln1", "ln2"):
            self._norm_values(norm, per_layer=True)
        self.value("tokens", ("b", "s"), hidden[:2], dtype="int64", per_layer=False, persistent=True)
        for name in self._embedded():
            self.value(name, stream, hidden, per_layer=False)
        if self.shape.embedding_norm:
            self.value("d.embedding", stream, hidden, per_layer=False)
            self._norm_values("embedding_norm", per_layer=False)
        for name in ("final_norm.out", "d.final_norm"):
            self.value(name, stream, hidden, per_layer=False)
        self._norm_values("final_norm", per_layer=False)
        self.logits("v")

        self.weight("embedding", "weight", ("v", "h"), (v, h), per_layer=False)
        if self.shape.positions == "learned":
            self.weight("positions", "weight", ("p", "h"), (self.sizes["p"], h), per_layer=False)
        if self.shape.embedding_norm:
            self._norm_weights("embedding_norm", per_layer=False)
        for module, dims, rows, columns in (
            ("qkv", ("a", "h"), joint, h),
            ("dense", ("h", "a"), h, h),
            ("h_to_4h", ("f", "h"), rise, h),
            ("4h_to_h", ("h", "f"), h, f),
        ):
            self.linear_weights(module, dims, (rows, columns), has_bias=self.shape.biases)
        for module in ("ln1", "ln2"):
            self._norm_weights(module, per_layer=True)
        self._norm_weights("final_norm", per_layer=False)
        if not self.shape.tied:
            self.weight("head", "weight", ("v", "h"), (v, h), per_layer=False)

    def _dropout_values(self, name: str, dims: tuple[str, ...], shape: tuple[int, ...]) -> None:
        self.value(f"{name}.dropped", dims, shape)
        self.value(f"{name}.mask", dims, shape, dtype="uint8")

    def _embedded(self) -> tuple[str, ...]:
        """The values between the look-up and the residual stream, in order."""
        after = (self.shape.positions == "learned", self.shape.embedding_norm)
        return ("embedding.out", "positions.out")[: sum(after)] if after[0] else ("embedding.out",)[: sum(after)]

    def _norm_values(self, module: str, per_layer: bool) -> None:
        """What a norm sums over its features first where they are cut: two sums, or, without a mean, one."""
        for name in (f"{module}.moments", f"d.{module}.moments"):
            shape, wide = (self.batch, self.sequence, 2 if self.norm_kind == "norm" else 1), self.precision.wide
            self.value(name, ("b", "s", "e"), shape, dtype=wide, per_layer=per_layer, where_cut="h")

    def _norm_weights(self, module: str, per_layer: bool) -> None:
        for part in ("weight", "bias") if self.shape.norms_have_biases else ("weight",):
            self.weight(module, part, ("h",), (self.shape.hidden,), per_layer)

    # ── ops ──

    def _layer(self) -> Phase:
        return Phase(forward=self._layer_forward(), backward=self._layer_backward())

    def _layer_forward(self) -> tuple[WorkOp, ...]:
        h = self.shape.hidden
        attention = (
            *self._norm("ln1", "x"),
            *self._attention(),
            self.linear("dense", "ha", "context", "attention.out", {"a": h}),
            *self._dropout("attention", "attention.out"),
        )
        mlp = (
            *self._norm("ln2", self.before_mlp),
            self.linear("h_to_4h", "fh", "ln2.out", "h_to_4h.out", {"f": self._rise}),
            self.pointwise(self.bend, self.bend, "bsf", reads=here("h_to_4h.out"), writes=here(f"{self.bend}.out")),
            self.linear("4h_to_h", "hf", f"{self.bend}.out", "mlp.out"),
            *self._dropout("mlp", "mlp.out"),
        )
        added, raised = ("attention.dropped", "mlp.dropped") if self.shape.dropout else ("attention.out", "mlp.out")
        if self.is_parallel:
            return *attention, *mlp, self._add("residual", here("x", added, raised), (("x", 1),))
        first = self._add("attention.residual", here("x", added), here("middle"))
        return *attention, first, *mlp, self._add("residual", here("middle", raised), (("x", 1),))

    def _dropout(self, name: str, source: str, labels: str = "bsh") -> tuple[WorkOp, ...]:
        """What is dropped of a value, where the model has dropout."""
        if not self.shape.dropout:
            return ()
        writes = here(f"{name}.dropped", f"{name}.mask")
        sizes = {"a": self.shape.heads}
        return (self.pointwise(f"{name}.dropout", "dropout", labels, sizes, reads=here(source), writes=writes),)

    def _dropout_backward(
        self, name: str, gradient: tuple[Use, ...], target: str, labels: str = "bsh"
    ) -> tuple[WorkOp, ...]:
        if not self.shape.dropout:
            return ()
        reads, sizes = (*gradient, *here(f"{name}.mask")), {"a": self.shape.heads}
        op = f"{name}.dropout"
        return (self.pointwise(op, "dropout", labels, sizes, part="backward", reads=reads, writes=here(target)),)

    def _add(self, name: str, reads: tuple[Use, ...], writes: tuple[Use, ...]) -> WorkOp:
        return self.pointwise(name, "add", "bsh", reads=reads, writes=writes)

    def _attention(self) -> tuple[WorkOp, ...]:
        qkv = self.linear("qkv", "ah", "ln1.out", self.projected[0], {"a": self._joint})
        core = self._fused() if self.attention == "fused" else self._unfused()
        if not self.is_rotary:
            return qkv, *core
        rotary = self.pointwise(
            "rotary",
            "rotary",
            "bsa",
            {"a": self.shape.hidden},
            reads=here("query.out", "key.out"),
            writes=here(self.query, self.key),
        )
        return replace(qkv, writes=here(*self.projected)), rotary, *core

    @property
    def _joint(self) -> int:
        """Features of queries, keys and values together."""
        return self.shape.hidden + 2 * self.shape.key_features

    @property
    def _rise(self) -> int:
        """Features that the MLP's first product makes."""
        return self.shape.feed_forward * (2 if self.shape.gated else 1)

    @property
    def _attended(self) -> tuple[Use, ...]:
        """What attention reads."""
        return here(*dict.fromkeys((self.query, self.key, self.of_value)))

    def _fused(self) -> tuple[WorkOp, ...]:
        """Two products of every position with every other, nothing of which reaches memory."""
        return (self._fused_op(None, 2, self._attended, here("context")),)

    def _fused_op(self, part: Part | None, products: int, reads: tuple[Use, ...], writes: tuple[Use, ...]) -> WorkOp:
        op = self.matmul("attention", _PER_HEAD, {"a": self.shape.heads}, part, "attention", reads=reads, writes=writes)
        flops = products * op.flops
        if self.shape.causal:  # s (s + 1) / 2 of s² pairs
            flops = flops // (2 * self.sequence) * (self.sequence + 1)
        return replace(op, flops=flops)

    def _unfused(self) -> tuple[WorkOp, ...]:
        heads = {"a": self.shape.heads}
        return (
            self.matmul("scores", _PER_HEAD, heads, kind="scores", reads=self._query_and_key, writes=here("scores")),
            self.pointwise(
                "softmax",
                "softmax",
                "bast",
                heads,
                kernel=self.kernel,
                reads=here("scores"),
                writes=here("probabilities"),
            ),
            *self._dropout("probabilities", "probabilities", "bast"),
            self.matmul(
                "context",
                (("b", "a"), ("s",), ("d",), ("t",)),
                heads,
                kind="context",
                reads=here(self.dropped, self.of_value),
                writes=here("context"),
            ),
        )

    @property
    def _query_and_key(self) -> tuple[Use, ...]:
        return here(*dict.fromkeys((self.query, self.key)))

    def _norm(self, module: str, source: str, target: str = "") -> tuple[WorkOp, ...]:
        """A norm into `target` (default: its own output), after its sums over cut features."""
        out = target or f"{module}.out"
        moments, sums = f"{module}.moments", f"{self.norm_kind}_sums"
        return (
            self.pointwise(module, sums, "bsh", is_sums=True, where_cut="h", reads=here(source), writes=here(moments)),
            self.pointwise(
                module,
                self.norm_kind,
                "bsh",
                reads=here(source, moments),
                writes=here(out),
                weights=self._weights_of(module),
            ),
        )

    def _norm_backward(
        self, module: str, source: str, target: str, others: tuple[Use, ...] = (), gradient: str = ""
    ) -> tuple[WorkOp, ...]:
        """A norm's backward from `gradient` (default: `d.module`); `others` are gradients of the same stream, added to
        its input's."""
        weight = f"{module}.weight"
        before = here(gradient or f"d.{module}", source, f"{module}.moments")
        sums = f"d.{module}.moments"
        return (
            self.pointwise(
                module,
                f"{self.norm_kind}_sums",
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
                self.norm_kind,
                "bsh",
                part="backward",
                reads=(*before, *here(sums), *others),
                writes=here(target),
                weights=(weight,),
                gradients=self._weights_of(module),
            ),
        )

    def _layer_backward(self) -> tuple[WorkOp, ...]:
        h, bend = self.shape.hidden, self.bend
        out = (("d.x", 1),)
        after_attention = out if self.is_parallel else here("d.middle")
        of_mlp, of_attention = (here("d.mlp"), here("d.attention")) if self.shape.dropout else (out, after_attention)
        mlp = (
            *self._dropout_backward("mlp", out, "d.mlp"),
            *self.linear_backward("4h_to_h", "hf", of_mlp, f"{bend}.out", f"d.{bend}"),
            self.pointwise(
                bend, bend, "bsf", part="backward", reads=here(f"d.{bend}", "h_to_4h.out"), writes=here("d.h_to_4h")
            ),
            *self.linear_backward("h_to_4h", "fh", here("d.h_to_4h"), "ln2.out", "d.ln2", {"f": self._rise}),
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
            *self._dropout_backward("attention", after_attention, "d.attention"),
            *self.linear_backward("dense", "ha", of_attention, "context", "d.context", {"a": h}),
            *self._attention_backward(),
            *self._rotary_backward(),
            *self.linear_backward(
                "qkv", "ah", here(*self.unrotated, "d.value"), "ln1.out", "d.ln1", {"a": self._joint}
            ),
            *self._norm_backward("ln1", "x", "d.x", others),
        )

    def _rotary_backward(self) -> tuple[WorkOp, ...]:
        if not self.is_rotary:
            return ()
        reads, writes = here("d.query", "d.key"), here(*self.unrotated)
        features = {"a": self.shape.hidden}
        return (self.pointwise("rotary", "rotary", "bsa", features, part="backward", reads=reads, writes=writes),)

    def _attention_backward(self) -> tuple[WorkOp, ...]:
        if self.attention == "fused":  # scores again, then the gradients of probabilities, queries, keys and values
            reads = (*here("d.context"), *self._attended, *here("context"))
            writes = here("d.query", "d.key", "d.value")
            return (self._fused_op("backward", 5, reads, writes),)
        heads, per_head = {"a": self.shape.heads}, ("b", "a")
        return (
            self.matmul(
                "context",
                (per_head, ("s",), ("t",), ("d",)),
                heads,
                kind="context",
                part="dprobabilities",
                reads=here("d.context", self.of_value),
                writes=here("d.probabilities.dropped" if self.shape.dropout else "d.probabilities"),
            ),
            self.matmul(
                "context",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                kind="context",
                part="dvalue",
                reads=here(self.dropped, "d.context"),
                writes=here("d.value"),
            ),
            *self._dropout_backward("probabilities", here("d.probabilities.dropped"), "d.probabilities", "bast"),
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
                kind="scores",
                part="dquery",
                reads=here("d.scores", self.key),
                writes=here("d.query"),
            ),
            self.matmul(
                "scores",
                (per_head, ("t",), ("d",), ("s",)),
                heads,
                kind="scores",
                part="dkey",
                reads=here("d.scores", self.query),
                writes=here("d.key"),
            ),
        )

    def _embedding(self) -> Phase:
        """Rows of the table; then what a model adds: its positions' rows, a norm."""
        table, shape = ("embedding.weight",), self.shape
        outs = (*self._embedded(), "x")
        gradient = "d.embedding" if shape.embedding_norm else "d.x"  # of what the tables give
        lookup = self.pointwise(
            "embedding", "lookup", "bshv", reads=here("tokens"), writes=here(outs[0]), weights=table
        )
        scatter = self.pointwise(
            "embedding", "scatter", "bshv", part="wgrad", reads=here("tokens", gradient), gradients=table
        )
        forward: tuple[WorkOp, ...] = (lookup,)
        backward: tuple[WorkOp, ...] = (scatter,)
        if shape.positions == "learned":
            rows, how = ("positions.weight",), ("positions", "add_positions", "bshp")
            forward = (*forward, self.pointwise(*how, reads=here(outs[0]), writes=here(outs[1]), weights=rows))
            backward = (self.pointwise(*how, part="wgrad", reads=here(gradient), gradients=rows), *backward)
        if shape.embedding_norm:
            forward = (*forward, *self._norm("embedding_norm", outs[-2], "x"))
            backward = (*self._norm_backward("embedding_norm", outs[-2], gradient, gradient="d.x"), *backward)
        return Phase(forward=forward, backward=backward)

    def _head(self) -> Phase:
        return Phase(
            forward=(*self._norm("final_norm", "x"), *self.classifier("vh", "final_norm.out", self.table)),
            backward=(
                *self.classifier_backward("vh", "final_norm.out", "d.final_norm", self.table),
                *self._norm_backward("final_norm", "x", "d.x"),
            ),
        )
