"""Placements of values under a plan: which axes cut each op, the placements of its operands and results, and the
placement in which each value is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from simfrontier.core.plan.plan import Plan
from simfrontier.core.program import Mesh, Placement, model_kind, placements_of
from simfrontier.core.workload import EXPERTS, LossMethod, MatmulLabels, Use, Value, Weight, Workload, WorkOp

BATCH = "b"  # the label of samples; an op without it sees all of them
Space = tuple[tuple[str, int], ...]  # labels of an op's iteration space and their sizes


@dataclass
class CutLayout:
    """Placements that follow from the cuts of a plan.

    `kept`: the placement in which each value is stored. This is the placement in which an op produces it; if all ops
    produce it partial, it is the placement that its first reader needs. `summed_late`: for each addition, by what it
    reads, the names of the partial values that it adds up before they are reduced.
    """

    workload: Workload
    plan: Plan
    mesh: Mesh
    kept: dict[str, Placement] = field(default_factory=dict)
    summed_late: dict[tuple[Use, ...], tuple[str, ...]] = field(default_factory=dict)
    # results so far, by all that they depend on
    _splits: dict[tuple[str, Space], tuple[tuple[str, str], ...]] = field(default_factory=dict)
    _needed: dict[tuple[str, Space, tuple[str, ...]], Placement] = field(default_factory=dict)
    _given: dict[tuple[Space, MatmulLabels | None, str, tuple[str, ...]], Placement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._every = tuple(self._in_order())
        self._keep_values()
        if self.plan.sums_branches:
            self._sum_branches()

    @cached_property
    def loss_method(self) -> LossMethod:
        """Method by which the loss is computed: the plan's method if the plan cuts the classes (last dimension of the
        logits), else `whole`."""
        logits = self.workload.values.get("logits")
        return self.plan.cross_entropy if logits is not None and logits.dims[-1] in self.plan.cuts else "whole"

    def exists(self, one: WorkOp | Value) -> bool:
        """Return whether an op or a value exists under this plan: some exist only if a label is cut, or only for one
        method of the loss."""
        return (not one.where_cut or one.where_cut in self.plan.cuts) and (
            not one.loss_methods or self.loss_method in one.loss_methods
        )

    def ops(self, ops: tuple[WorkOp, ...]) -> tuple[WorkOp, ...]:
        """Return those of the ops that exist under this plan."""
        return tuple(op for op in ops if self.exists(op))

    def uses(self, uses: tuple[Use, ...]) -> tuple[Use, ...]:
        """Return those uses whose values exist under this plan."""
        return tuple(use for use in uses if self.exists(self.workload.values[use[0]]))

    def split(self, op: WorkOp) -> tuple[tuple[str, str], ...]:
        """Return the (axis, label) pairs that divide an op among ranks: the axes of the plan's `cuts`, batch axes along
        the batch, and the sequence axis along the sequence if it cuts no other label."""
        key = op.kind, op.iteration
        if key not in self._splits:
            self._splits[key] = self._split(op)
        return self._splits[key]

    def _split(self, op: WorkOp) -> tuple[tuple[str, str], ...]:
        labels = {label for label, _ in op.iteration}
        cuts = dict(self.plan.cuts)
        cuts |= {label: axes for (kind, label), axes in self.plan.cuts_of_kind.items() if kind == op.kind}
        of_experts = cuts.get(EXPERTS, ()) if EXPERTS in labels else ()  # which cut nothing else in such an op
        cut = [
            (axis, label)
            for label, axes in cuts.items()
            if label in labels
            for axis in axes
            if label == EXPERTS or axis not in of_experts
        ]
        elsewhere = {axis for axis, _ in cut}
        out = [(axis, BATCH) for axis in self.plan.axes if BATCH in labels and axis not in elsewhere] + cut
        sequence = self.plan.sequence
        if sequence is not None and "s" in labels and all(axis != sequence for axis, _ in out):
            out.append((sequence, "s"))
        return tuple(out)

    def needed(self, op: WorkOp, value: Value) -> Placement:
        """Return the placement that an op needs for an operand."""
        dims = op.labels_of(value)
        key = op.kind, op.iteration, dims
        if key not in self._needed:
            self._needed[key] = Placement(placements_of(dict(self.split(op)), dims)).on(self.mesh)
        return self._needed[key]

    def given(self, op: WorkOp, dims: tuple[str, ...]) -> Placement:
        """Return the placement in which an op produces a result with the labels `dims`: partial over the axes that cut
        a label over which the op sums."""
        key = op.iteration, op.matmul, op.kind, dims
        if key not in self._given:
            self._given[key] = self._as_given(op, dims)
        return self._given[key]

    def _as_given(self, op: WorkOp, dims: tuple[str, ...]) -> Placement:
        split, kind = self.split(op), model_kind(op.kind)
        is_one = op.matmul is not None and kind.products == {}  # fused attention sums over other labels in each product
        summed = set(op.matmul[3]) if op.matmul is not None and is_one else {label for _, label in split}
        reduction = kind.reduction
        partial = tuple((axis, reduction) for axis, label in split if label in summed and label not in dims)
        return Placement(placements_of(dict(split), dims), frozenset(), partial).on(self.mesh)

    def gradient(self, weight: Weight) -> Placement:
        """Return the placement of a weight's gradient before its reduction; of a frozen one, as it would be."""
        op = next(op for op in self._every if weight.name in (op.weights if weight.is_frozen else op.gradients))
        return self.given(op, weight.dims)

    def _in_order(self) -> Iterator[WorkOp]:
        work = self.workload
        for phase in (work.embedding, *work.kinds, work.head):
            yield from self.ops(phase.forward)
        for phase in (work.head, *work.kinds, work.embedding):
            yield from self.ops(phase.backward)

    def _keep_values(self) -> None:
        values = self.workload.values
        given: dict[str, list[Placement]] = {name: [] for name in values}
        needed: dict[str, Placement] = {}
        for op in self._every:
            sees_all = all(label != BATCH for label, _ in op.iteration)
            for name, _ in self.uses(op.reads):
                if not (sees_all and BATCH in values[name].dims):
                    needed.setdefault(name, self.needed(op, values[name]))
            for name, _ in op.writes:
                given[name].append(self.given(op, op.labels_of(values[name])))
        for name, value in values.items():
            if self.exists(value):
                self.kept[name] = self._kept(value, given[name], needed)

    def _kept(self, value: Value, given: list[Placement], needed: dict[str, Placement]) -> Placement:
        whole = {placement for placement in given if not placement.partial}
        assert len(whole) <= 1, f"{value.name} is given as {' and as '.join(map(str, whole))}"
        if whole:
            return whole.pop()
        return needed[value.name] if value.name in needed else self._of_data(value)

    def _of_data(self, value: Value) -> Placement:
        """Return the placement of input data that no op reads sample by sample: cut along the batch."""
        return Placement(placements_of(dict.fromkeys(self.plan.axes, BATCH), value.dims)).on(self.mesh)

    def _sum_branches(self) -> None:
        """Find the additions that read several values that are partial over the same axes and that no other op
        reads."""
        values = self.workload.values
        made = {name: self.given(op, op.labels_of(values[name])) for op in self._every for name, _ in op.writes}
        readers: dict[str, set[str]] = {}
        for op in self._every:
            for name, _ in op.reads:
                readers.setdefault(name, set()).add(op.name)
        for op in self._every:
            late = tuple(
                name for name, _ in op.reads if name in made and made[name].partial and len(readers[name]) == 1
            )
            if model_kind(op.kind).adds_values and len(late) > 1 and len({made[name] for name in late}) == 1:
                self.summed_late[op.reads] = late
