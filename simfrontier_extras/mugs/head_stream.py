"""The heads of Mugs on one stream of crops: projectors, predictors, the relation block, prototypes; and backward.

Labels and streams as in `mugs_heads`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from simfrontier.core.program import Part
from simfrontier.core.workload import (
    NEXT,
    GraphBuilder,
    Precision,
    Stream,
    Value,
    Weight,
    Workload,
    WorkOp,
    without_cuts,
)
from simfrontier_extras.mugs.architecture import MugsArchitecture

RELATION = "relation"
MATRICES = (("1", "ph"), ("2", "qp"), ("3", "eq"))  # of a projector, with the labels of outputs and inputs
PREDICTOR = (("predict.1", "ue"), ("predict.2", "eu"))

Ops = tuple[WorkOp, ...]


@dataclass
class HeadDeclarations:
    """Declarations shared by the heads of all streams. `block`: returns a transformer whose layer is the relation
    block, for a number of rows per image."""

    shape: MugsArchitecture
    batch: int
    precision: Precision
    block: Callable[[int], Workload]
    weights: dict[str, Weight]
    values: dict[str, Value] = field(default_factory=dict)

    def builder(self, crops: int) -> GraphBuilder:
        """Return a builder for ops on `crops` rows of every image."""
        shape = self.shape
        sizes = {
            "b": self.batch * crops,
            "s": shape.neighbours + 1,
            "h": shape.hidden,
            "p": shape.projector,
            "q": shape.projector,
            "e": shape.bottleneck,
            "u": shape.predictor,
            "k": shape.queue,
            "j": shape.queue + 1,
            "w": shape.prototypes,
        }
        return GraphBuilder(self.precision, sizes, rows=("b",), weights=self.weights)

    def declare(self, labels: str, crops: int, *names: str, **traits: Any) -> None:
        """Declare values of no layer, with `crops` rows of every image; `traits` as for `GraphBuilder.declare`."""
        builder = self.builder(crops)
        builder.declare(labels, *names, per_layer=False, **traits)
        self.values.update(builder.values)


class HeadStream:
    """The heads of one stream, written down with plain names and then given those of the stream."""

    def __init__(self, declarations: HeadDeclarations, stream: Stream, crops: int) -> None:
        self.declarations, self.stream, self.crops = declarations, stream, crops
        self.builder = declarations.builder(crops)
        self.is_student = not stream.follower

    def features(self) -> Ops:
        """Return the ops that compute the inputs of the losses, head by head: a query for each student's crop, or keys
        of the teacher's crops."""
        ops = (
            *self._projected("instance", "cls"),
            *self._related(),
            *self._projected("group", "related"),
            *self._projected("cluster", "cls"),
            *self._prototypes(),
        )
        self._take()
        return self.stream.ops(ops)

    def _take(self) -> None:
        """Register the values declared so far under the stream's names."""
        self.declarations.values.update(self.stream.values(self.builder.values.values()))

    def _declare(self, labels: str, *names: str, form_of: str = "") -> None:
        self.builder.declare(labels, *names, per_layer=False, form_of=form_of)

    def _parts(self, head: str) -> tuple[tuple[str, str], ...]:
        return (*MATRICES, *PREDICTOR) if self.is_student and head != "cluster" else MATRICES

    def _projected(self, head: str, source: str) -> Ops:
        """Return linear modules with GELUs between them; a predictor's input and the resulting rows are brought to
        length 1."""
        out: list[WorkOp] = []
        parts = self._parts(head)
        for number, (part, nk) in enumerate(parts):
            module, target = f"{head}.{part}", f"{head}.{part}.out"
            self._declare(f"b{nk[0]}", target)
            out.append(self.builder.linear(module, nk, source, target))
            source = target
            if number < len(parts) - 1:
                source = f"{module}.{_after(part)}.out"
                self._declare(f"b{nk[0]}", source)
                out.append(self._between(module, part, nk[0], target, source))
        names = [f"{head}.query"]
        if self.is_student or head == "cluster":
            self._declare("be", *names)
        else:
            names = [f"{head}.key.{view}" for view in range(self.declarations.shape.global_crops)]
            self.declarations.declare("be", 1, *names, streams=(self.stream.name,))
        out.append(self.builder.pointwise(f"{head}.unit", "unit", "be", source, " ".join(names)))
        return tuple(out)

    def _relation(self) -> tuple[Workload, Stream]:
        """Return the relation block for the rows of this stream."""
        return self.declarations.block(self.crops), Stream(RELATION, one_layer=True)

    def _related(self) -> Ops:
        """Return the ops that find the nearest rows of a query in the memory, and compute the relation block's output
        for the query's token among them."""
        block, stream = self._relation()
        self._declare("bk", "similarity")
        self._declare("bh", "related")
        self.builder.values.update(stream.values(block.values.values()))
        memory, token, builder = (f"{self.stream.name}/memory",), f"{RELATION}/x", self.builder
        search = builder.matmul("similarity", "|b|k|h", "mean", "similarity", kind="similarity", states=memory)
        nearest = builder.pointwise("nearest", "nearest", "bsh", "similarity mean", token, states=memory)
        first = builder.pointwise("first", "first", "bsh", token + NEXT, "related")
        return search, nearest, *self._block_ops(block, stream, block.layers[0].forward), first

    def _block_ops(self, block: Workload, stream: Stream, ops: Ops) -> Ops:
        """Return the ops of a layer as ops of the relation block, with the relation block's own weights."""

        def own(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(f"{RELATION}/{name}" for name in names)

        plain = stream.ops(without_cuts(ops, dict(block.values)))
        return tuple(replace(op, weights=own(op.weights), gradients=own(op.gradients)) for op in plain)

    def _prototypes(self) -> Ops:
        """Return the ops that scale the rows of the last weight matrix to their lengths, and multiply every feature row
        with them."""
        self._declare("we", "last.rows")
        self._declare("bw", "cluster.scores")
        trained = ("last.norm",) if self.declarations.shape.trains_norms else ()
        held = () if trained else ("last.norm" if self.is_student else f"{self.stream.name}/last.norm",)
        weights = ("last.weight", *trained)
        normed = self.builder.pointwise("last", "weight_norm", "we", writes="last.rows", weights=weights, states=held)
        reads, target = "cluster.query last.rows", "cluster.scores"
        return normed, self.builder.matmul(target, "|b|w|e", reads, target, kind="prototypes")

    # ── backward, of the student ──

    def backward(self) -> Ops:
        """Return the backward ops from the gradients of prototype scores and queries to those of class and mean
        tokens."""
        self._declare("bw", "d.cluster.scores")
        self._declare("be", "d.cluster.query")
        self._declare("bh", "d.related", "d.cls", "d.mean")
        self._declare("bh", "d.cls.instance", "d.cls.cluster", form_of="d.cls")
        total = self.builder.pointwise("cls.sum", "add", "bh", "d.cls.instance d.cls.cluster", "d.cls")
        ops = (
            *self._prototypes_backward(),
            *self._projected_backward("cluster", "cls", "d.cls.cluster"),
            *self._projected_backward("group", "related", "d.related"),
            *self._related_backward(),
            *self._projected_backward("instance", "cls", "d.cls.instance"),
            total,
        )
        self._take()
        return self.stream.ops(ops)

    def _prototypes_backward(self) -> Ops:
        trains = self.declarations.shape.trains_norms
        weights, held = ("last.weight", "last.norm")[: 1 + trains], ("last.norm",)[trains:]
        scores, product = "d.cluster.scores", partial(self.builder.matmul, kind="prototypes")
        query = product("cluster.scores", "|b|e|w", f"{scores} last.rows", "d.cluster.query", part="dquery")
        reads = f"{scores} cluster.query"
        return query, product("last", "|w|e|b", reads, part="wgrad", weights=weights, states=held, gradients=weights)

    def _projected_backward(self, head: str, source: str, target: str) -> Ops:
        """Return the backward ops of a head's modules in reverse order, from `d.head.query` to `target`."""
        parts = self._parts(head)
        inputs = [source, *(f"{head}.{part}.{_after(part)}.out" for part, _ in parts[:-1])]
        last = f"{head}.{parts[-1][0]}.out"
        self._declare("be", f"d.{last}")
        reads = f"d.{head}.query {last}"
        out = [self.builder.pointwise(f"{head}.unit", "unit", "be", reads, f"d.{last}", part="backward")]
        for number in reversed(range(len(parts))):
            (part, nk), taken = parts[number], inputs[number]
            given = f"d.{taken}" if number else target
            out += self.builder.linear_backward(f"{head}.{part}", nk, f"d.{head}.{part}.out", taken, given)
            if number:
                before = f"{head}.{parts[number - 1][0]}"
                self._declare(f"b{nk[1]}", given, f"d.{before}.out")
                sources = f"{given} {before}.out"
                out.append(self._between(before, parts[number - 1][0], nk[1], sources, f"d.{before}.out", "backward"))
        return tuple(out)

    def _between(
        self, module: str, last: str, label: str, sources: str, target: str, part: Part | None = None
    ) -> WorkOp:
        """Return the op behind a linear module, or its backward; `last` is the last part of the module's name."""
        kind = _after(last)
        return self.builder.pointwise(f"{module}.{kind}", kind, f"b{label}", sources, target, part=part)

    def _related_backward(self) -> Ops:
        block, stream = self._relation()
        back, gradient = partial(self.builder.pointwise, part="backward"), f"{RELATION}/d.x"
        first = back("first", "first", "bsh", "d.related", gradient + NEXT)
        nearest = back("nearest", "nearest", "bsh", gradient, "d.mean")
        return first, *self._block_ops(block, stream, block.layers[0].backward), nearest


def _after(part: str) -> str:
    """The kind of op between a linear module and the next: a projector's end is brought to length 1 before a predictor
    takes it (norm_before_pred of sail-sg/mugs)."""
    return "unit" if part == MATRICES[-1][0] else "gelu"
