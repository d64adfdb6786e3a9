"""Queries, keys and values of a GPT's attention: from one matrix product, or from latents of low rank."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from simfrontier.core.program import Part
from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.gpt_parts import GptParts
from simfrontier.core.workload.graph import WorkOp


class Projection(Protocol):
    """Ops between `ln1.out` and queries, keys and values; `query`, `key` and `value` are the names of these three,
    whose gradients are `d.query`, `d.key` and `d.value`."""

    query: str
    key: str
    value: str

    def declare(self) -> None:
        """Declare all values but the three gradients."""

    def declare_weights(self) -> None: ...

    def forward(self) -> tuple[WorkOp, ...]: ...

    def backward(self) -> tuple[WorkOp, ...]:
        """Return the ops that make `d.ln1`."""


def projection_of(graph: GptParts) -> Projection:
    return _Latent(graph, graph.shape) if graph.shape.is_latent else _Joined(graph, graph.shape)


class _Joined:
    """One matrix product makes queries, keys and values, which lie apart where heads are normalised or rotated."""

    def __init__(self, graph: GptParts, shape: GptArchitecture) -> None:
        self.graph, self.shape = graph, shape
        self.is_rotary, self.is_normal = shape.positions == "rotary", shape.qk_norm
        self.normal = ("query", "key") if shape.qk_norm else ()
        self.query, self.key, self.value = (
            ("rotary.query", "rotary.key", "value.out") if self.is_rotary else ("qkv.out",) * 3
        )
        self.joint = {"a": shape.query_features + 2 * shape.key_features}
        self.keys = {"a": shape.key_features}

    def declare(self) -> None:
        declare = self.graph.declare
        if not self.is_rotary:
            declare("bsa", "qkv.out", sizes=self.joint)
            return
        declare("bsa", "query.out", "rotary.query", "d.rotary.query")
        declare("bsa", "key.out", "value.out", "rotary.key", "d.rotary.key", sizes=self.keys)
        if self.is_normal:
            declare("bsa", "query_norm.out", "d.query_norm")
            declare("bsa", "key_norm.out", "d.key_norm", sizes=self.keys)

    def declare_weights(self) -> None:
        self.graph.linear_weights("qkv", "ah", self.joint, has_bias=self.shape.has_qkv_biases)
        for of in self.normal:
            self.graph.weight(f"{of}_norm", "weight", "d")

    def forward(self) -> tuple[WorkOp, ...]:
        graph, joint = self.graph, self.joint
        if not self.is_rotary:
            return (graph.linear("qkv", "ah", "ln1.out", "qkv.out", joint),)
        unrotated = "query_norm.out key_norm.out" if self.is_normal else "query.out key.out"
        return (
            graph.linear("qkv", "ah", "ln1.out", "query.out key.out value.out", joint),
            *(self._norm(part, None, f"{part}.out", f"{part}_norm.out") for part in self.normal),
            graph.pointwise("rotary", "rotary", "bsa", unrotated, "rotary.query rotary.key"),
        )

    def _norm(self, of: str, part: Part | None, reads: str, writes: str) -> WorkOp:
        """Return the norm of queries or keys, or its backward."""
        sizes, weights = self.keys if of == "key" else {}, (f"{of}_norm.weight",)
        how = partial(self.graph.pointwise, f"{of}_norm", "head_norm", "bsa", reads, writes, sizes=sizes)
        return how(weights=weights, gradients=weights if part else (), part=part)

    def backward(self) -> tuple[WorkOp, ...]:
        graph, made, rotated = self.graph, "d.query d.key", "d.rotary.query d.rotary.key"
        rotary: tuple[WorkOp, ...] = ()
        if self.is_rotary:
            rotary = (graph.pointwise("rotary", "rotary", "bsa", made, rotated, part="backward"),)
            made = "d.query_norm d.key_norm" if self.is_normal else rotated
        return (
            *rotary,
            *(self._norm(of, "backward", f"d.rotary.{of} {of}.out", f"d.{of}_norm") for of in self.normal),
            *graph.linear_backward("qkv", "ah", f"{made} d.value", "ln1.out", "d.ln1", self.joint),
        )


class _Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads come from one latent of
    `kv_rank` features, queries from one of `q_rank` (None: from the stream itself); the features of a key that are
    rotated are the same for all heads. Down projections and norms see whole latents; what makes heads is cut by heads,
    as in Megatron-Core (transformer/multi_latent_attention.py).

    Labels: q feature of the queries' latent, l of that of keys and values, r feature that is rotated.
    """

    query, key, value = "rotary.query", "rotary.key", "value.out"

    def __init__(self, graph: GptParts, shape: GptArchitecture) -> None:
        self.graph, self.shape = graph, shape
        self.of_values = {"a": shape.context_features}
        nope, rope, rank = shape.nope_features or 0, shape.rope_features or 0, shape.kv_rank or 0
        self.joint = {"a": shape.heads * (nope + shape.value_head_features)}  # keys that are not rotated, and values
        self.down = {"l": rank + rope}
        self.has_query_latent = shape.q_rank is not None

    def declare(self) -> None:
        declare = self.graph.declare
        declare("bsa", "query_up.out", "rotary.query", "rotary.key", "d.query_up")
        declare("bsa", "kv_up.out", "d.kv_up", sizes=self.joint)
        declare("bsa", "value.out", sizes=self.of_values)
        declare("bsl", "kv_down.out", "kv_norm.out", "d.kv_norm", "d.kv_down")
        declare("bsr", "key_rope.out", "d.key_rope")
        if self.has_query_latent:
            declare("bsq", "query_down.out", "query_norm.out", "d.query_norm", "d.query_down")
        declare("bsh", "d.ln1.query", "d.ln1.kv")

    def declare_weights(self) -> None:
        graph, has_bias = self.graph, self.shape.has_qkv_biases
        if self.has_query_latent:
            graph.linear_weights("query_down", "qh", has_bias=has_bias)
            graph.norm_weights("query_norm", per_layer=True, label="q")
        graph.linear_weights("query_up", "aq" if self.has_query_latent else "ah", has_bias=has_bias)
        graph.linear_weights("kv_down", "lh", self.down, has_bias=has_bias)
        graph.norm_weights("kv_norm", per_layer=True, label="l")
        graph.linear_weights("kv_up", "al", self.joint, has_bias=has_bias)

    def forward(self) -> tuple[WorkOp, ...]:
        graph = self.graph
        queries: tuple[WorkOp, ...] = (graph.linear("query_up", "ah", "ln1.out", "query_up.out"),)
        if self.has_query_latent:
            queries = (
                graph.linear("query_down", "qh", "ln1.out", "query_down.out"),
                *graph.norm("query_norm", "query_down.out", label="q"),
                graph.linear("query_up", "aq", "query_norm.out", "query_up.out"),
            )
        reads, writes = "query_up.out kv_up.out key_rope.out", "rotary.query rotary.key value.out"
        return (
            *queries,
            graph.linear("kv_down", "lh", "ln1.out", "kv_down.out key_rope.out", self.down),
            *graph.norm("kv_norm", "kv_down.out", label="l"),
            graph.linear("kv_up", "al", "kv_norm.out", "kv_up.out", self.joint),
            graph.pointwise("rotary", "rotary", "bsar", reads, writes),
        )

    def backward(self) -> tuple[WorkOp, ...]:
        graph = self.graph
        queries: tuple[WorkOp, ...]
        if not self.has_query_latent:
            queries = graph.linear_backward("query_up", "ah", "d.query_up", "ln1.out", "d.ln1.query")
        else:
            queries = (
                *graph.linear_backward("query_up", "aq", "d.query_up", "query_norm.out", "d.query_norm"),
                *graph.norm_backward("query_norm", "query_down.out", "d.query_down", label="q"),
                *graph.linear_backward("query_down", "qh", "d.query_down", "ln1.out", "d.ln1.query"),
            )
        reads, writes = "d.query d.key d.value", "d.query_up d.kv_up d.key_rope"
        return (
            graph.pointwise("rotary", "rotary", "bsar", reads, writes, part="backward"),
            *graph.linear_backward("kv_up", "al", "d.kv_up", "kv_norm.out", "d.kv_norm", self.joint),
            *graph.norm_backward("kv_norm", "kv_down.out", "d.kv_down", label="l"),
            *graph.linear_backward("kv_down", "lh", "d.kv_down d.key_rope", "ln1.out", "d.ln1.kv", self.down),
            *queries,
            graph.pointwise("ln1.sum", "add", "bsh", "d.ln1.query d.ln1.kv", "d.ln1"),
        )
