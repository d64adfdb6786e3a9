"""Memory that the buffers of a small schedule take."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from simfrontier.answers.search.small_forms import SmallForm
from simfrontier.core.program import Compute, Mesh, Tensor


def held_bytes(tensor: Tensor, mesh: Mesh) -> int:
    """Return the bytes of a tensor on a rank; 0 if it shares the memory of another one."""
    return 0 if tensor.shares else tensor.local_bytes(mesh)


def read_by_products(form: SmallForm, size: Mapping[str, int]) -> float:
    """Return the bytes of activations that the products of a micro-batch's layers read which make gradients of
    weights."""
    ops, tensors = form.schedule.ops, form.schedule.tensors
    read = {ref.name for op in ops if isinstance(op, Compute) and op.named.part == "wgrad" for ref in op.reads}
    held = (size[name] for name, _, _ in form.held if name in read and tensors[name].per_layer)
    return sum(held) / len(form.micro_ends)


def peak_in_time(
    form: SmallForm, size: Mapping[str, int], start: list[float], end: list[float], passing: Collection[str]
) -> tuple[float, float]:
    """Return the peak of buffer bytes over time, and how many of these bytes are `passing` (weights and gradients in
    flight).
    """
    held = [(size[name], start[first], end[last], name in passing) for name, first, last in form.held if size[name]]
    if not held:
        return 0.0, 0.0
    sizes, begins, ends, are_passing = (np.array(each) for each in zip(*held, strict=True))
    change = np.concatenate([sizes, -sizes])
    order = np.lexsort((change, np.concatenate([begins, ends])))  # what ends makes room before what begins
    total = np.cumsum(change[order])
    at = int(total.argmax())
    some = np.cumsum(np.where(np.concatenate([are_passing, are_passing]), change, 0)[order])
    return float(total[at]), float(some[at])


def peaks_in_order(form: SmallForm, size: Mapping[str, int]) -> list[int]:
    """Return the largest buffer bytes during an op, in program order (as `core.program.peak_bytes`), by phase."""
    change = [0] * (len(form.phase) + 1)
    for name, first, last in form.held:
        change[first] += size[name]
        change[last + 1] -= size[name]
    held, most = 0, [0, 0, 0]
    for phase, delta in zip(form.phase, change, strict=False):
        held += delta
        most[phase] = max(most[phase], held)
    return most
