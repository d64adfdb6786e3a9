"""Builder of model graphs: it declares values and weights by name, and makes ops from a few arguments each."""

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
    """Parse names of values, separated by spaces, into pairs of name and layer offset: `x` is in the op's own layer,
    `x@1` in the next layer."""
    parts = (name.partition("@") for name in names.split())
    return tuple((name, int(layer or 0)) for name, _, layer in parts)


@dataclass
class GraphBuilder:
    """Builder of values, weights and ops.

    `sizes` are the default sizes of labels, for every op that sets none of its own; `rows` are the labels of the rows
    of a linear module's input; `softmax` is the kernel of softmaxes whose rows are not split over ranks. A linear
    module m has the ops m, m.dgrad and m.wgrad and the weights m.weight and, optionally, m.bias; `nk` are the labels of
    its outputs and of its inputs, two letters.
    """

    precision: Precision
    sizes: Mapping[str, int]
    rows: Labels
    softmax: Softmax = "fused"
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)

    @property
    def kernel(self) -> str:
        """Kernel of a softmax op; empty if the rows of the softmax stay on the chip."""
        return "" if self.softmax == "fused" else self.softmax

    @property
    def softmax_trait(self) -> dict[str, str]:
        """Trait that records a softmax kernel other than the default; empty for the default kernel."""
        return {"softmax": self.kernel} if self.kernel else {}

    # ── tensors ──

    def declare(self, labels: str, *names: str, sizes: Mapping[str, int] = NOTHING, **traits: Any) -> None:
        """Declare values with these labels, by default one per layer and in the model's number type; `traits` are other
        fields of `Value`."""
        given = {"dtype": self.precision.model, "per_layer": True, **traits}
        for name in names:
            value = Value(local=name, dims=tuple(labels), shape=self._shape(labels, sizes), **given)
            self.values[value.name] = value

    def weight(
        self, module: str, parameter: str, labels: str, sizes: Mapping[str, int] = NOTHING, per_layer: bool = True
    ) -> None:
        """Declare a parameter tensor of a module."""
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
        """Declare the weight matrix (outputs × inputs) of a linear module, and its bias if it has one."""
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
        """Return a pointwise op over the iteration space of `labels`; `reads` and `writes` are names of values, as for
        `uses`; `other` are further fields of WorkOp."""
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
        """Return a matrix product with `labels` batch|m|n|k, such as `ba|s|t|d`, of 2·batch·m·n·k flops; `other` as in
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
        """Return the forward op of a linear module, from value `source` to value `target`; `table`: the module whose
        weight matrix it shares."""
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
        """Return the backward ops of a linear module: the gradient of its input, written to `target`, then the
        gradients of its weights."""
        weights, labels = (f"{table or module}.weight",), f"|{self._rows}|{nk[1]}|{nk[0]}"
        back = self.matmul(module, labels, gradient, target, sizes=sizes, part="dgrad", weights=weights)
        return back, self.weight_gradient(module, nk, gradient, source, sizes, table)

    def weight_gradient(
        self, module: str, nk: str, gradient: str, source: str, sizes: Mapping[str, int] = NOTHING, table: str = ""
    ) -> WorkOp:
        """Return only the op of a linear module's weight gradients, for a module whose input needs no gradient."""
        weights, labels = self._weights_of(table or module), f"|{nk[0]}|{nk[1]}|{self._rows}"
        return self.matmul(module, labels, f"{gradient} {source}", sizes=sizes, part="wgrad", gradients=weights)

    @property
    def _rows(self) -> str:
        return "".join(self.rows)

    def _weights_of(self, module: str) -> tuple[str, ...]:
        return tuple(name for name in (f"{module}.weight", f"{module}.bias") if name in self.weights)

    # ── the end of every model here: logits, and the cross-entropy loss in wide numbers ──

    def logits(self, label: str) -> None:
        """Declare the logits over the classes (dimension `label`), their gradient, and the intermediate values of all
        methods of the loss."""
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
        """Return the matrix product of the head and, if the model's number type is narrow, the cast of the logits to
        the wide type."""
        product = self.linear("head", nk, source, "logits", table=table)
        if not self.precision.is_mixed:
            return (product,)
        cast = f"to_{self.precision.wide}"
        return product, self.pointwise(cast, "cast", self._rows + nk[0], "logits", self._wide_logits)

    def classifier_backward(self, nk: str, source: str, target: str, table: str = "") -> tuple[WorkOp, ...]:
        """Return the ops of the loss and its gradient, then the head's backward, which writes the gradient of its input
        to `target`."""
        return *self._loss(nk), *self.linear_backward("head", nk, "d.logits", source, target, table=table)

    def _loss(self, nk: str) -> tuple[WorkOp, ...]:
        """Return the ops of the loss for every method; a plan uses one method.

        whole: one op, with the memory traffic of a softmax. All other methods are for classes split over ranks, which
        first combine values of each row:

        three-all-reduces: the largest logit, the label's own logit, the sum of exponentials (Megatron-LM,
            megatron/core/tensor_parallel/cross_entropy.py; it works in place, here the shifted logits and the
            exponentials have their own memory)
        fused-two: the largest logit, then both sums together (megatron/core/fusions/fused_cross_entropy.py)
        one-gather: maximum, sum and the label's own logit, computed in one pass, gathered and merged
            (TransformerEngine, pytorch/triton/cross_entropy.py)
        mn-merge: as one-gather, with exponentials as m 2^n, which need no maximum (arXiv 2001.04438)
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
    """Naming of ops and values in a stream (one of several copies of a network in a model): the op `qkv` of stream
    `local` is named `local/qkv` and reads `local/ln1.out`. With a `follower` name, its ops read states such as
    `teacher/qkv.weight` in place of weights.

    With `one_layer`, the values of the stream belong to no layer: its output x is named `x.next`. `outside` maps names
    of its ops to those of values outside of the stream.
    """

    name: str
    follower: str = ""
    one_layer: bool = False
    outside: Mapping[str, str] = field(default_factory=dict)

    def op(self, op: WorkOp) -> WorkOp:
        """Return the op, renamed for this stream."""
        moved = replace(
            in_stream(self.name, op),
            reads=self._uses(op.reads),
            writes=self._uses(op.writes),
            attended=tuple(name for name, _ in self._uses(tuple((name, 0) for name in op.attended))),
        )
        if not self.follower:
            return moved
        return replace(moved, weights=(), states=(*op.states, *(f"{self.follower}/{name}" for name in op.weights)))

    def ops(self, ops: Iterable[WorkOp]) -> tuple[WorkOp, ...]:
        """Return the ops, renamed for this stream."""
        return tuple(self.op(op) for op in ops)

    def values(self, values: Iterable[Value]) -> dict[str, Value]:
        """Return the values of this stream by name, renamed for the stream."""
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
        return tuple((self.outside.get(name, f"{self.name}/{name}"), shift) for name, shift in uses)


def in_stream(stream: str, op: WorkOp) -> WorkOp:
    """Return the op, renamed for a stream."""
    return replace(op, named=op.named._replace(streams=(stream, *op.named.streams)))


def without_cuts(ops: Iterable[WorkOp], values: dict[str, Value]) -> tuple[WorkOp, ...]:
    """Return the ops for a model that is never split over ranks: without the ops that only a split needs, and without
    reads and writes of values that exist only with a split."""

    def there(uses: tuple[Use, ...]) -> tuple[Use, ...]:
        return tuple(use for use in uses if not values[use[0]].where_cut)

    return tuple(replace(op, reads=there(op.reads), writes=there(op.writes)) for op in ops if not op.where_cut)
