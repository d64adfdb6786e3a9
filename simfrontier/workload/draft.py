"""A model while it is written down: its values and weights by name, and ops out of a few words each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from simfrontier.workload.graph import MatmulLabels, Use, Value, Weight, WorkOp
from simfrontier.workload.precision import Precision

Labels = tuple[str, ...]
NOTHING: Mapping[str, int] = {}


def here(*names: str) -> tuple[Use, ...]:
    """Values of the op's own layer."""
    return tuple((name, 0) for name in names)


@dataclass
class Draft:
    """Collects values and weights; makes ops.

    `sizes` of labels hold for every op that does not give its own; `rows` are the labels of the rows of a linear
    module's input. A linear module m has the ops m, m.dgrad and m.wgrad and the weights m.weight and perhaps m.bias;
    `nk` are the two letters that label its outputs and its inputs.
    """

    precision: Precision
    sizes: Mapping[str, int]
    rows: Labels
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)

    # ── tensors ──

    def value(
        self,
        name: str,
        dims: Labels,
        shape: tuple[int, ...],
        dtype: str | None = None,
        per_layer: bool = True,
        persistent: bool = False,
        where_cut: str = "",
    ) -> None:
        """Declare a value, by default of the model's type; `persistent` ones are there before the step."""
        self.values[name] = Value(
            name=name,
            dims=dims,
            shape=shape,
            dtype=dtype or self.precision.model,
            per_layer=per_layer,
            persistent=persistent,
            where_cut=where_cut,
        )

    def weight(self, name: str, module: str, dims: Labels, shape: tuple[int, ...], per_layer: bool = True) -> None:
        """Declare a weight of a module."""
        self.weights[name] = Weight(name=name, module=module, dims=dims, shape=shape, per_layer=per_layer)

    def linear_weights(self, module: str, dims: Labels, shape: tuple[int, int], per_layer: bool = True) -> None:
        """Declare the matrix (outputs × inputs) of a linear module, and its bias."""
        self.weight(f"{module}.weight", module, dims, shape, per_layer)
        self.weight(f"{module}.bias", module, dims[:1], shape[:1], per_layer)

    # ── ops ──

    def pointwise(
        self,
        name: str,
        kind: str,
        labels: str,
        sizes: Mapping[str, int] = NOTHING,
        where_cut: str = "",
        **operands: tuple[object, ...],
    ) -> WorkOp:
        """An op with one step per element of its iteration space; operands as WorkOp's (reads, writes, weights …)."""
        every = self._iteration(tuple(labels), sizes)
        return WorkOp(name=name, kind=kind, iteration=every, where_cut=where_cut, **operands)  # type: ignore[arg-type]

    def matmul(
        self, name: str, labels: MatmulLabels, sizes: Mapping[str, int] = NOTHING, **operands: tuple[object, ...]
    ) -> WorkOp:
        """A product with `labels` (batch, m, n, k): 2·batch·m·n·k operations."""
        every = self._iteration(tuple(label for group in labels for label in group), sizes)
        flops = 2 * math.prod(size for _, size in every)
        return WorkOp(name=name, kind="matmul", iteration=every, matmul=labels, flops=flops, **operands)  # type: ignore[arg-type]

    def _iteration(self, labels: Labels, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        return tuple((label, sizes[label] if label in sizes else self.sizes[label]) for label in labels)

    def linear(
        self, module: str, nk: str, source: str, target: str, sizes: Mapping[str, int] = NOTHING, table: str = ""
    ) -> WorkOp:
        """A linear module's forward, from value `source` to value `target`; `table`: the module whose matrix it
        shares."""
        n, k = ((label,) for label in nk)
        return self.matmul(
            module,
            ((), self.rows, n, k),
            sizes,
            reads=here(source),
            writes=here(target),
            weights=self._weights_of(table or module),
        )

    def linear_backward(
        self,
        module: str,
        nk: str,
        gradient: tuple[Use, ...],
        source: str,
        target: str,
        sizes: Mapping[str, int] = NOTHING,
        table: str = "",
    ) -> tuple[WorkOp, WorkOp]:
        """Its backward: the gradient of its input into `target`, then those of its weights."""
        n, k = ((label,) for label in nk)
        back = self.matmul(
            f"{module}.dgrad",
            ((), self.rows, k, n),
            sizes,
            reads=gradient,
            writes=here(target),
            weights=(f"{table or module}.weight",),
        )
        return back, self.weight_gradient(module, nk, gradient, source, sizes, table)

    def weight_gradient(
        self,
        module: str,
        nk: str,
        gradient: tuple[Use, ...],
        source: str,
        sizes: Mapping[str, int] = NOTHING,
        table: str = "",
    ) -> WorkOp:
        """The gradients of a linear module's weights alone, for a module whose input needs none."""
        n, k = ((label,) for label in nk)
        return self.matmul(
            f"{module}.wgrad",
            ((), n, k, self.rows),
            sizes,
            reads=(*gradient, *here(source)),
            gradients=self._weights_of(table or module),
        )

    def _weights_of(self, module: str) -> tuple[str, ...]:
        return tuple(name for name in (f"{module}.weight", f"{module}.bias") if name in self.weights)

    # ── the end of every model here: logits, and the cross-entropy loss in wide numbers ──

    def logits(self, label: str) -> None:
        """Declare the logits, over classes of that label, and their gradient."""
        dims = (*self.rows, label)
        shape = tuple(self.sizes[each] for each in dims)
        self.value("logits", dims, shape, per_layer=False)
        if self.precision.is_mixed:
            self.value(self._wide_logits, dims, shape, dtype=self.precision.wide, per_layer=False)
        self.value("d.logits", dims, shape, per_layer=False)
        wide, rows = self.precision.wide, shape[:-1]
        self.value("loss.top", self.rows, rows, dtype=wide, per_layer=False, where_cut=label)
        self.value("loss.terms", (*self.rows, "e"), (*rows, 2), dtype=wide, per_layer=False, where_cut=label)

    @property
    def _wide_logits(self) -> str:
        return f"logits.{self.precision.wide}" if self.precision.is_mixed else "logits"

    def classifier(self, nk: str, source: str, table: str = "") -> tuple[WorkOp, ...]:
        """The head's product and, where the model's numbers are narrow, the cast of the logits."""
        product = self.linear("head", nk, source, "logits", table=table)
        if not self.precision.is_mixed:
            return (product,)
        cast = f"to_{self.precision.wide}"
        return product, self.pointwise(
            cast, "cast", self._logit_labels(nk), reads=here("logits"), writes=here(self._wide_logits)
        )

    def classifier_backward(self, nk: str, source: str, target: str, table: str = "") -> tuple[WorkOp, ...]:
        """The loss and its gradient, then the head's backward into `target`.

        Where classes are cut, the largest logit of a row, the sum of exponentials and the label's own logit are formed
        over all classes first, as Megatron-LM's vocabulary-parallel cross-entropy does.
        """
        labels, logits, cut = self._logit_labels(nk), self._wide_logits, nk[0]
        return (
            self.pointwise("loss.max", "loss_max", labels, where_cut=cut, reads=here(logits), writes=here("loss.top")),
            self.pointwise(
                "loss.sums",
                "loss_sums",
                labels,
                where_cut=cut,
                reads=here(logits, "loss.top"),
                writes=here("loss.terms"),
            ),
            self.pointwise(
                "loss", "loss", labels, reads=here(logits, "loss.top", "loss.terms"), writes=here("d.logits")
            ),
            *self.linear_backward("head", nk, here("d.logits"), source, target, table=table),
        )

    def _logit_labels(self, nk: str) -> str:
        return "".join(self.rows) + nk[0]
