"""Attention of a GPT, with scores in memory or fused, from the normalised stream to the gradient of it."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.core.program import Part
from simfrontier.core.workload.gpt_parts import GptParts
from simfrontier.core.workload.gpt_projections import projection_of
from simfrontier.core.workload.graph import Attention, WorkOp


class GptAttention:
    """Builder of attention: queries, keys and values, their products over pairs of positions, and the output module. In
    a layer with a `window`, a position attends to so many positions at most."""

    def __init__(self, graph: GptParts, attention: Attention, window: int | None = None) -> None:
        self.graph, self.shape, self.is_fused, self.window = graph, graph.shape, attention == "fused", window
        self.projection = projection_of(graph)
        self.query, self.key, self.value = self.projection.query, self.projection.key, self.projection.value
        self.query_and_key = " ".join(dict.fromkeys((self.query, self.key)))
        self.attended = " ".join(dict.fromkeys((self.query, self.key, self.value)))
        self.keys = () if self.key == self.query else (self.key, self.value, "d.key", "d.value")
        """Values of the positions attended to, where they lie apart from queries."""
        self.dropped = "probabilities.dropped" if self.shape.dropout else "probabilities"
        self.of_context = {"a": self.shape.context_features}  # features of all heads, weighted sums of values

    @property
    def core(self) -> tuple[str, ...]:
        """Names of the ops on squares of scores in memory, which selective checkpointing recomputes."""
        return () if self.is_fused else ("scores", "softmax", "probabilities.dropout", "context")

    # ── tensors ──

    def declare(self) -> None:
        """Declare the values between `ln1.out` and `attention.out`, and their gradients."""
        declare, shape, heads = self.graph.declare, self.shape, self.graph.heads
        declare("bsa", "context", "d.context", sizes=self.of_context)
        declare("bsa", "d.query")
        declare("bsa", "d.key", sizes={"a": shape.key_features})
        declare("bsa", "d.value", sizes={"a": shape.key_heads * shape.value_head_features})
        self.projection.declare()
        if not self.is_fused:
            declare("bast", "scores", "probabilities", "d.probabilities", "d.scores", sizes=heads)
        if not self.is_fused and self.shape.dropout:
            declare("bast", "probabilities.dropped", "d.probabilities.dropped", sizes=heads)
            declare("bast", "probabilities.mask", sizes=heads, dtype="uint8")

    def declare_weights(self) -> None:
        self.projection.declare_weights()
        self.graph.linear_weights("dense", "ha", self.of_context, has_bias=self.shape.biases)

    # ── forward ──

    def forward(self) -> tuple[WorkOp, ...]:
        """Return the ops from `ln1.out` to `attention.out`."""
        core = self._fused() if self.is_fused else self._unfused()
        dense = self.graph.linear("dense", "ha", "context", "attention.out", self.of_context)
        return *self.projection.forward(), *core, dense

    def _fused(self) -> tuple[WorkOp, ...]:
        """Return fused attention as one op: two batched matrix products over all pairs of positions, whose scores stay
        on the chip."""
        return (self._fused_op(None, 1, 1, self.attended, "context"),)

    def _fused_op(self, part: Part | None, of_keys: int, of_values: int, reads: str, writes: str) -> WorkOp:
        """Return fused attention of so many products over a head's features of queries and keys, and so many over those
        of values."""
        op = self._per_head("attention", "s|t|d", part, reads, writes)
        keys, values = self.shape.head_features, self.shape.value_head_features
        flops = op.flops // keys * (of_keys * keys + of_values * values)
        return replace(op, flops=flops // self.shape.sequence**2 * self.shape.pairs(self.window))

    def _per_head(self, module: str, mnk: str, part: Part | None, reads: str, writes: str) -> WorkOp:
        """Return a matrix product of attention, batched over heads."""
        sizes = self.graph.heads | ({"d": self.shape.value_head_features} if module == "context" else {})
        op = self.graph.matmul(module, f"ba|{mnk}", reads, writes, kind=module, sizes=sizes, part=part)
        used = {*reads.split(), *writes.split()}
        return replace(op, attended=tuple(name for name in self.keys if name in used))

    def _unfused(self) -> tuple[WorkOp, ...]:
        heads, kernel = self.graph.heads, self.graph.kernel
        softmax = self.graph.pointwise(
            "softmax", "softmax", "bast", "scores", "probabilities", sizes=heads, kernel=kernel
        )
        return (
            self._per_head("scores", "s|t|d", None, self.query_and_key, "scores"),
            softmax,
            *self.graph.dropout("probabilities", "probabilities", "bast"),
            self._per_head("context", "s|d|t", None, f"{self.dropped} {self.value}", "context"),
        )

    # ── backward ──

    def backward(self, gradient: str) -> tuple[WorkOp, ...]:
        """Return the ops from `gradient`, that of `attention.out`, to `d.ln1`."""
        core = self._fused_backward() if self.is_fused else self._unfused_backward()
        dense = self.graph.linear_backward("dense", "ha", gradient, "context", "d.context", self.of_context)
        return *dense, *core, *self.projection.backward()

    def _fused_backward(self) -> tuple[WorkOp, ...]:
        """Return the backward of fused attention: scores again, then the gradients of probabilities, queries, keys and
        values."""
        return (self._fused_op("backward", 3, 2, f"d.context {self.attended} context", "d.query d.key d.value"),)

    def _unfused_backward(self) -> tuple[WorkOp, ...]:
        graph, heads = self.graph, self.graph.heads
        dropped = "d.probabilities.dropped" if self.shape.dropout else "d.probabilities"
        reads = "d.probabilities probabilities"
        return (
            self._per_head("context", "s|t|d", "dprobabilities", f"d.context {self.value}", dropped),
            self._per_head("context", "t|d|s", "dvalue", f"{self.dropped} d.context", "d.value"),
            *graph.dropout_backward("probabilities", dropped, "d.probabilities", "bast"),
            graph.pointwise("softmax", "softmax", "bast", reads, "d.scores", sizes=heads, part="backward"),
            self._per_head("scores", "s|d|t", "dquery", f"d.scores {self.key}", "d.query"),
            self._per_head("scores", "t|d|s", "dkey", f"d.scores {self.query}", "d.key"),
        )
