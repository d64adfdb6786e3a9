"""The rule of layouts: what has the order of a collective's groups is put in its own order before compute reads it."""

from __future__ import annotations

from simfrontier.core.program.finding import Findings
from simfrontier.core.program.ir import Collective, Compute, Schedule, Tensor
from simfrontier.core.program.kinds import is_copy
from simfrontier.core.program.mesh import Mesh

Order = tuple[str, ...]  # axes that are digits of a flat index, the first slowest


def check_layouts(schedule: Schedule, findings: Findings) -> None:
    """A gather fills its target, and a scatter takes its source, with the digits of its axes first: local ops put them
    in the order of the nesting, all others take that order as given."""
    ops = schedule.distinct_ops()
    turned: dict[str, Order] = {}
    mesh = schedule.mesh
    for op in ops:
        if not isinstance(op, Collective) or op.kind not in ("all_gather", "reduce_scatter"):
            continue
        for a, b in zip(op.src, op.dst, strict=False):
            whole, part = (b, a) if op.kind == "all_gather" else (a, b)
            if not set(mesh.live(op.axes)) <= schedule.tensors[part.name].placement.flat:
                continue
            tensor = schedule.tensors[whole.name]
            order = _order(tensor, mesh, mesh.live(op.axes))
            if order != _order(tensor, mesh):
                turned[whole.name] = order
    if not turned:
        return
    for op in ops:
        if not isinstance(op, Compute) or is_copy(op):
            continue
        for ref in (*op.reads, *op.writes, *op.accumulates):
            if ref.name in turned:
                expected = (
                    f"{ref.name} in the order of its nesting, {_order_text(_order(schedule.tensors[ref.name], mesh))}"
                )
                got = f"in that of a collective, {_order_text(turned[ref.name])}; a permute puts it in order"
                findings.add("facts", f"{op.kind} {op.name}", "all ranks", expected, got)


def _order(tensor: Tensor, mesh: Mesh, first: Order = ()) -> Order:
    """The digits that a rank holds of a tensor, those of a collective before the others."""
    free = [axis for axis in mesh.live(tensor.nesting) if axis not in tensor.placement.flat]
    return (*first, *(axis for axis in free if axis not in first))


def _order_text(order: Order) -> str:
    return "+".join(order) or "none"
