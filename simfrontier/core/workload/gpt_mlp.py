"""The MLP of a GPT's layer, as ops from the normalised residual stream `ln2.out`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from simfrontier.core.workload.gpt_parts import GptParts
from simfrontier.core.workload.graph import WorkOp


@dataclass(frozen=True, slots=True)
class GptMlp:
    """Builder of the ops of an MLP; `bend` is the kind of the op between its two matrix products."""

    builder: GptParts
    bend: str
    residual: ClassVar[str] = "residual"  # name of the op that adds the outputs to the stream

    @property
    def _rise(self) -> dict[str, int]:
        """Features of the first matrix product: gate and up side by side in a gated MLP."""
        shape = self.builder.shape
        return {"f": shape.feed_forward * (2 if shape.gated else 1)}

    def declare(self) -> None:
        """Declare the values of the MLP."""
        declare = self.builder.declare
        declare("bsh", "mlp.out")
        declare("bsf", "h_to_4h.out", "d.h_to_4h", sizes=self._rise)
        declare("bsf", f"{self.bend}.out", f"d.{self.bend}")
        if self.builder.shape.dropout:
            declare("bsh", "mlp.dropped", "d.mlp")
            declare("bsh", "mlp.mask", dtype="uint8")

    def declare_weights(self) -> None:
        """Declare the weights of the MLP."""
        self.builder.linear_weights("h_to_4h", "fh", self._rise, has_bias=self.builder.shape.biases)
        self.builder.linear_weights("4h_to_h", "hf", has_bias=self.builder.shape.biases)

    @property
    def outs(self) -> str:
        """Names of the values that the residual stream adds."""
        return "mlp.dropped" if self.builder.shape.dropout else "mlp.out"

    def forward(self) -> tuple[WorkOp, ...]:
        """Return the forward ops."""
        linear, bend = self.builder.linear, self.bend
        return (
            linear("h_to_4h", "fh", "ln2.out", "h_to_4h.out", self._rise),
            self.builder.pointwise(bend, bend, "bsf", "h_to_4h.out", f"{bend}.out"),
            linear("4h_to_h", "hf", f"{bend}.out", "mlp.out"),
            *self.builder.dropout("mlp", "mlp.out"),
        )

    def backward(self, gradient: str) -> tuple[WorkOp, ...]:
        """Return the backward ops, from the gradient of the output to `d.ln2`."""
        back, bend = self.builder.linear_backward, self.bend
        of_out = "d.mlp" if self.builder.shape.dropout else gradient
        return (
            *self.builder.dropout_backward("mlp", gradient, "d.mlp"),
            *back("4h_to_h", "hf", of_out, f"{bend}.out", f"d.{bend}"),
            self.builder.pointwise(bend, bend, "bsf", f"d.{bend} h_to_4h.out", "d.h_to_4h", part="backward"),
            *back("h_to_4h", "fh", "d.h_to_4h", "ln2.out", "d.ln2", self._rise),
        )
