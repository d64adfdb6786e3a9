"""Mixture of experts in place of the MLP of a layer: router, dispatch of rows to the experts, grouped matrix products,
combination, and shared experts.

Further labels of dimensions: g expert that a router scores, k choice of a position, E block of experts, F feed-forward
feature of an expert. Every position of a sequence chooses `experts_per_token` experts, and a copy of its features, a
row, goes to each of them. Dispatched rows have the dimensions (E, b, s, h), where s is a row of a sample in a block:
sequence × choices rows, balanced among as many equal blocks of experts as divide them. A plan that cuts E over an axis
which otherwise divides samples thereby states the all-to-all that dispatches rows.

The router's weight of a row scales it where the features bend, as in Megatron-Core (core/transformer/moe/experts.py),
so that no expert's output is kept for the backward. Not modelled: auxiliary losses and biases of the router.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from simfrontier.core.program import Part
from simfrontier.core.workload.gpt_architecture import GptArchitecture
from simfrontier.core.workload.gpt_parts import GptParts
from simfrontier.core.workload.graph import WorkOp


@dataclass(frozen=True, slots=True)
class Experts:
    """Builder of the ops of experts, from the normalised residual stream `ln2.out` to `routed.out` and, with shared
    experts, `shared.out`. `bend` is the kind of the op between the two matrix products of an expert."""

    builder: GptParts
    bend: str
    residual: ClassVar[str] = "experts.residual"  # name of the op that adds the outputs to the stream
    bounds: ClassVar[Mapping[str, tuple[str, str]]] = {  # names of the ops before and after those of the experts
        "forward": ("ln2", residual),
        "backward": ("", "ln2.backward"),
    }

    @property
    def shape(self) -> GptArchitecture:
        return self.builder.shape

    # ── tensors ──

    def declare(self) -> None:
        """Declare the values of the experts."""
        declare, choices, wide = self.builder.declare, self._choices, self.builder.precision.wide
        declare("bsg", "router.logits", "d.router.logits", sizes=choices)
        declare("bsk", "routing.choices", sizes=choices, dtype="int64")
        declare("bsk", "routing.weights", "d.routing.weights", sizes=choices, dtype=wide)
        declare("Ebsh", "dispatched", "d.dispatched", "experts.out", "d.experts.out", sizes=self._rows)
        declare("Ebs", "dispatched.weights", "d.dispatched.weights", sizes=self._rows, dtype=wide)
        declare("EbsF", "experts.up.out", "d.experts.up", sizes=self._rising)
        declare("EbsF", "experts.bent", "d.experts.bent", sizes=self._rows)
        declare("bsh", "routed.out", "d.ln2.router", "d.ln2.routed")
        if self.shape.shared_ffn:
            declare("bsf", "shared.up.out", "d.shared.up", sizes=self._shared_rising)
            declare("bsf", "shared.bent", "d.shared.bent", sizes=self._shared)
            declare("bsh", "shared.out", "d.ln2.shared")

    def declare_weights(self) -> None:
        """Declare the weights of router, experts and shared experts."""
        every = {"E": self.shape.num_experts}
        self.builder.weight("router", "weight", "gh", self._choices)
        self.builder.weight("experts.up", "weight", "EFh", {**self._rising, **every})
        self.builder.weight("experts.down", "weight", "EhF", {**self._rows, **every})
        if self.shape.shared_ffn:
            self.builder.linear_weights("shared.up", "fh", self._shared_rising, has_bias=False)
            self.builder.linear_weights("shared.down", "hf", self._shared, has_bias=False)

    @property
    def _choices(self) -> dict[str, int]:
        """Sizes of the labels of a router: experts, and choices of a position."""
        return {"g": self.shape.num_experts, "k": self.shape.experts_per_token}

    @property
    def _rows(self) -> dict[str, int]:
        """Sizes of the labels of dispatched rows: blocks of experts, rows of a sample in a block, and features of an
        expert."""
        blocks, rows = self.shape.routed_rows
        return {"E": blocks, "s": rows, "F": self.shape.expert_features}

    @property
    def _rising(self) -> dict[str, int]:
        """The same, with the features of the first product of an expert."""
        return {**self._rows, "F": self.shape.expert_features * (2 if self.shape.gated else 1)}

    @property
    def _shared(self) -> dict[str, int]:
        return {"f": self.shape.shared_ffn}

    @property
    def _shared_rising(self) -> dict[str, int]:
        return {"f": self.shape.shared_ffn * (2 if self.shape.gated else 1)}

    # ── ops ──

    @property
    def outs(self) -> str:
        """Names of the values that the residual stream adds."""
        return "routed.out shared.out" if self.shape.shared_ffn else "routed.out"

    def forward(self) -> tuple[WorkOp, ...]:
        """Return the forward ops."""
        op, choices = self.builder.pointwise, self._choices
        move = partial(op, labels="Ebsh", sizes=self._rows)
        return (
            self.builder.linear("router", "gh", "ln2.out", "router.logits", choices),
            op("routing", "route", "bsg", "router.logits", "routing.choices routing.weights", sizes=choices),
            move(
                "dispatch",
                "dispatch",
                reads="ln2.out routing.choices routing.weights",
                writes="dispatched dispatched.weights",
            ),
            self._product("experts.up", "F|h", self._rising, None, "dispatched", "experts.up.out"),
            op(
                "experts.bend",
                self.bend,
                "EbsF",
                "experts.up.out dispatched.weights",
                "experts.bent",
                sizes=self._rows,
            ),
            self._product("experts.down", "h|F", self._rows, None, "experts.bent", "experts.out"),
            move("combine", "combine", reads="experts.out routing.choices", writes="routed.out"),
            *self._shared_forward(),
        )

    def _shared_forward(self) -> tuple[WorkOp, ...]:
        if not self.shape.shared_ffn:
            return ()
        linear, shared = self.builder.linear, self._shared
        return (
            linear("shared.up", "fh", "ln2.out", "shared.up.out", self._shared_rising),
            self.builder.pointwise("shared.bend", self.bend, "bsf", "shared.up.out", "shared.bent", sizes=shared),
            linear("shared.down", "hf", "shared.bent", "shared.out", shared),
        )

    def backward(self, gradient: str) -> tuple[WorkOp, ...]:
        """Return the backward ops, from the gradient of the sum of all outputs to `d.ln2`."""
        op, choices = partial(self.builder.pointwise, part="backward"), self._choices
        move = partial(op, labels="Ebsh", sizes=self._rows)
        parts = "d.ln2.routed d.ln2.router" + (" d.ln2.shared" if self.shape.shared_ffn else "")
        return (
            *self._shared_backward(gradient),
            move("combine", "combine", reads=f"{gradient} routing.choices", writes="d.experts.out"),
            self._product("experts.down", "F|h", self._rows, "dgrad", "d.experts.out", "d.experts.bent"),
            self._product("experts.down", "h|F", self._rows, "wgrad", "d.experts.out experts.bent"),
            op(
                "experts.bend",
                self.bend,
                "EbsF",
                "d.experts.bent experts.up.out dispatched.weights",
                "d.experts.up d.dispatched.weights",
                sizes=self._rows,
            ),
            self._product("experts.up", "h|F", self._rising, "dgrad", "d.experts.up", "d.dispatched"),
            self._product("experts.up", "F|h", self._rising, "wgrad", "d.experts.up dispatched"),
            move(
                "dispatch",
                "dispatch",
                reads="d.dispatched d.dispatched.weights routing.choices",
                writes="d.ln2.routed d.routing.weights",
            ),
            op(
                "routing",
                "route",
                "bsg",
                "d.routing.weights router.logits routing.choices",
                "d.router.logits",
                sizes=choices,
            ),
            *self.builder.linear_backward("router", "gh", "d.router.logits", "ln2.out", "d.ln2.router", choices),
            self.builder.pointwise("ln2.sum", "add", "bsh", parts, "d.ln2"),
        )

    def _shared_backward(self, gradient: str) -> tuple[WorkOp, ...]:
        if not self.shape.shared_ffn:
            return ()
        back, shared = self.builder.linear_backward, self._shared
        reads = "d.shared.bent shared.up.out"
        return (
            *back("shared.down", "hf", gradient, "shared.bent", "d.shared.bent", shared),
            self.builder.pointwise(
                "shared.bend", self.bend, "bsf", reads, "d.shared.up", sizes=shared, part="backward"
            ),
            *back("shared.up", "fh", "d.shared.up", "ln2.out", "d.ln2.shared", self._shared_rising),
        )

    def _product(
        self, module: str, nk: str, sizes: Mapping[str, int], part: Part | None, reads: str, writes: str = ""
    ) -> WorkOp:
        """Return a grouped matrix product of an expert's module, with the labels n|k; a weight gradient sums over
        rows."""
        labels = f"E|{nk}|bs" if part == "wgrad" else f"E|bs|{nk}"
        weights = (f"{module}.weight",)
        own = {"gradients": weights} if part == "wgrad" else {"weights": weights}
        return self.builder.matmul(module, labels, reads, writes, kind="grouped_matmul", sizes=sizes, part=part, **own)
