"""Building of schedules: workload + plan + mesh → naive program → passes → collectives → schedule; and adaptation of a
schedule to other mesh and batch sizes of the same structure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, replace

from simfrontier.core.plan.builder import ModelPart, ProgramBuilder
from simfrontier.core.plan.hops import with_collectives
from simfrontier.core.plan.layout import BATCH, CutLayout
from simfrontier.core.plan.offload import with_offload
from simfrontier.core.plan.optimizer import declare_scalars, end_of_step
from simfrontier.core.plan.overlap import (
    copied_in_order,
    copies_beside_products,
    in_pieces_with_products,
    products_in_pieces,
)
from simfrontier.core.plan.passes import passes_of
from simfrontier.core.plan.plan import Engine, Plan, Purpose
from simfrontier.core.plan.program import Compressor, Program
from simfrontier.core.plan.repeat import APART, Built, repeated, repeated_layers
from simfrontier.core.plan.ring import attention_by_ring
from simfrontier.core.plan.stages import roles_of
from simfrontier.core.plan.tensors import Tensors
from simfrontier.core.program import Call, Compute, ExpandedProgram, Mesh, Op, Role, Schedule, Tensor
from simfrontier.core.workload import Phase, Workload


def build(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine, grad_accum: int = 1) -> Schedule:
    """Return the schedule of one optimizer step of `grad_accum` micro-batches under a plan, on a mesh."""

    def calls_of(layers: tuple[Phase, ...], num_micro: int, compressor: Compressor) -> Built:
        """Return the calls and tensors of a step with these layers and `num_micro` micro-batches on a mesh without
        stages."""
        tensors = tensors_of(workload.of_layers(layers), plan, mesh, engine)
        return compressor.calls_of(lowered(naive_program(tensors, num_micro), tensors)), tensors.by_name

    def calls_of_few(num_micro: int) -> Built:
        if plan.offloaded_layers or not _is_apart(workload, plan, engine):
            return calls_of(workload.layers, num_micro, Compressor())
        return repeated_layers(
            lambda layers, compressor: calls_of(layers, num_micro, compressor),
            workload.layers,
            min(engine.reduce_bucket_elements, engine.gather_bucket_elements),
            hooks_back,
        )

    hooks_back = engine.outstanding_fetches + 1 if plan.hooks else 0
    known: Mapping[str, Tensor]
    if plan.pipeline is None:
        calls, known = repeated(calls_of_few, grad_accum, hooks_back)
        roles: tuple[Role, ...] = (Role("all", calls),)
    else:
        tensors = tensors_of(workload, plan, mesh, engine)
        roles, known = roles_of(tensors, plan.pipeline, grad_accum, lowered), tensors.by_name
    blocks = {call.block: call.ops for role in roles for call in role.calls}
    ops = {op.number: op for block in blocks.values() for op in block}.values()
    used = {ref.name for op in ops for ref in (*op.reads, *op.writes, *op.accumulates)}
    return Schedule(
        mesh=mesh,
        tensors={name: tensor for name, tensor in sorted(known.items()) if name in used},
        roles=roles,
        pools={"live": engine.live_elements},
        meta={
            "plan": plan.name,
            "family": plan.family,
            "model": workload.name,
            "num_layers": workload.num_layers,
            "batch": workload.batch,
            "sequence": workload.sequence,
            "grad_accum": grad_accum,
            "checkpointing": workload.checkpointing,
            "quantised_gradients": int(plan.quantises_gradients),
            "sharded_weights": int(bool(plan.weight)),
            **({} if workload.optimizer == "adam" else {"optimizer": workload.optimizer}),
            **({"compression": plan.compression} if plan.compression else {}),
            **workload.traits,
        },
    )


def _is_apart(workload: Workload, plan: Plan, engine: Engine) -> bool:
    """Return whether a build with few layers gathers weights again in the backward just as a build with many layers
    does. The pass `reuse` keeps weights that were used less than a certain distance before, and with few layers this
    distance is shorter."""
    weights = [weight for weight in workload.weights.values() if weight.per_layer]
    in_layer = min(sum(w.num_elements for w in weights if w.name in kind.weights) for kind in workload.kinds)
    return not plan.gathers_again or in_layer * APART >= engine.reuse_elements


def tensors_of(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine) -> Tensors:
    """Return the tensors that are declared before any op is built."""
    tensors = Tensors(workload, plan, mesh, engine, CutLayout(workload, plan, mesh))
    declare_scalars(tensors)
    return tensors


def naive_program(tensors: Tensors, grad_accum: int) -> Program:
    """Return the program of one step of `grad_accum` micro-batches on a mesh without pipeline stages, before any
    pass."""
    builder = ProgramBuilder(tensors, ModelPart(range(tensors.workload.num_layers)), grad_accum - 1)
    for micro in range(grad_accum):
        builder.forward(micro)
        builder.backward(micro)
    end_of_step(builder)
    return builder.program


def lowered(program: Program, tensors: Tensors) -> Program:
    """Return the program after the engine's passes and with moves turned into collectives; the buffers of these
    collectives are added to `tensors`."""
    engine, plan = tensors.engine, tensors.plan
    for run in passes_of(engine, plan):
        program = run(program)
    blocks = plan.one_at_a_time and engine.blocking == "host"
    blocking: frozenset[Purpose] = frozenset({"gradient"}) if blocks else frozenset()
    program = with_collectives(program, tensors.mesh, plan, blocking, copied_in_order(plan, engine))
    if engine.copies == "compute":
        program = copies_beside_products(program)
    tensors.by_name.update(program.tensors)
    if plan.ring is not None:
        program = attention_by_ring(program, plan, tensors.mesh, engine.overlap)
        tensors.by_name.update(program.tensors)
    purposes = in_pieces_with_products(plan, engine)
    program = products_in_pieces(program, plan, purposes) if purposes else program
    if plan.offloaded_layers:
        program = with_offload(program, tensors)
        tensors.by_name.update(program.tensors)
    return program


def structure_of(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine, grad_accum: int) -> Hashable:
    """Return a key of the schedule's structure: the schedules of two builds with equal keys differ only in mesh sizes
    and batch."""
    routes = tuple((plan.gradient_hops(weight), plan.step_hops(weight)) for weight in workload.weights.values())
    choices = tuple(_hashable(getattr(plan, each.name)) for each in fields(plan) if each.name != "fallback_multiple")
    shapes = (
        *((weight.name, weight.shape) for weight in workload.weights.values()),
        *((value.name, _but_batch(value.dims, value.shape)) for value in workload.values.values()),
    )
    traits, kinds = tuple(sorted(workload.traits.items())), workload.kinds
    model = (
        workload.name,
        workload.precision,
        tuple(kinds.index(layer) for layer in workload.layers),
        tuple(kind.weights for kind in kinds),
        workload.checkpointing,
        workload.checkpoint_every,
        workload.optimizer,
        traits,
        shapes,
    )
    fixed = [axis for axis in (plan.ring, None if plan.pipeline is None else plan.pipeline.axis) if axis is not None]
    sizes = tuple((axis, mesh[axis]) for axis in fixed)  # so many programs, or pieces
    return choices, routes, mesh.names, mesh.live(mesh.names), sizes, engine, grad_accum, model


def _hashable(choice: Hashable | Mapping[str, Hashable]) -> Hashable:
    return tuple(sorted(choice.items())) if isinstance(choice, Mapping) else choice


def _but_batch(dims: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for label, size in zip(dims, shape, strict=True) if label != BATCH)


def rebound(schedule: Schedule, mesh: Mesh, batch: int) -> Schedule:
    """Return the schedule adapted to another mesh and another global batch; ops and blocks keep their numbers."""
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
    """Return the expanded program of a rebound schedule of one role: the ops are replaced, their order and waits stay
    the same."""
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
