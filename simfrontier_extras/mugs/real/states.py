"""Initial values of Mugs' queues, memories and centre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier.core.program import Schedule, Tensor


def initial_state(state: Tensor, numbers: Any) -> Any:
    """Queues and memories: random rows of length 1 (columns of a queue); the centre: 0; lengths of prototypes: about 1;
    None of anything else. `numbers` is a generator of numpy."""
    import numpy as np

    if state.quantity == "cluster.centre":
        return np.zeros(state.shape)
    if state.quantity == "last.norm":
        return numbers.normal(1.0, 0.1, state.shape)
    if state.quantity in ("instance.queue", "group.queue"):
        columns = numbers.normal(size=state.shape)
        return columns / np.linalg.norm(columns, axis=0)
    if state.quantity in ("memory", "memory.others"):
        rows = numbers.normal(size=state.shape)
        return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MugsSettings:
    """Temperatures of the losses, and momenta of the moving averages.

    All are the defaults of sail-sg/mugs (main.py: instance_temp and local_group_temp, group_student_temp,
    group_teacher_temp, momentum_teacher; src/loss.py: center_momentum). There the teacher's momentum grows to 1 over
    the run; here it stays.
    """

    contrast_temperature: float = 0.2
    student_temperature: float = 0.1
    teacher_temperature: float = 0.04
    centre_momentum: float = 0.9
    teacher_momentum: float = 0.996


def settings_of(given: object | None) -> MugsSettings:
    """Settings as training has them (`TrainingSettings.of_model`); the defaults where it has none."""
    if given is None:
        return MugsSettings()
    assert isinstance(given, MugsSettings)
    return given


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
