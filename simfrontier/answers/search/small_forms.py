"""Small schedules (few layers and micro-batches) of a structure of plans, before they have the sizes of a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from simfrontier.answers.search.equal_ops import EqualOps
from simfrontier.answers.search.hidden_calls import is_hidden
from simfrontier.core.plan import rebound
from simfrontier.core.program import Collective, Compute, ExpandedProgram, Mesh, Op, Schedule, expand, is_work
from simfrontier.core.workload import Workload
from simfrontier.inputs.scenario import Case

LAYERS, HEAD, END = range(3)  # phases
PASSES = ("embedding", "forward", "head", "backward", "embedding.backward")


@dataclass(frozen=True, slots=True, eq=False)
class SmallForm:
    """A small schedule shared by plans of one structure, whatever the sizes of their meshes and batches: its program,
    how many of its layers have each weight (`instances`), which of its ops are inside layers (`is_inside`), the last op
    of each micro-batch, the lifetime of each buffer (first and last op), and whether an op belongs to layers, to a
    head, or to the end of the step. `chain`: the kernels of the model and the collectives inside layers, with their
    dependencies, the last one of each micro-batch, and the call that each one of the first micro-batch belongs to.
    `ends`: the tensors that hold the weights of the embedding, and of the head.
    """

    schedule: Schedule
    instances: Mapping[str, int]
    is_inside: list[bool]
    program: ExpandedProgram
    micro_ends: list[int]
    held: list[tuple[str, int, int]]
    phase: list[int]
    chain: list[int]
    chain_before: list[list[int]]
    chain_ends: list[int]
    chain_phase: list[str]
    ends: tuple[list[str], list[str]]


@dataclass(frozen=True, slots=True, eq=False)
class SmallForms:
    """The small schedules of a structure, with the numbers of their equal ops, and rebound to each batch asked for."""

    forms: tuple[SmallForm, ...]
    equals: EqualOps
    _of_batch: dict[int, list[Schedule]] = field(default_factory=dict)

    def schedules(self, mesh: Mesh, batch: int) -> list[Schedule]:
        """Return the schedules at the sizes of a mesh and a batch."""
        if batch not in self._of_batch:
            self._of_batch[batch] = [rebound(form.schedule, mesh, batch) for form in self.forms]
        return [replace(schedule, mesh=mesh) for schedule in self._of_batch[batch]]


def graph_of(case: Case, layers: Iterable[int], batch: int) -> Workload:
    """Return the graph of a micro-batch of a model that has only these layers of the case's, given by their numbers,
    and those of multi-token prediction."""
    work = case.workload_of(case.shape, batch)
    return work.of_layers((*[work.layers[layer] for layer in layers], *work.layers[case.shape.num_layers :]))


def small_form(schedule: Schedule, work: Workload, case: Case) -> SmallForm:
    program = expand(schedule, schedule.roles[0])
    calls = program.calls
    fixed = {name for name, tensor in schedule.tensors.items() if tensor.persistent}
    in_passes = [number for number, call in enumerate(calls) if call.label in PASSES]
    kernels = [n for n in in_passes if isinstance(program.ops[n], Compute) and program.ops[n].lane == "compute"]
    chain = [number for number in in_passes if _is_inside(program.ops[number], case)]
    chain_kernels = [place for place, number in enumerate(chain) if program.ops[number].lane == "compute"]
    return SmallForm(
        schedule=schedule,
        instances=work.instances(work.layers),
        is_inside=[_is_inside(op, case) for op in schedule.ops],
        program=program,
        micro_ends=_last_of_each({number: calls[number].micro for number in kernels}),
        held=[(ref.name, first, last) for ref, first, last in program.lifetimes if ref.name not in fixed],
        phase=[HEAD if c.label == "head" else LAYERS if c.label in PASSES else END for c in calls],
        chain=[program.ops[number].number for number in chain],
        chain_before=_chained(program, chain),
        chain_ends=_last_of_each({place: calls[chain[place]].micro for place in chain_kernels}),
        chain_phase=[calls[number].label if calls[number].micro == 0 else "" for number in chain],
        ends=_ends(case, schedule),
    )


def _is_inside(op: Op, case: Case) -> bool:
    """Return whether an op is a kernel of the model or a collective among ranks that share a layer's work."""
    if isinstance(op, Compute):
        return op.lane == "compute" and is_work(op)
    return isinstance(op, Collective) and not set(op.axes) & set(case.plan.axes) and not is_hidden(op, case)


def _last_of_each(micro_of: Mapping[int, int]) -> list[int]:
    """Return the last position of each micro-batch, given the micro-batch of each position."""
    last = {micro: place for place, micro in micro_of.items()}
    return [last[micro] for micro in sorted(last)]


def _chained(program: ExpandedProgram, chain: list[int]) -> list[list[int]]:
    """Return the dependencies of each op of a chain, as indices into the chain: the preceding op on its lane, and the
    dependencies that the program states.
    """
    place = {index: at for at, index in enumerate(chain)}
    on_lane: dict[str, int] = {}
    out = []
    for at, index in enumerate(chain):
        lane = program.ops[index].lane
        others = {place[other] for other in program.before[index] if other in place}
        out.append(sorted(others | ({on_lane[lane]} if lane in on_lane else set())))
        on_lane[lane] = at
    return out


def _ends(case: Case, schedule: Schedule) -> tuple[list[str], list[str]]:
    """Return the persistent tensors that hold the weights of the embedding, and those of the head and of multi-token
    prediction."""
    work = case.workload
    held, further = [t for t in schedule.tensors.values() if t.persistent], work.layers[case.shape.num_layers :]
    first, last = (
        [t.name for t in held if not t.per_layer and any(t.weight in phase.weights for phase in phases)]
        for phases in ((work.embedding,), (work.head, *further))
    )
    return first, [*last, *(t.name for phase in further for t in held if t.per_layer and t.weight in phase.weights)]
