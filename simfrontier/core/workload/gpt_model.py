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

from simfrontier.core.workload.adapters import MODULES, with_adapters
from simfrontier.core.workload.experts import Experts
from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.gpt_attention import GptAttention
from simfrontier.core.workload.gpt_mlp import GptMlp
from simfrontier.core.workload.gpt_mtp import FurtherToken
from simfrontier.core.workload.gpt_parts import GptParts
from simfrontier.core.workload.graph import Attention, Checkpointing, Phase, Precision, Workload, WorkOp, find_precision
from simfrontier.core.workload.graph_builder import Softmax


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
    model = _Gpt(shape, batch, find_precision(precision), attention, softmax).workload(checkpointing)
    return model if shape.lora_rank is None else with_adapters(model, shape.lora_rank, shape.lora_of or MODULES)


class _Gpt(GptParts):
    """Builder of a GPT's graph."""

    def __init__(
        self, shape: GptArchitecture, batch: int, precision: Precision, attention: Attention, softmax: Softmax
    ) -> None:
        super().__init__(shape, batch, precision, softmax)
        self.how, self.attention = attention, GptAttention(self, attention)
        self.is_parallel = shape.residual == "parallel"
        self.before_mlp = "x" if self.is_parallel else "middle"  # the stream that the MLP starts from
        self.table = "embedding" if shape.tied else "head"
        bend = "swiglu" if shape.gated else "gelu"  # what is not linear
        num_sparse = shape.num_expert_layers
        self.mlp = GptMlp(self, bend) if num_sparse < shape.num_blocks else None
        self.experts = Experts(self, "clamped_swiglu" if shape.expert_clamp else bend) if num_sparse else None
        self.parts = [part for part in (self.mlp, self.experts) if part is not None]
        self.further = [FurtherToken(self, depth, self.table) for depth in range(1, shape.mtp_layers + 1)]

    def workload(self, checkpointing: Checkpointing) -> Workload:
        self._declare()
        layers, core = self._layers(), self.attention.core
        further = tuple(depth.phase(layers[-1]) for depth in self.further)
        again = (op.name for phase in further for op in phase.forward if op.named._replace(streams=()).text in core)
        work = Workload(
            name=self.shape.name,
            batch=self.sizes["b"],
            sequence=self.shape.sequence,
            checkpointing=checkpointing,
            precision=self.precision,
            embedding=self._embedding(),
            layers=(*layers, *further),
            head=self._head(),
            values=self.values | {name: value for each in self.further for name, value in each.values().items()},
            weights=self.weights,
            core=(*core, *again),
            traits={
                "residual": self.shape.residual,
                "tied": int(self.shape.tied),
                "attention": self.how,
                "heads": self.shape.heads,
                **self._other_traits(),
                **self.softmax_trait,
            },
        )
        return work.of_layers(work.layers) if further else work

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
            "qk_norm": (int(shape.qk_norm), 0),
            "q_rank": (shape.q_rank or 0, 0),
            "nope_features": (shape.nope_features or 0, 0),
            "rope_features": (shape.rope_features or 0, 0),
            "value_features": (shape.value_features or 0, 0),
            "window": (shape.window or 0, 0),
            "experts": (shape.num_experts, 0),
            "router": (shape.router, "softmax"),
            "mtp_layers": (shape.mtp_layers, 0),
            "expert_clamp": (int(shape.expert_clamp), 0),
        }
        return {key: value for key, (value, usual) in given.items() if value != usual}

    # ── tensors ──

    def _declare(self) -> None:
        self._declare_layer()
        self._declare_ends()
        self._declare_weights()

    def _declare_layer(self) -> None:
        self.declare("bsh", "x", "ln1.out", "attention.out", "ln2.out", "d.x", "d.ln1", "d.ln2")
        self.declare("bsh", *(("d.mlp_path",) if self.is_parallel else ("middle", "d.middle")))
        for norm in ("ln1", "ln2"):
            self.declare_moments(norm, per_layer=True)
        self.attention.declare()
        for part in self.parts:
            part.declare()
        if self.shape.dropout:
            self.declare("bsh", "attention.dropped", "d.attention")
            self.declare("bsh", "attention.mask", dtype="uint8")

    def _declare_ends(self) -> None:
        self.declare("bs", "tokens", dtype="int64", per_layer=False, persistent=True)
        self.declare("bsh", *self._embedded(), "final_norm.out", "d.final_norm", per_layer=False)
        self.declare_moments("final_norm", per_layer=False)
        if self.shape.embedding_norm:
            self.declare("bsh", "d.embedding", per_layer=False)
            self.declare_moments("embedding_norm", per_layer=False)
        self.logits("v")
        for further in self.further[:1]:
            further.declare()

    def _declare_weights(self) -> None:
        self.weight("embedding", "weight", "vh", per_layer=False)
        if self.shape.positions == "learned":
            self.weight("positions", "weight", "ph", per_layer=False)
        if self.shape.embedding_norm:
            self.norm_weights("embedding_norm", per_layer=False)
        self.attention.declare_weights()
        for part in self.parts:
            part.declare_weights()
        for module in ("ln1", "ln2"):
            self.norm_weights(module, per_layer=True)
        self.norm_weights("final_norm", per_layer=False)
        for further in self.further[:1]:
            further.declare_weights()
        if not self.shape.tied:
            self.weight("head", "weight", "vh", per_layer=False)

    def _embedded(self) -> tuple[str, ...]:
        """Return the names of the values between the embedding's look-up and the residual stream, in order."""
        after = (self.shape.positions == "learned", self.shape.embedding_norm)
        return ("embedding.out", "positions.out")[: sum(after)] if after[0] else ("embedding.out",)[: sum(after)]

    # ── ops ──

    def _layers(self) -> tuple[Phase, ...]:
        """Return the phase of each layer; layers with the same feed-forward part and the same window share one."""
        kinds = [self.shape.kind_of(number) for number in range(self.shape.num_layers)]
        phases = {kind: self._layer(*kind) for kind in dict.fromkeys(kinds)}
        return tuple(phases[kind] for kind in kinds)

    def _layer(self, has_experts: bool, window: int | None) -> Phase:
        part = self.experts if has_experts else self.mlp
        assert part is not None
        attention = GptAttention(self, self.how, window)
        return Phase(forward=self._layer_forward(attention, part), backward=self._layer_backward(attention, part))

    def _layer_forward(self, attention_part: GptAttention, part: GptMlp | Experts) -> tuple[WorkOp, ...]:
        attention = (
            *self.norm("ln1", "x"),
            *attention_part.forward(),
            *self.dropout("attention", "attention.out"),
        )
        mlp = (*self.norm("ln2", self.before_mlp), *part.forward())
        added, raised = "attention.dropped" if self.shape.dropout else "attention.out", part.outs
        if self.is_parallel:
            return *attention, *mlp, self.pointwise("residual", "add", "bsh", f"x {added} {raised}", "x@1")
        first = self.pointwise("attention.residual", "add", "bsh", f"x {added}", "middle")
        return *attention, first, *mlp, self.pointwise(part.residual, "add", "bsh", f"middle {raised}", "x@1")

    def _layer_backward(self, attention: GptAttention, part: GptMlp | Experts) -> tuple[WorkOp, ...]:
        out = "d.x@1"
        after_attention = out if self.is_parallel else "d.middle"
        of_attention = "d.attention" if self.shape.dropout else after_attention
        if self.is_parallel:
            norm, others = self.norm_backward("ln2", "x", "d.mlp_path"), f"d.mlp_path {out}"
        else:
            norm, others = self.norm_backward("ln2", "middle", "d.middle", out), "d.middle"
        return (
            *part.backward(out),
            *norm,
            *self.dropout_backward("attention", after_attention, "d.attention"),
            *attention.backward(of_attention),
            *self.norm_backward("ln1", "x", "d.x", others),
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
            forward += self.norm("embedding_norm", outs[-2], "x")
            backward = [*self.norm_backward("embedding_norm", outs[-2], gradient, gradient="d.x"), *backward]
        return Phase(forward=tuple(forward), backward=tuple(backward))

    def _head(self) -> Phase:
        """Return the head and the loss of the last layer's stream, then those of each depth of multi-token prediction;
        the stream lies so many layers back."""
        stream, gradient = (
            (f"x@-{len(self.further)}", f"d.x.head@-{len(self.further)}") if self.further else ("x", "d.x")
        )
        heads = [further.head() for further in self.further]
        return Phase(
            forward=(
                *self.norm("final_norm", stream),
                *self.classifier("vh", "final_norm.out", self.table),
                *(op for head in heads for op in head.forward),
            ),
            backward=(
                *(op for head in reversed(heads) for op in head.backward),
                *self.classifier_backward("vh", "final_norm.out", "d.final_norm", self.table),
                *self.norm_backward("final_norm", stream, gradient),
            ),
        )
