"""What attention, MLP and the ends of a GPT have in common: the sizes of labels, norms and dropout."""

from __future__ import annotations

from functools import partial

from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.graph import Precision, WorkOp
from simfrontier.core.workload.graph_builder import GraphBuilder, Softmax


class GptParts(GraphBuilder):
    """Builder of the norms and dropouts of a GPT's graph."""

    def __init__(self, shape: GptArchitecture, batch: int, precision: Precision, softmax: Softmax) -> None:
        self.shape = shape
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
            "q": shape.q_rank or 0,
            "l": shape.kv_rank or 0,
            "r": shape.rope_features or 0,
        }
        super().__init__(precision, sizes, rows=("b", "s"), softmax=softmax)
        self.norm_kind = "norm" if shape.norm == "layernorm" else "rmsnorm"
        self.heads = {"a": shape.heads}  # the size of `a` where heads are counted

    # ── norms ──

    def declare_moments(self, norm: str, per_layer: bool) -> None:
        """Declare the partial sums that a norm all-reduces if its features are split over ranks, forward and backward:
        two sums, or one for a norm without a mean."""
        names, sizes = (f"{norm}.moments", f"d.{norm}.moments"), {"e": 2 if self.norm_kind == "norm" else 1}
        self.declare("bse", *names, sizes=sizes, dtype=self.precision.wide, per_layer=per_layer, where_cut="h")

    def norm_weights(self, module: str, per_layer: bool, label: str = "h") -> None:
        for part in ("weight", "bias") if self.shape.norms_have_biases else ("weight",):
            self.weight(module, part, label, per_layer=per_layer)

    def norm(self, module: str, source: str, target: str = "", label: str = "h") -> tuple[WorkOp, ...]:
        """Return the ops of a norm that writes `target` (default: `module.out`): the sums, needed only where features
        are split over ranks, then the norm itself. Only the stream's features (`label` h) are ever split."""
        moments, sums = f"{module}.moments", f"{self.norm_kind}_sums"
        out, weights, labels = target or f"{module}.out", self._weights_of(module), f"bs{label}"
        if label != "h":
            return (self.pointwise(module, self.norm_kind, labels, source, out, weights=weights),)
        return (
            self.pointwise(module, sums, labels, source, moments, is_sums=True, where_cut="h"),
            self.pointwise(module, self.norm_kind, labels, f"{source} {moments}", out, weights=weights),
        )

    def norm_backward(
        self, module: str, source: str, target: str, others: str = "", gradient: str = "", label: str = "h"
    ) -> tuple[WorkOp, ...]:
        """Return the ops of a norm's backward, from its output's gradient `gradient` (default: `d.module`); `others`
        are further gradients of the norm's input, which are added to its own."""
        weights, gradients = (f"{module}.weight",), self._weights_of(module)
        before, labels = f"{gradient or f'd.{module}'} {source}", f"bs{label}"
        back = partial(self.pointwise, part="backward", weights=weights)
        if label != "h":
            return (back(module, self.norm_kind, labels, f"{before} {others}", target, gradients=gradients),)
        kind, sums, before = self.norm_kind, f"d.{module}.moments", f"{before} {module}.moments"
        return (
            back(module, f"{kind}_sums", labels, before, sums, is_sums=True, where_cut="h"),
            back(module, kind, labels, f"{before} {sums} {others}", target, gradients=gradients),
        )

    # ── dropout ──

    def dropout(self, name: str, source: str, labels: str = "bsh") -> tuple[WorkOp, ...]:
        """Return the dropout op on a value; () if the model has no dropout."""
        if not self.shape.dropout:
            return ()
        op, writes = f"{name}.dropout", f"{name}.dropped {name}.mask"
        return (self.pointwise(op, "dropout", labels, source, writes, sizes=self.heads),)

    def dropout_backward(self, name: str, gradient: str, target: str, labels: str = "bsh") -> tuple[WorkOp, ...]:
        if not self.shape.dropout:
            return ()
        op, reads = f"{name}.dropout", f"{gradient} {name}.mask"
        return (self.pointwise(op, "dropout", labels, reads, target, sizes=self.heads, part="backward"),)
