"""Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): modules behind the last layer of a GPT, of which
each predicts one token further.

A depth joins the stream of the layer before it with the embedding of the next token, each after a norm of its own,
projects both to the features of a stream, and runs a layer, a norm, and the model's head on it (Megatron-Core,
core/transformer/multi_token_prediction.py). The joined features have the label f, so that tensor parallelism divides
the rows of the projection; Megatron-Core divides its columns, and moves as many bytes. A depth starts from the stream
before the final norm, there from the one behind it: the same work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from simfrontier.core.workload.gpt_parts import GptParts
from simfrontier.core.workload.graph import Phase, Value, WorkOp
from simfrontier.core.workload.graph_builder import Stream


@dataclass(frozen=True)
class FurtherToken:
    """Builder of one depth, counted from 1. Its ops and values are in streams of their own; they name `before` the
    result of the layer or depth before. `table` is the module whose weight the head uses."""

    builder: GptParts
    depth: int
    table: str

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """Streams of the depth, the innermost first; each depth lies in the stream of the depth before it, so that
        `mtp/mtp/out` is the result of the second one."""
        before = "x" if self.depth == 1 else "out"
        outside = {"before": before, "d.before": f"d.{before}", "d.before.head": f"d.{before}.head"}
        return Stream("mtp", outside=outside), *(Stream("mtp"),) * (self.depth - 1)

    def declare(self) -> None:
        """Declare the values of a depth that its layer and its head do not have, and the gradient of the stream in
        which a depth begins by way of the model's head."""
        declare = self.builder.declare
        declare("bsh", "embedded", "d.embedded", "enorm.out", "d.enorm", "hnorm.out", "d.hnorm")
        declare("bsh", "out", "d.out", "d.out.head", "d.x.head")
        declare("bsf", "joined", "d.joined", sizes=self._joined)
        for norm in ("enorm", "hnorm", "mtp_norm"):
            self.builder.declare_moments(norm, per_layer=True)

    def declare_weights(self) -> None:
        """Declare the weights of a depth without those of its layer."""
        for norm in ("enorm", "hnorm", "mtp_norm"):
            self.builder.norm_weights(norm, per_layer=True)
        self.builder.weight("eh_proj", "weight", "hf", self._joined)

    @property
    def _joined(self) -> dict[str, int]:
        return {"f": 2 * self.builder.shape.hidden}

    def values(self) -> Mapping[str, Value]:
        """Return the values of the depth by name: those of a layer, of the head, and its own."""
        out: Mapping[str, Value] = self.builder.values
        for stream in self.streams:
            out = stream.values(out.values())
        return out

    def phase(self, layer: Phase) -> Phase:
        """Return the ops of the depth, whose layer is of the kind of `layer`."""
        op, joined, table = self.builder.pointwise, self._joined, ("embedding.weight",)
        norm, back = self.builder.norm, self.builder.norm_backward
        forward = (
            op("embedding", "lookup", "bshv", "tokens", "embedded", weights=table),
            *norm("enorm", "embedded"),
            *norm("hnorm", "before"),
            op("join", "concat", "bsf", "enorm.out hnorm.out", "joined", sizes=joined),
            self.builder.linear("eh_proj", "hf", "joined", "x", joined),
            *layer.forward,
            *norm("mtp_norm", "x@1", "out@1"),
        )
        return self._streamed(
            forward,
            (
                *back("mtp_norm", "x@1", "d.x@1", gradient="d.out@1"),
                *layer.backward,
                *self.builder.linear_backward("eh_proj", "hf", "d.x", "joined", "d.joined", joined),
                op("join", "concat", "bsf", "d.joined", "d.enorm d.hnorm", sizes=joined, part="backward"),
                *back("hnorm", "before", "d.before", "d.before.head"),
                *back("enorm", "embedded", "d.embedded"),
                op("embedding", "scatter", "bshv", "tokens d.embedded", part="wgrad", gradients=table),
            ),
        )

    def head(self) -> Phase:
        """Return the head and the loss of the depth, whose result lies so many layers back as there are depths after
        it."""
        after = self.builder.shape.mtp_layers - self.depth
        out, gradient = f"out@-{after}", f"d.out.head@-{after}" if after else "d.out"
        return self._streamed(
            self.builder.classifier("vh", out, self.table),
            self.builder.classifier_backward("vh", out, gradient, self.table),
        )

    def _streamed(self, forward: tuple[WorkOp, ...], backward: tuple[WorkOp, ...]) -> Phase:
        for stream in self.streams:
            forward, backward = stream.ops(forward), stream.ops(backward)
        return Phase(forward=forward, backward=backward)
