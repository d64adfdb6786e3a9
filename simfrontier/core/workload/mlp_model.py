"""A multilayer perceptron as a graph of ops: input features, equal residual layers, classes.

Labels of dimensions: b sample, i input feature, h hidden feature, f feed-forward feature (4 × hidden), c class. The
first linear module and its GELU take the role of the embedding; a layer is x + 4h_to_h(gelu(h_to_4h(x))); the head has
no bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from simfrontier.core.workload.graph import Attention, Checkpointing, Phase, Precision, Workload, find_precision
from simfrontier.core.workload.graph_builder import GraphBuilder, Softmax
from simfrontier.core.workload.shape import OfAnyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpShape(OfAnyPlan):
    """Shape of a multilayer perceptron: `inputs` features, residual layers with a feed-forward width of 4 × hidden, and
    `classes` output classes."""

    name: str
    num_layers: int
    inputs: int
    hidden: int
    classes: int
    source: str

    @property
    def sequence(self) -> int:
        """Positions per sample: always 1, so that samples are counted as tokens."""
        return 1

    @property
    def num_parameters(self) -> int:
        """Number of parameters ψ = L(8h² + 5h) + ih + h + ch: matrices and biases of L layers, first matrix and bias,
        head."""
        h = self.hidden
        return self.num_layers * (8 * h * h + 5 * h) + (self.inputs + 1 + self.classes) * h

    @property
    def sample(self) -> str:
        return f"samples of {self.inputs:,} features"

    def with_settings(self, settings: Mapping[str, Any]) -> MlpShape:
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: Checkpointing, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        return mlp(self, batch, checkpointing, precision, softmax)

    def step_flops(self, samples: int, recomputed: bool) -> float:
        """Return the flops of a step, summed over the matrix products of the graph."""
        return float(mlp(self, samples, "full" if recomputed else "none").matmul_flops)


def mlp(
    shape: MlpShape, batch: int, checkpointing: Checkpointing, precision: str = "fp16", softmax: Softmax = "fused"
) -> Workload:
    """Return the graph of one micro-batch of `batch` samples, summed over all data-parallel ranks. `precision`: fp16,
    bf16, fp32 or fp64; `softmax`: the softmax kernel of the loss. Raises InputError."""
    return _Mlp(shape, batch, find_precision(precision), softmax).workload(checkpointing)


class _Mlp(GraphBuilder):
    """Builder of a multilayer perceptron's graph."""

    def __init__(self, shape: MlpShape, batch: int, precision: Precision, softmax: Softmax) -> None:
        self.shape = shape
        sizes = {"b": batch, "i": shape.inputs, "h": shape.hidden, "f": 4 * shape.hidden, "c": shape.classes}
        super().__init__(precision, sizes, rows=("b",), softmax=softmax)

    def workload(self, checkpointing: Checkpointing) -> Workload:
        self._declare()
        return Workload(
            name=self.shape.name,
            batch=self.sizes["b"],
            sequence=1,
            checkpointing=checkpointing,
            precision=self.precision,
            embedding=self._embedding(),
            layers=(self._layer(),) * self.shape.num_layers,
            head=self._head(),
            values=self.values,
            weights=self.weights,
            traits=self.softmax_trait,
        )

    def _declare(self) -> None:
        self.declare("bi", "inputs", per_layer=False, persistent=True)
        self.declare("bh", "embedding.out", "d.embedding", per_layer=False)
        self.declare("bh", "x", "mlp.out", "d.x", "d.mlp_path")
        self.declare("bf", "h_to_4h.out", "gelu.out", "d.gelu", "d.h_to_4h")
        self.logits("c")
        self.linear_weights("embedding", "hi", per_layer=False)
        self.linear_weights("h_to_4h", "fh")
        self.linear_weights("4h_to_h", "hf")
        self.weight("head", "weight", "ch", per_layer=False)

    def _embedding(self) -> Phase:
        gelu = "embedding.gelu", "gelu", "bh"
        return Phase(
            forward=(
                self.linear("embedding", "hi", "inputs", "embedding.out"),
                self.pointwise(*gelu, "embedding.out", "x"),
            ),
            backward=(
                self.pointwise(*gelu, "d.x embedding.out", "d.embedding", part="backward"),
                self.weight_gradient("embedding", "hi", "d.embedding", "inputs"),
            ),
        )

    def _layer(self) -> Phase:
        return Phase(
            forward=(
                self.linear("h_to_4h", "fh", "x", "h_to_4h.out"),
                self.pointwise("gelu", "gelu", "bf", "h_to_4h.out", "gelu.out"),
                self.linear("4h_to_h", "hf", "gelu.out", "mlp.out"),
                self.pointwise("residual", "add", "bh", "x mlp.out", "x@1"),
            ),
            backward=(
                *self.linear_backward("4h_to_h", "hf", "d.x@1", "gelu.out", "d.gelu"),
                self.pointwise("gelu", "gelu", "bf", "d.gelu h_to_4h.out", "d.h_to_4h", part="backward"),
                *self.linear_backward("h_to_4h", "fh", "d.h_to_4h", "x", "d.mlp_path"),
                self.pointwise("residual", "add", "bh", "d.x@1 d.mlp_path", "d.x", part="backward"),
            ),
        )

    def _head(self) -> Phase:
        return Phase(forward=self.classifier("ch", "x"), backward=self.classifier_backward("ch", "x", "d.x"))
