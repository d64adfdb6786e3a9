"""Building a schedule: workload + plan + mesh → naive program → passes → collectives → schedule."""

from __future__ import annotations

from simfrontier.plan.builder import naive_program
from simfrontier.plan.compress import calls_of
from simfrontier.plan.hops import with_collectives
from simfrontier.plan.passes import pipeline_of
from simfrontier.plan.plan import Engine, Plan, Purpose
from simfrontier.schedule.ir import Role, Schedule
from simfrontier.schedule.mesh import Mesh
from simfrontier.workload import Workload


def build(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine, grad_accum: int = 1) -> Schedule:
    """The schedule of one optimizer step of `grad_accum` micro-batches under a plan, on a mesh."""
    program = naive_program(workload, plan, mesh, engine, grad_accum)
    for run in pipeline_of(engine, plan.one_at_a_time):
        program = run(program)
    blocking: frozenset[Purpose] = frozenset({"gradient"}) if plan.one_at_a_time else frozenset()
    program = with_collectives(program, mesh, engine, blocking, plan.pipelined)
    used = {ref.name for _, op in program.items() for ref in (*op.reads, *op.writes, *op.accumulates)}  # type: ignore[union-attr]
    return Schedule(
        mesh=mesh,
        tensors={name: tensor for name, tensor in sorted(program.tensors.items()) if name in used},
        roles=(Role("all", calls_of(program)),),
        pools={"live": engine.live_elements},
        meta={
            "plan": plan.name,
            "family": plan.family,
            "model": workload.name,
            "num_layers": workload.num_layers,
            "batch": workload.batch,
            "sequence": workload.sequence,
            "grad_accum": grad_accum,
            "checkpointing": "full" if workload.checkpointing else "none",
            "quantised_gradients": int(plan.quantises_gradients),
            "sharded_weights": int(bool(plan.weight)),
        },
    )
