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

from simfrontier.core.program import Part
from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.graph import Attention, Checkpointing, Phase, Use, Workload, WorkOp
from simfrontier.core.workload.graph_builder import GraphBuilder, Softmax, here
from simfrontier.core.workload.precision import Precision, find_precision


def gpt(
    shape: GptArchitecture,
    batch: int,
    checkpointing: Checkpointing,
    precision: str = "fp16",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
) -> Workload:
    """The graph of one micro-batch of `batch` sequences over all data-parallel ranks together; `precision` is fp16,
    bf16, fp32 or fp64. `attention`: with scores in memory (`plain`), or as one op that keeps them to itself (`fused`,
    as FlashAttention does, arXiv 2205.14135). `softmax`: the kernel of scores in memory and of the loss. Raises
    InputError."""
    return _Gpt(shape, batch, find_precision(precision), attention, softmax).workload(checkpointing)


class _Gpt(GraphBuilder):
    """The phases of the model."""

    def __init__(
        self, shape: GptArchitecture, batch: int, precision: Precision, attention: Attention, softmax: Softmax
    ) -> None:
        self.shape, self.attention = shape, attention
        sizes = {
            "b": batch,
            "s": shape.sequence,
            "t": shape.sequence,
            "h": shape.hidden,
            "a": shape.hidden,
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
        self.projected = ("query.out", "key.out", "value.out") if self.is_rotary else ("qkv.out",)
        """What qkv makes: queries, keys and values apart where the first two are rotated."""
        self.query, self.key, self.of_value = (
            ("rotary.query", "rotary.key", "value.out") if self.is_rotary else ("qkv.out",) * 3
        )
        self.dropped = "probabilities.dropped" if shape.dropout else "probabilities"
        self.unrotated = ("d.rotary.query", "d.rotary.key") if self.is_rotary else ("d.query", "d.key")
        self.heads = {"a": shape.heads}  # the size of `a` where heads are counted
        self.joint = {"a": shape.hidden + 2 * shape.key_features}  # where it has queries, keys and values together
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
        """What a norm sums over its features first where they are cut: two sums, or, without a mean, one."""
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
        """The values between the look-up and the residual stream, in order."""
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
        sizes = self.heads if "t" in labels else {}
        return (self.pointwise(f"{name}.dropout", "dropout", labels, sizes, reads=here(source), writes=writes),)

    def _dropout_backward(
        self, name: str, gradient: tuple[Use, ...], target: str, labels: str = "bsh"
    ) -> tuple[WorkOp, ...]:
        if not self.shape.dropout:
            return ()
        reads, sizes = (*gradient, *here(f"{name}.mask")), self.heads
        op = f"{name}.dropout"
        return (self.pointwise(op, "dropout", labels, sizes, part="backward", reads=reads, writes=here(target)),)

    def _add(self, name: str, reads: tuple[Use, ...], writes: tuple[Use, ...]) -> WorkOp:
        return self.pointwise(name, "add", "bsh", reads=reads, writes=writes)

    def _attention(self) -> tuple[WorkOp, ...]:
        qkv = self.linear("qkv", "ah", "ln1.out", self.projected[0], self.joint)
        core = self._fused() if self.attention == "fused" else self._unfused()
        if not self.is_rotary:
            return qkv, *core
        rotary = self.pointwise(
            "rotary",
            "rotary",
            "bsa",
            reads=here("query.out", "key.out"),
            writes=here(self.query, self.key),
        )
        return replace(qkv, writes=here(*self.projected)), rotary, *core

    @property
    def _attended(self) -> tuple[Use, ...]:
        """What attention reads."""
        return here(*dict.fromkeys((self.query, self.key, self.of_value)))

    def _fused(self) -> tuple[WorkOp, ...]:
        """Two products of every position with every other, nothing of which reaches memory."""
        return (self._fused_op(None, 2, self._attended, here("context")),)

    def _fused_op(self, part: Part | None, products: int, reads: tuple[Use, ...], writes: tuple[Use, ...]) -> WorkOp:
        op = self._per_head("attention", "std", part, reads, writes)
        flops = products * op.flops
        if self.shape.causal:  # s (s + 1) / 2 of s² pairs
            flops = flops // (2 * self.shape.sequence) * (self.shape.sequence + 1)
        return replace(op, flops=flops)

    def _per_head(
        self, module: str, mnk: str, part: Part | None, reads: tuple[Use, ...], writes: tuple[Use, ...]
    ) -> WorkOp:
        """A product of attention, head by head, with the labels m, n and k."""
        m, n, k = ((label,) for label in mnk)
        return self.matmul(module, (("b", "a"), m, n, k), self.heads, part, module, reads=reads, writes=writes)

    def _unfused(self) -> tuple[WorkOp, ...]:
        reads, writes = here("scores"), here("probabilities")
        softmax = self.pointwise(
            "softmax", "softmax", "bast", self.heads, kernel=self.kernel, reads=reads, writes=writes
        )
        return (
            self._per_head("scores", "std", None, self._query_and_key, here("scores")),
            softmax,
            *self._dropout("probabilities", "probabilities", "bast"),
            self._per_head("context", "sdt", None, here(self.dropped, self.of_value), here("context")),
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
        bend = self.bend
        out = (("d.x", 1),)
        after_attention = out if self.is_parallel else here("d.middle")
        of_mlp, of_attention = (here("d.mlp"), here("d.attention")) if self.shape.dropout else (out, after_attention)
        mlp = (
            *self._dropout_backward("mlp", out, "d.mlp"),
            *self.linear_backward("4h_to_h", "hf", of_mlp, f"{bend}.out", f"d.{bend}"),
            self.pointwise(
                bend, bend, "bsf", part="backward", reads=here(f"d.{bend}", "h_to_4h.out"), writes=here("d.h_to_4h")
            ),
            *self.linear_backward("h_to_4h", "fh", here("d.h_to_4h"), "ln2.out", "d.ln2", self.rise),
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
            *self.linear_backward("dense", "ha", of_attention, "context", "d.context"),
            *self._attention_backward(),
            *self._rotary_backward(),
            *self.linear_backward("qkv", "ah", here(*self.unrotated, "d.value"), "ln1.out", "d.ln1", self.joint),
            *self._norm_backward("ln1", "x", "d.x", others),
        )

    def _rotary_backward(self) -> tuple[WorkOp, ...]:
        if not self.is_rotary:
            return ()
        reads, writes = here("d.query", "d.key"), here(*self.unrotated)
        return (self.pointwise("rotary", "rotary", "bsa", part="backward", reads=reads, writes=writes),)

    def _attention_backward(self) -> tuple[WorkOp, ...]:
        if self.attention == "fused":  # scores again, then the gradients of probabilities, queries, keys and values
            reads = (*here("d.context"), *self._attended, *here("context"))
            writes = here("d.query", "d.key", "d.value")
            return (self._fused_op("backward", 5, reads, writes),)
        dropped = here("d.probabilities.dropped" if self.shape.dropout else "d.probabilities")
        reads, writes = here("d.probabilities", "probabilities"), here("d.scores")
        softmax = self.pointwise("softmax", "softmax", "bast", self.heads, part="backward", reads=reads, writes=writes)
        return (
            self._per_head("context", "std", "dprobabilities", here("d.context", self.of_value), dropped),
            self._per_head("context", "tds", "dvalue", here(self.dropped, "d.context"), here("d.value")),
            *self._dropout_backward("probabilities", dropped, "d.probabilities", "bast"),
            softmax,
            self._per_head("scores", "sdt", "dquery", here("d.scores", self.key), here("d.query")),
            self._per_head("scores", "tds", "dkey", here("d.scores", self.query), here("d.key")),
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
