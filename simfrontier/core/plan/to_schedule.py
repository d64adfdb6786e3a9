"""Building a schedule: workload + plan + mesh → naive program → passes → collectives → schedule."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.core.plan.builder import ModelPart, ProgramBuilder
from simfrontier.core.plan.hops import with_collectives
from simfrontier.core.plan.layout import CutLayout
from simfrontier.core.plan.optimizer import declare_scalars, end_of_step
from simfrontier.core.plan.overlap import copied_in_order, in_pieces_with_products, products_in_pieces
from simfrontier.core.plan.passes import passes_of
from simfrontier.core.plan.plan import Engine, Plan, Purpose
from simfrontier.core.plan.program import Compressor, Program
from simfrontier.core.plan.repeat import Built, repeated
from simfrontier.core.plan.stages import roles_of
from simfrontier.core.plan.tensors import Tensors
from simfrontier.core.program import Mesh, Role, Schedule, Tensor
from simfrontier.core.workload import Workload


def build(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine, grad_accum: int = 1) -> Schedule:
    """The schedule of one optimizer step of `grad_accum` micro-batches under a plan, on a mesh."""

    def calls_of(num_micro: int) -> Built:
        """The calls of a step of so many micro-batches on a mesh without stages, and their tensors."""
        tensors = tensors_of(workload, plan, mesh, engine)
        return Compressor().calls_of(lowered(naive_program(tensors, num_micro), tensors)), tensors.by_name

    known: Mapping[str, Tensor]
    if plan.pipeline is None:
        calls, known = repeated(calls_of, grad_accum, engine.outstanding_fetches + 1 if plan.hooks else 0)
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


def tensors_of(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine) -> Tensors:
    """The tensors that exist before any op does."""
    tensors = Tensors(workload, plan, mesh, engine, CutLayout(workload, plan, mesh))
    declare_scalars(tensors)
    return tensors


def naive_program(tensors: Tensors, grad_accum: int) -> Program:
    """The program of one step of `grad_accum` micro-batches on one mesh without stages, before any pass."""
    builder = ProgramBuilder(tensors, ModelPart(range(tensors.workload.num_layers)), grad_accum - 1)
    for micro in range(grad_accum):
        builder.forward(micro)
        builder.backward(micro)
    end_of_step(builder)
    return builder.program


def lowered(program: Program, tensors: Tensors) -> Program:
    """A naive program after the engine's passes, with its moves as collectives; their buffers become known tensors."""
    engine, plan = tensors.engine, tensors.plan
    for run in passes_of(engine, plan):
        program = run(program)
    blocks = plan.one_at_a_time and engine.blocking == "host"
    blocking: frozenset[Purpose] = frozenset({"gradient"}) if blocks else frozenset()
    ordered = copied_in_order(plan, engine)
    program = with_collectives(program, tensors.mesh, blocking, plan.pipelined, plan.hooks, plan.groups, ordered)
    tensors.by_name.update(program.tensors)
    purposes = in_pieces_with_products(plan, engine)
    return products_in_pieces(program, plan, purposes) if purposes else program
