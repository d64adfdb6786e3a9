"""Rebinding: the schedule of another mesh size or batch out of one of the same structure, without building it anew.

Which ops there are depends on which axes are longer than 1, not on how long they are; only the batch dimension of
activations, and with it the work of the ops on them, follows the size.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, replace

from simfrontier.core.plan.layout import BATCH
from simfrontier.core.plan.plan import Engine, Plan
from simfrontier.core.program import Call, Compute, ExpandedProgram, Mesh, Op, Schedule, Tensor
from simfrontier.core.workload import Workload

_CHOICES = tuple(each.name for each in fields(Plan) if each.name != "fallback_multiple")


def structure_of(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine, grad_accum: int) -> Hashable:
    """Two builds with equal structure differ in their mesh's sizes and their batch only."""
    routes = tuple((plan.gradient_hops(weight), plan.step_hops(weight)) for weight in workload.weights.values())
    choices = tuple(_hashable(getattr(plan, name)) for name in _CHOICES)
    shapes = (
        *((weight.name, weight.shape) for weight in workload.weights.values()),
        *((value.name, _but_batch(value.dims, value.shape)) for value in workload.values.values()),
    )
    traits = tuple(sorted(workload.traits.items()))
    model = (
        workload.name,
        workload.precision,
        workload.num_layers,
        workload.checkpointing,
        workload.checkpoint_every,
        workload.optimizer,
        traits,
        shapes,
    )
    stages = None if plan.pipeline is None else mesh[plan.pipeline.axis]
    return choices, routes, mesh.names, mesh.live(mesh.names), stages, engine, grad_accum, model


def _hashable(choice: Hashable | Mapping[str, Hashable]) -> Hashable:
    return tuple(sorted(choice.items())) if isinstance(choice, Mapping) else choice


def _but_batch(dims: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for label, size in zip(dims, shape, strict=True) if label != BATCH)


def rebound(schedule: Schedule, mesh: Mesh, batch: int) -> Schedule:
    """The schedule on another mesh with another global batch; ops and blocks keep their numbers."""
    old = int(schedule.meta["batch"])
    ops = [_op(op, batch, old) for op in schedule.ops]
    blocks = [tuple([ops[op.number] for op in block]) for block in schedule.blocks]
    roles = tuple(
        replace(role, calls=tuple([Call(c.label, c.layer, c.micro, blocks[c.block], c.block) for c in role.calls]))
        for role in schedule.roles
    )
    tensors = {name: _tensor(tensor, batch, old) for name, tensor in schedule.tensors.items()}
    meta = {**schedule.meta, "batch": batch}
    return replace(schedule, mesh=mesh, tensors=tensors, roles=roles, meta=meta)


def rebound_program(program: ExpandedProgram, schedule: Schedule) -> ExpandedProgram:
    """The expansion of a rebound schedule of one role: other ops, the same order and waits."""
    return program.with_ops(
        [schedule.ops[op.number] for op in program.ops], [c for c in schedule.roles[0].calls for _ in c.ops]
    )


def _op(op: Op, batch: int, old: int) -> Op:
    if not isinstance(op, Compute) or not any(label == BATCH for label, _ in op.iteration):
        return op
    iteration = tuple((label, size * batch // old if label == BATCH else size) for label, size in op.iteration)
    return replace(op, iteration=iteration, flops=op.flops * batch // old)


def _tensor(tensor: Tensor, batch: int, old: int) -> Tensor:
    if BATCH not in tensor.dims:
        return tensor
    shape = tuple(
        size * batch // old if label == BATCH else size for label, size in zip(tensor.dims, tensor.shape, strict=True)
    )
    return replace(tensor, shape=shape)
