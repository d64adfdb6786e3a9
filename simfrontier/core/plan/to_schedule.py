"""Building a schedule: workload + plan + mesh → naive program → passes → collectives → schedule; many micro-batches
from few, and the schedule of one structure at other sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, replace

from simfrontier.core.plan.builder import ModelPart, ProgramBuilder
from simfrontier.core.plan.hops import with_collectives
from simfrontier.core.plan.layout import BATCH, CutLayout
from simfrontier.core.plan.optimizer import declare_scalars, end_of_step
from simfrontier.core.plan.overlap import copied_in_order, in_pieces_with_products, products_in_pieces
from simfrontier.core.plan.passes import passes_of
from simfrontier.core.plan.plan import Engine, Plan, Purpose
from simfrontier.core.plan.program import Compressor, Program
from simfrontier.core.plan.stages import roles_of
from simfrontier.core.plan.tensors import Tensors
from simfrontier.core.program import Call, Compute, ExpandedProgram, Mesh, Op, Role, Schedule, Tensor
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
    program = with_collectives(program, tensors.mesh, plan, blocking, copied_in_order(plan, engine))
    tensors.by_name.update(program.tensors)
    purposes = in_pieces_with_products(plan, engine)
    return products_in_pieces(program, plan, purposes) if purposes else program


Calls = tuple[Call, ...]
Built = tuple[Calls, Mapping[str, Tensor]]
Build = Callable[[int], Built]

FEW = 4  # the first, the last, and two between them


def repeated(build: Build, num_micro: int, hooks_back: int) -> Built:
    """The calls and tensors that `build` makes of so many micro-batches, built of fewer where they repeat; a hook may
    wait for the fetches of the one so many hooks before it."""
    few = FEW
    while few < num_micro:
        calls, tensors = build(few)
        middle = _middle(calls, tensors, few // 2 - 1)
        if middle is not None and _hooks_wait(calls, middle.start, hooks_back):
            return _with_more(calls, middle, num_micro - few), tensors
        few *= 2
    return build(num_micro)


def _middle(calls: Calls, tensors: Mapping[str, Tensor], micro: int) -> range | None:
    """Where the calls of a micro-batch stand that the next one repeats; None where it does not."""
    first: dict[int, int] = {}
    for index, call in enumerate(calls):
        first.setdefault(call.micro, index)
    if not {micro, micro + 1, micro + 2} <= first.keys():
        return None
    own, after = range(first[micro], first[micro + 1]), range(first[micro + 1], first[micro + 2])
    if {calls[at].micro for at in own} != {micro} or {calls[at].micro for at in after} != {micro + 1}:
        return None
    forms = [[(calls[at].label, calls[at].layer, calls[at].block) for at in each] for each in (own, after)]
    if forms[0] != forms[1] or not _is_whole(calls, tensors, own, micro):
        return None
    refers_back = any(
        tensors[ref.name].per_micro and ref.micro
        for call in calls[own.stop :]
        if call.micro < micro
        for op in call.ops
        for ref in (*op.reads, *op.writes, *op.accumulates)
    )
    return None if refers_back else own


def _with_more(calls: Calls, middle: range, more: int) -> Calls:
    micro = calls[middle.start].micro
    further = [_later(call, count) for count in range(1, more + 1) for call in calls[middle.start : middle.stop]]
    after = [_later(call, more) if call.micro > micro else call for call in calls[middle.stop :]]
    return (*calls[: middle.stop], *further, *after)


def _is_whole(calls: Calls, tensors: Mapping[str, Tensor], own: range, micro: int) -> bool:
    """Whether the calls of a micro-batch change as many instances of every tensor as there are of it."""
    by_calls: Counter[str] = Counter()
    of_micro: Counter[str] = Counter()
    for index, call in enumerate(calls):
        for op in call.ops:
            for ref in (*op.writes, *op.accumulates):
                if tensors[ref.name].per_micro:
                    by_calls[ref.name] += index in own
                    of_micro[ref.name] += call.micro + ref.micro == micro
    return by_calls == of_micro


def _hooks_wait(calls: Calls, begin: int, hooks_back: int) -> bool:
    """Whether every hook from a call on waits, where there are hooks: so many ran before it as a wait reaches back."""
    of_block = {call.block: sum(isinstance(op, Compute) and op.kind == "hook" for op in call.ops) for call in calls}
    before = sum(of_block[call.block] for call in calls[:begin])
    return before >= hooks_back or not any(of_block.values())


def _later(call: Call, micros: int) -> Call:
    return Call(call.label, call.layer, call.micro + micros, call.ops, call.block)


def structure_of(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine, grad_accum: int) -> Hashable:
    """Two builds with equal structure differ in their mesh's sizes and their batch only."""
    routes = tuple((plan.gradient_hops(weight), plan.step_hops(weight)) for weight in workload.weights.values())
    choices = tuple(_hashable(getattr(plan, each.name)) for each in fields(plan) if each.name != "fallback_multiple")
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
