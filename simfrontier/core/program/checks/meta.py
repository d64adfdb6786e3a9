"""Rules of a schedule's metadata: the numbers in it match the programs, and no mesh axis is unused."""

from __future__ import annotations

from collections.abc import Iterator

from simfrontier.base.extras import added
from simfrontier.core.program.finding import Findings
from simfrontier.core.program.ir import Compute, Schedule
from simfrontier.core.program.kinds import kind_of, renews_weights
from simfrontier.core.program.op_kind import ModelFacts, NormKind, StepKind


def check_meta(schedule: Schedule, findings: Findings) -> None:
    """Check the metadata of a training step: `num_layers` and `grad_accum` must match the calls, `clip` the norms, and
    `optimizer` the update ops; every mesh axis must divide work or data."""
    if not any(renews_weights(op) for op in schedule.ops):
        return
    layers, micros = _counted(schedule)
    for name, counted in (("num_layers", layers), ("grad_accum", micros)):
        text = schedule.meta.get(name)
        if text != counted:
            got = "nothing said" if text is None else str(text)
            findings.add("facts", f"meta {name}", "all ranks", f"{counted}, as its calls have it", got)
    for axis in _idle(schedule):
        size = schedule.mesh[axis]
        findings.add("facts", f"mesh axis {axis}", "all ranks", f"work or states divided over its {size}", "none")
    for name, wanted in (*_of_steps(schedule), *_of_extras(schedule)):
        text = schedule.meta.get(name)
        findings.add("facts", f"meta {name}", "all ranks", wanted, "nothing said" if text is None else repr(text))


def _idle(schedule: Schedule) -> list[str]:
    """Return the mesh axes of size above 1 along which all ranks do the same work and hold the same data."""
    busy = {role.at[0] for role in schedule.roles if role.at is not None}
    for op in schedule.ops:
        if isinstance(op, Compute):
            busy.update(axis for axis, _ in op.split)
    for tensor in schedule.tensors.values():
        busy.update(axis for axis, _ in tensor.placement.shards)
        busy |= tensor.placement.flat
    return [axis for axis in schedule.mesh.live(schedule.mesh.names) if axis not in busy]


def _counted(schedule: Schedule) -> tuple[int, int]:
    """Return (number of layers, number of micro-batches) that the calls use. If no weight belongs to a layer, the
    number of layers is the one in the metadata."""
    weights = {name for name, tensor in schedule.tensors.items() if tensor.role == "weight" and tensor.per_layer}
    ahead = [
        max((ref.layer for op in block for ref in (*op.reads, *op.writes) if ref.name in weights), default=None)
        for block in schedule.blocks
    ]
    calls = [call for role in schedule.roles for call in role.calls]
    reached = (call.layer + last + 1 for call in calls if (last := ahead[call.block]) is not None)
    stated = schedule.meta.get("num_layers")
    layers = max(reached, default=1) if weights else stated if isinstance(stated, int) else 1
    return layers, max((call.micro for call in calls), default=0) + 1


def _of_steps(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Check `clip` and `optimizer` in the metadata. `clip` must be "each" if every norm covers a single gradient, else
    absent. Weights must be updated by the stated optimizer (default: Adam)."""
    norms = [op for op in schedule.ops if isinstance(kind_of(op), NormKind)]
    singly = bool(norms) and all(len(op.reads) == 1 and op.writes for op in norms)
    clip, optimizer = schedule.meta.get("clip"), schedule.meta.get("optimizer", "adam")
    if singly and clip != "each":
        yield "clip", "'each': every norm is of one gradient, for which the host waits"
    if not singly and clip is not None:
        yield "clip", "nothing: norms are of several gradients"
    steps = {kind.name: kind for op in schedule.ops if isinstance(kind := kind_of(op), StepKind) if renews_weights(op)}
    kinds = steps.keys() - {kind.beside for kind in steps.values()}
    if kinds != {optimizer}:
        yield "optimizer", " and ".join(sorted(kinds)) + ", as its steps are"


def _of_extras(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """Yield the metadata entries of models from extras that contradict the ops."""
    for facts in added("model_facts", ModelFacts):
        yield from facts.stated(schedule)
