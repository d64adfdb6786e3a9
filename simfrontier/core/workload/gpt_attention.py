"""Attention of a GPT, with scores in memory or fused, from the normalised stream to the gradient of it."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.core.program import Part
from simfrontier.core.workload.gpt_parts import GptParts
from simfrontier.core.workload.graph import Attention, WorkOp


class GptAttention:
    """Builder of attention with one matrix product for queries, keys and values."""

    def __init__(self, graph: GptParts, attention: Attention) -> None:
        self.graph, self.shape, self.is_fused = graph, graph.shape, attention == "fused"
        self.is_rotary = self.shape.positions == "rotary"
        self.projected = "query.out key.out value.out" if self.is_rotary else "qkv.out"
        """What qkv makes: queries, keys and values apart where the first two are rotated."""
        self.query, self.key, self.of_value = (
            ("rotary.query", "rotary.key", "value.out") if self.is_rotary else ("qkv.out",) * 3
        )
        self.query_and_key = " ".join(dict.fromkeys((self.query, self.key)))
        self.attended = " ".join(dict.fromkeys((self.query, self.key, self.of_value)))
        self.dropped = "probabilities.dropped" if self.shape.dropout else "probabilities"
        self.unrotated = "d.rotary.query d.rotary.key" if self.is_rotary else "d.query d.key"
        # the size of `a` where it has queries, keys and values together
        self.joint = {"a": self.shape.query_features + 2 * self.shape.key_features}

    @property
    def core(self) -> tuple[str, ...]:
        """Names of the ops on squares of scores in memory, which selective checkpointing recomputes."""
        return () if self.is_fused else ("scores", "softmax", "probabilities.dropout", "context")

    # ── tensors ──

    def declare(self) -> None:
        """Declare the values between `ln1.out` and `attention.out`, and their gradients."""
        declare, of_keys, heads = self.graph.declare, {"a": self.shape.key_features}, self.graph.heads
        declare("bsa", "context", "d.context", "d.query")
        declare("bsa", "d.key", "d.value", sizes=of_keys)
        if self.is_rotary:
            declare("bsa", "query.out", "rotary.query", "d.rotary.query")
            declare("bsa", "key.out", "value.out", "rotary.key", "d.rotary.key", sizes=of_keys)
        else:
            declare("bsa", "qkv.out", sizes=self.joint)
        if not self.is_fused:
            declare("bast", "scores", "probabilities", "d.probabilities", "d.scores", sizes=heads)
        if not self.is_fused and self.shape.dropout:
            declare("bast", "probabilities.dropped", "d.probabilities.dropped", sizes=heads)
            declare("bast", "probabilities.mask", sizes=heads, dtype="uint8")

    def declare_weights(self) -> None:
        self.graph.linear_weights("qkv", "ah", self.joint, has_bias=self.shape.biases)
        self.graph.linear_weights("dense", "ha", has_bias=self.shape.biases)

    # ── forward ──

    def forward(self) -> tuple[WorkOp, ...]:
        """Return the ops from `ln1.out` to `attention.out`."""
        graph = self.graph
        qkv = graph.linear("qkv", "ah", "ln1.out", self.projected, self.joint)
        core = self._fused() if self.is_fused else self._unfused()
        dense = graph.linear("dense", "ha", "context", "attention.out")
        if not self.is_rotary:
            return qkv, *core, dense
        return qkv, graph.pointwise("rotary", "rotary", "bsa", "query.out key.out", self.query_and_key), *core, dense

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
        return self.graph.matmul(module, f"ba|{mnk}", reads, writes, kind=module, sizes=self.graph.heads, part=part)

    def _unfused(self) -> tuple[WorkOp, ...]:
        heads, kernel = self.graph.heads, self.graph.kernel
        softmax = self.graph.pointwise(
            "softmax", "softmax", "bast", "scores", "probabilities", sizes=heads, kernel=kernel
        )
        return (
            self._per_head("scores", "s|t|d", None, self.query_and_key, "scores"),
            softmax,
            *self.graph.dropout("probabilities", "probabilities", "bast"),
            self._per_head("context", "s|d|t", None, f"{self.dropped} {self.of_value}", "context"),
        )

    # ── backward ──

    def backward(self, gradient: str) -> tuple[WorkOp, ...]:
        """Return the ops from `gradient`, that of `attention.out`, to `d.ln1`."""
        graph, of_qkv = self.graph, f"{self.unrotated} d.value"
        return (
            *graph.linear_backward("dense", "ha", gradient, "context", "d.context"),
            *(self._fused_backward() if self.is_fused else self._unfused_backward()),
            *self._rotary_backward(),
            *graph.linear_backward("qkv", "ah", of_qkv, "ln1.out", "d.ln1", self.joint),
        )

    def _rotary_backward(self) -> tuple[WorkOp, ...]:
        if not self.is_rotary:
            return ()
        return (self.graph.pointwise("rotary", "rotary", "bsa", "d.query d.key", self.unrotated, part="backward"),)

    def _fused_backward(self) -> tuple[WorkOp, ...]:
        """Return the backward of fused attention: scores again, then the gradients of probabilities, queries, keys and
        values."""
        return (self._fused_op("backward", 5, f"d.context {self.attended} context", "d.query d.key d.value"),)

    def _unfused_backward(self) -> tuple[WorkOp, ...]:
        graph, heads = self.graph, self.graph.heads
        dropped = "d.probabilities.dropped" if self.shape.dropout else "d.probabilities"
        reads = "d.probabilities probabilities"
        return (
            self._per_head("context", "s|t|d", "dprobabilities", f"d.context {self.of_value}", dropped),
            self._per_head("context", "t|d|s", "dvalue", f"{self.dropped} d.context", "d.value"),
            *graph.dropout_backward("probabilities", dropped, "d.probabilities", "bast"),
            graph.pointwise("softmax", "softmax", "bast", reads, "d.scores", sizes=heads, part="backward"),
            self._per_head("scores", "s|d|t", "dquery", f"d.scores {self.key}", "d.query"),
            self._per_head("scores", "t|d|s", "dkey", f"d.scores {self.query}", "d.key"),
        )
