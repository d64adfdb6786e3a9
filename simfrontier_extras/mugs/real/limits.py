"""Requirements of Mugs' real training on a schedule."""

from __future__ import annotations

from simfrontier.base.errors import InputError
from simfrontier.core.program import Schedule, Tensor


def refuse(schedule: Schedule) -> None:
    """Raise InputError where more rows enter a queue in a step than it has entries, or where a rank has not the whole
    of a gradient whose norm it needs."""
    tensors, images = schedule.tensors, schedule.tensors["flags"].shape[0]
    views = int(schedule.meta["global_crops"])
    for name, size, rows in (
        *((f"{head}.queue", tensors[f"{head}.queue"].shape[1], views * images) for head in ("instance", "group")),
        *((f"{stream}/memory", tensors[f"{stream}/memory"].shape[0], images) for stream in ("student", "teacher")),
    ):
        if size < rows:
            raise InputError(f"{name}: {rows} rows enter in a step, but it has {size} entries; allowed: {rows} or more")
    for tensor in tensors.values():
        if tensor.role == "weight" and schedule.meta.get("clip") == "each":
            _refuse_cut(tensor, tensors.get(f"{tensor.name}.grad.reduced") or tensors[f"{tensor.name}.grad"])


def _refuse_cut(weight: Tensor, gradient: Tensor) -> None:
    axes = sorted({*gradient.placement.flat, *(axis for axis, _ in gradient.placement.shards)})
    if axes:
        raise InputError(
            f"{weight.name}: its gradient is cut over {'+'.join(axes)}, but each is clipped by its own norm; allowed: "
            "plans that keep gradients whole (ddp)"
        )
