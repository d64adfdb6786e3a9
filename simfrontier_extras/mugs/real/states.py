"""Start of a training of Mugs: made-up crops of images, initial queues, memories and centre, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.core.program import Schedule, Tensor

CROPS: Final = ("teacher/pixels", "global/pixels", "local/pixels")
INPUTS: Final = (*CROPS, "flags")
KINDS: Final = 4  # of images, which have a pattern each
WEAK: Final = 0.5  # of the images have their flag set, as with the default --prob of sail-sg/mugs' main.py


def crops(schedule: Schedule, seed: int, step: int, micro: int) -> dict[str, Any]:
    """Return crops of images, each of one of a few fixed patterns: a crop is the beginning of the pattern and noise, as
    patches."""
    import numpy as np

    numbers = np.random.default_rng([seed, 1, step, micro])
    shapes = {name: schedule.tensors[name].shape for name in INPUTS}
    (images,), patches = shapes["flags"], shapes["global/pixels"][1:]
    patterns = np.random.default_rng([seed, 2]).normal(size=(KINDS, *patches))
    kind = numbers.integers(0, KINDS, images)
    out: dict[str, Any] = {"flags": (numbers.random(images) < WEAK).astype(np.uint8)}
    for name in CROPS:
        rows, num_patches, _ = shapes[name]
        seen = patterns[np.repeat(kind, rows // images), :num_patches]
        out[name] = seen + numbers.normal(size=shapes[name])
    return out


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
