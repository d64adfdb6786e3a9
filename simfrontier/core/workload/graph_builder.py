"""A builder of model graphs: values and weights by name, and ops from a few arguments each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from simfrontier.core.program import OpName, Part
from simfrontier.core.workload.graph import CrossEntropy, LossMethod, Precision, Use, Value, Weight, WorkOp

Labels = tuple[str, ...]
Softmax = Literal["fused", "two-pass", "three-pass-recompute", "three-pass-reload"]
"""The kernel of a softmax (program.cost)."""
NOTHING: Mapping[str, int] = {}
THREE, TWO, GATHER, MERGE = get_args(CrossEntropy)


def uses(names: str) -> tuple[Use, ...]:
    """Parse values by their names, separated by spaces: `x` of the op's own layer, `x@1` of the layer after it."""
    parts = (name.partition("@") for name in names.split())
    return tuple((name, int(layer or 0)) for name, _, layer in parts)


@dataclass
class GraphBuilder:
    """Builder of values, weights and ops.

    `sizes` of labels apply to every op that sets none of its own; `rows` are the labels of the rows of a linear
    module's input; `softmax` is the kernel of those softmaxes whose rows are whole. A linear module m has the ops m,
    m.dgrad and m.wgrad and the weights m.weight and, optionally, m.bias; `nk` are the two letters that label its
    outputs and its inputs.
    """

    precision: Precision
    sizes: Mapping[str, int]
    rows: Labels
    softmax: Softmax = "fused"
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        """Softmax kernel of an op; empty where rows stay on the chip."""
        return "" if self.softmax == "fused" else self.softmax

    @property
    def softmax_trait(self) -> dict[str, str]:
        """The trait of a model with another softmax kernel."""
        return {"softmax": self.kernel} if self.kernel else {}

    # ── tensors ──

    def declare(self, labels: str, *names: str, sizes: Mapping[str, int] = NOTHING, **traits: Any) -> None:
        """Declare values with these labels, by default of every layer and of the model's type; `traits` are other
        fields of `Value`."""
        given = {"dtype": self.precision.model, "per_layer": True, **traits}
        for name in names:
            value = Value(local=name, dims=tuple(labels), shape=self._shape(labels, sizes), **given)
            self.values[value.name] = value

    def weight(
        self, module: str, parameter: str, labels: str, sizes: Mapping[str, int] = NOTHING, per_layer: bool = True
    ) -> None:
        """Declare a parameter of a module."""
        dims, shape = tuple(labels), self._shape(labels, sizes)
        weight = Weight(module=module, parameter=parameter, dims=dims, shape=shape, per_layer=per_layer)
        self.weights[weight.name] = weight

    def linear_weights(
        self,
        module: str,
        nk: str,
        sizes: Mapping[str, int] = NOTHING,
        per_layer: bool = True,
        has_bias: bool = True,
    ) -> None:
        """Declare the matrix (outputs × inputs) of a linear module, and its bias if it has one."""
        self.weight(module, "weight", nk, sizes, per_layer)
        if has_bias:
            self.weight(module, "bias", nk[0], sizes, per_layer)

    def _shape(self, labels: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(size for _, size in self._iteration(tuple(labels), sizes))

    # ── ops ──

    def pointwise(
        self,
        module: str,
        kind: str,
        labels: str,
        reads: str = "",
        writes: str = "",
        *,
        sizes: Mapping[str, int] = NOTHING,
        part: Part | None = None,
        is_sums: bool = False,
        **other: Any,
    ) -> WorkOp:
        """Return an op with one step per element of its iteration space; `reads` and `writes` are parsed by `uses`,
        `other` are fields of WorkOp."""
        return WorkOp(
            named=OpName(module, part, is_sums),
            kind=kind,
            iteration=self._iteration(tuple(labels), sizes),
            reads=uses(reads),
            writes=uses(writes),
            **other,
        )

    def matmul(
        self,
        module: str,
        labels: str,
        reads: str = "",
        writes: str = "",
        *,
        kind: str = "matmul",
        **other: Any,
    ) -> WorkOp:
        """Return a product with `labels` batch|m|n|k, such as `ba|s|t|d`: 2·batch·m·n·k operations; `other` as in
        `pointwise`."""
        batch, m, n, k = map(tuple, labels.split("|"))
        op = self.pointwise(module, kind, labels.replace("|", ""), reads, writes, **other)
        flops = 2 * math.prod(size for _, size in op.iteration)
        return replace(op, matmul=(batch, m, n, k), flops=flops)

    def _iteration(self, labels: Labels, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        return tuple((label, sizes[label] if label in sizes else self.sizes[label]) for label in labels)

    def linear(
        self, module: str, nk: str, source: str, target: str, sizes: Mapping[str, int] = NOTHING, table: str = ""
    ) -> WorkOp:
        """Return a linear module's forward, from value `source` to value `target`; `table`: the module whose matrix it
        shares."""
        weights, labels = self._weights_of(table or module), f"|{self._rows}|{nk[0]}|{nk[1]}"
        return self.matmul(module, labels, source, target, sizes=sizes, weights=weights)

    def linear_backward(
        self,
        module: str,
        nk: str,
        gradient: str,
        source: str,
        target: str,
        sizes: Mapping[str, int] = NOTHING,
        table: str = "",
    ) -> tuple[WorkOp, WorkOp]:
        """Return a linear module's backward: the gradient of its input into `target`, then those of its weights."""
        weights, labels = (f"{table or module}.weight",), f"|{self._rows}|{nk[1]}|{nk[0]}"
        back = self.matmul(module, labels, gradient, target, sizes=sizes, part="dgrad", weights=weights)
        return back, self.weight_gradient(module, nk, gradient, source, sizes, table)

    def weight_gradient(
        self, module: str, nk: str, gradient: str, source: str, sizes: Mapping[str, int] = NOTHING, table: str = ""
    ) -> WorkOp:
        """Return the gradients of a linear module's weights alone, for a module whose input needs none."""
        weights, labels = self._weights_of(table or module), f"|{nk[0]}|{nk[1]}|{self._rows}"
        return self.matmul(module, labels, f"{gradient} {source}", sizes=sizes, part="wgrad", gradients=weights)

    @property
    def _rows(self) -> str:
        return "".join(self.rows)

    def _weights_of(self, module: str) -> tuple[str, ...]:
        return tuple(name for name in (f"{module}.weight", f"{module}.bias") if name in self.weights)

    # ── the end of every model here: logits, and the cross-entropy loss in wide numbers ──

    def logits(self, label: str) -> None:
        """Declare the logits over the classes of that label, their gradient, and the intermediate values of the methods
        of the loss."""
        rows, wide = self._rows, self.precision.wide
        self.declare(rows + label, "logits", "d.logits", per_layer=False)
        if self.precision.is_mixed:
            self.declare(rows + label, self._wide_logits, dtype=wide, per_layer=False, form_of="logits")

        def of_loss(labels: str, methods: tuple[LossMethod, ...], *names: str, num_terms: int = 0) -> None:
            sizes = {"e": num_terms}
            self.declare(rows + labels, *names, sizes=sizes, dtype=wide, per_layer=False, loss_methods=methods)

        of_loss("", (THREE, TWO), "loss.top")
        of_loss("e", (TWO,), "loss.terms", num_terms=2)
        of_loss(label, (THREE,), "loss.shifted", "loss.exponentials")
        of_loss("", (THREE,), "loss.own", "loss.total")
        of_loss("e", (GATHER,), "loss.online", num_terms=3)
        of_loss("e", (MERGE,), "loss.pairs", num_terms=3)

    @property
    def _wide_logits(self) -> str:
        return f"logits.{self.precision.wide}" if self.precision.is_mixed else "logits"

    def classifier(self, nk: str, source: str, table: str = "") -> tuple[WorkOp, ...]:
        """Return the head's product and, in a narrow precision, the cast of the logits."""
        product = self.linear("head", nk, source, "logits", table=table)
        if not self.precision.is_mixed:
            return (product,)
        cast = f"to_{self.precision.wide}"
        return product, self.pointwise(cast, "cast", self._rows + nk[0], "logits", self._wide_logits)

    def classifier_backward(self, nk: str, source: str, target: str, table: str = "") -> tuple[WorkOp, ...]:
        """Return the loss and its gradient, then the head's backward into `target`."""
        return *self._loss(nk), *self.linear_backward("head", nk, "d.logits", source, target, table=table)

    def _loss(self, nk: str) -> tuple[WorkOp, ...]:
        """The loss by every method, of which a plan uses one.

        whole: one op, whose passes over memory are those of a softmax. Where classes are cut, ranks first
        exchange something of each row:

        three-all-reduces: the largest logit, the label's own, the sum of exponentials (Megatron-LM,
            megatron/core/tensor_parallel/cross_entropy.py; it works in place, here the shifted logits and the
            exponentials have room of their own)
        fused-two: the largest logit, then both sums together (megatron/core/fusions/fused_cross_entropy.py)
        one-gather: maximum, sum and label's own logit, formed in one pass and merged (TransformerEngine,
            pytorch/triton/cross_entropy.py)
        mn-merge: the same with exponentials as m 2^n, which need no maximum (arXiv 2001.04438)
        """
        logits = self._wide_logits

        def op(part: str, loss_methods: tuple[LossMethod, ...], reads: str, writes: str, kernel: str = "") -> WorkOp:
            module, kind = (f"loss.{part}", f"loss_{part}") if part else ("loss", "loss")
            is_sums = part == "sums"
            return self.pointwise(
                "loss" if is_sums else module,
                kind,
                self._rows + nk[0],
                reads,
                writes,
                is_sums=is_sums,
                kernel=kernel,
                loss_methods=loss_methods,
            )

        return (
            op("max", (THREE, TWO), logits, "loss.top"),
            op("sums", (TWO,), f"{logits} loss.top", "loss.terms"),
            op("own", (THREE,), f"{logits} loss.top", "loss.own loss.shifted"),
            op("exp", (THREE,), "loss.shifted", "loss.exponentials"),
            op("sum", (THREE,), "loss.exponentials", "loss.total"),
            op("online", (GATHER,), logits, "loss.online"),
            op("pairs", (MERGE,), logits, "loss.pairs"),
            op("", ("whole",), logits, "d.logits", self.kernel),
            op("", (TWO,), f"{logits} loss.top loss.terms", "d.logits"),
            op("", (THREE,), "loss.exponentials loss.own loss.total", "d.logits"),
            op("", (GATHER,), f"{logits} loss.online", "d.logits"),
            op("", (MERGE,), f"{logits} loss.pairs", "d.logits"),
        )


NEXT = ".next"  # the end of the name of a value of the layer after, in a part that has one layer


@dataclass(frozen=True, slots=True)
class Stream:
    """Naming of ops and values in a stream: the op `qkv` of stream `local` is `local/qkv` and reads `local/ln1.out`.
    The weights of a `follower` are states of its own, `teacher/qkv.weight`.

    A part with `one_layer` has values of no layer: the x that it outputs is `x.next`.
    """

    name: str
    follower: str = ""
    one_layer: bool = False

    def op(self, op: WorkOp) -> WorkOp:
        """Return the op in this stream."""
        moved = replace(in_stream(self.name, op), reads=self._uses(op.reads), writes=self._uses(op.writes))
        if not self.follower:
            return moved
        return replace(moved, weights=(), states=(*op.states, *(f"{self.follower}/{name}" for name in op.weights)))

    def ops(self, ops: Iterable[WorkOp]) -> tuple[WorkOp, ...]:
        """Return the ops in this stream."""
        return tuple(self.op(op) for op in ops)

    def values(self, values: Iterable[Value]) -> dict[str, Value]:
        """Return the values in this stream, by name."""
        out = {}
        for value in values:
            has_next = self.one_layer and value.per_layer
            for ending in ("", NEXT) if has_next else ("",):
                like = value.name if ending else value.form_of
                moved = replace(
                    value,
                    local=value.local + ending,
                    streams=(self.name, *value.streams),
                    per_layer=value.per_layer and not self.one_layer,
                    form_of=f"{self.name}/{like}" if like else "",
                )
                out[moved.name] = moved
        return out

    def _uses(self, uses: tuple[Use, ...]) -> tuple[Use, ...]:
        if self.one_layer:
            return tuple((f"{self.name}/{name}{NEXT * shift}", 0) for name, shift in uses)
        return tuple((f"{self.name}/{name}", shift) for name, shift in uses)


def in_stream(stream: str, op: WorkOp) -> WorkOp:
    """Return the op with the name that it has in a stream."""
    return replace(op, named=op.named._replace(streams=(stream, *op.named.streams)))


def without_cuts(ops: Iterable[WorkOp], values: dict[str, Value]) -> tuple[WorkOp, ...]:
    """Return the ops of a model that is not cut: without those that only cuts need, and without the values that these
    write."""

    def there(uses: tuple[Use, ...]) -> tuple[Use, ...]:
        return tuple(use for use in uses if not values[use[0]].where_cut)

    return tuple(replace(op, reads=there(op.reads), writes=there(op.writes)) for op in ops if not op.where_cut)
