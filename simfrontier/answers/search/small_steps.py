"""Small schedules: a plan for a few layers and micro-batches, timed without contention, of which a whole step follows.

A step repeats itself: one layer more, or one micro-batch more, adds what the last one added. So the schedules of two
and of three layers, and of at most three micro-batches, say what those of any number take.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from simfrontier.core.cost import Prices
from simfrontier.core.engine import passed
from simfrontier.core.machine import Machine
from simfrontier.core.plan import STREAM, build, rebound, structure_of
from simfrontier.core.program import Collective, Compute, ExpandedProgram, Op, Schedule, expand, is_work
from simfrontier.core.workload import Workload
from simfrontier.inputs.scenario import Case

FEW_LAYERS = (2, 3)
_LAYERS, _HEAD, _END = range(3)  # phases
_PASSING = ("gathered", "gradient", "encoded")  # roles of weights and gradients on their way
_PASSES = ("embedding", "forward", "head", "backward", "embedding.backward")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallStep:
    """One small step without contention: seconds at the end of each micro-batch, and of the step.

    `floor_s`: the same ends if there were nothing but the model's kernels and the collectives inside layers that they
    wait for, each at its least (`Prices.floor_s`): the same wherever a plan keeps its weights. `embedding_s`, `head_s`:
    the sums of these over the embedding and the head, in one micro-batch. `kernels_s`: seconds that the lane of the
    kernels works until the end of each micro-batch, and of the step. `busy_s`: the last of these, per micro-batch;
    `aside_s`: seconds that collectives take on other lanes, per micro-batch.

    Bytes on a rank: `persistent_bytes` all the time; of buffers at most `peak_bytes` in time, of which weights and
    gradients on their way are `passing_bytes`, and in program order
    `layers_bytes` during layers, `head_bytes` during the head and `end_bytes` at the end of the step.
    """

    micro_s: tuple[float, ...]
    step_s: float
    floor_s: tuple[float, ...]
    embedding_s: float
    head_s: float
    kernels_s: tuple[float, ...]
    busy_s: float
    aside_s: float
    persistent_bytes: int
    peak_bytes: float
    passing_bytes: float
    layers_bytes: int
    head_bytes: int
    end_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSteps:
    """A plan with two and with three layers, with as many micro-batches as its step has, or three. Bytes on a rank:
    of what the embedding and the head keep (`ends_bytes`), and of the stream between layers."""

    small: tuple[SmallStep, SmallStep]
    ends_bytes: tuple[int, int]
    stream_bytes: int

    def at(self, num_layers: float, of: Callable[[SmallStep], float]) -> float:
        """Return what a number of a small step is with any number of layers: each adds what the third does."""
        two, three = map(of, self.small)
        return two + (num_layers - FEW_LAYERS[0]) * (three - two)


@dataclass(frozen=True, slots=True, eq=False)
class SmallForm:
    """A small schedule that plans of one structure share, whatever the sizes of their meshes and batches: which of its
    ops are inside layers (`is_inside`), its program with the number of each op, who waits for whom, the last op of each
    micro-batch, who holds buffers from which op to which, and whether an op is one of layers, of a head, or of the end
    of the step. `chain`: the kernels of the model and the collectives inside layers, who of them waits for whom, the
    last of each micro-batch, and in the first one the call that each is of. `ends`: the tensors that hold the weights
    of the embedding, and of the head."""

    schedule: Schedule
    num_layers: int
    is_inside: list[bool]
    program: ExpandedProgram
    number: list[int]
    before: list[list[int]]
    micro_ends: list[int]
    held: list[tuple[str, int, int]]
    phase: list[int]
    chain: list[int]
    chain_before: list[list[int]]
    chain_ends: list[int]
    chain_phase: list[str]
    ends: tuple[list[str], list[str]]


@dataclass
class SmallSchedules:
    """Builds small schedules, once for each structure, and times them for cases."""

    prices: Prices
    forms: dict[Hashable, tuple[SmallForm, SmallForm]] = field(default_factory=dict)

    def reprice(self, prices: Prices, machine: Machine) -> None:
        """Time by these prices from now on, on a variant of their machine that has the same links."""
        prices.machine = machine
        self.prices = prices

    def pair(self, case: Case) -> SmallSteps:
        """The two small steps of a case. Raises InputError where one of its moves cannot be made."""
        num_micro = 1
        if case.stages > 1 or case.grad_accum > 1:
            num_micro = 3 if case.engine.step_reduction == "overlap" else 2  # then the last is like those before it
        two, three = self._forms(case, num_micro)
        mesh, batch = case.mesh, case.micro_batch * case.batch_ranks
        schedule = rebound(three.schedule, mesh, batch)
        size = _sizes(schedule)
        embedding, head = (sum([size[name] for name in names]) for names in three.ends)
        return SmallSteps(
            small=(self._step(two, rebound(two.schedule, mesh, batch)), self._step(three, schedule)),
            ends_bytes=(embedding, head),
            stream_bytes=size.get(STREAM, 0),
        )

    def _forms(self, case: Case, num_micro: int) -> tuple[SmallForm, SmallForm]:
        plan = replace(case.plan, pipeline=None)
        key = structure_of(_work(case, FEW_LAYERS[1], 1), plan, case.mesh, case.engine, num_micro)
        if key not in self.forms:
            batch = case.micro_batch * case.batch_ranks
            two, three = (
                _form(build(_work(case, layers, batch), plan, case.mesh, case.engine, num_micro), layers, case)
                for layers in FEW_LAYERS
            )
            self.forms[key] = two, three
        return self.forms[key]

    def _step(self, form: SmallForm, schedule: Schedule) -> SmallStep:
        """Time a small schedule, rebound to the sizes of a case."""
        took = [self.prices.seconds(op, schedule) for op in schedule.ops]
        floor = [
            self.prices.floor_s(op, schedule) if is_inside and isinstance(op, Compute | Collective) else 0.0
            for op, is_inside in zip(schedule.ops, form.is_inside, strict=True)
        ]
        return _small(form, schedule, took, floor)


def _sizes(schedule: Schedule) -> dict[str, int]:
    """Bytes of tensors on a rank; of those that share others' none."""
    return {
        name: 0 if tensor.shares else tensor.local_bytes(schedule.mesh) for name, tensor in schedule.tensors.items()
    }


def _work(case: Case, num_layers: int, batch: int) -> Workload:
    return case.workload_of(replace(case.shape, num_layers=num_layers), batch)


def _is_inside(op: Op, case: Case) -> bool:
    """Whether an op is a kernel of the model or a collective among ranks that share a layer's work."""
    if isinstance(op, Compute):
        return op.lane == "compute" and is_work(op)
    return isinstance(op, Collective) and not set(op.axes) & set(case.plan.axes)


def _form(schedule: Schedule, num_layers: int, case: Case) -> SmallForm:
    program = expand(schedule, schedule.roles[0])
    before, calls = program.before, program.calls
    fixed = {name for name, tensor in schedule.tensors.items() if tensor.persistent}
    in_passes = [number for number, call in enumerate(calls) if call.label in _PASSES]
    kernels = [number for number in in_passes if _is_kernel(program.ops[number])]
    chain = [number for number in in_passes if _is_inside(program.ops[number], case)]
    chain_kernels = [place for place, number in enumerate(chain) if program.ops[number].lane == "compute"]
    return SmallForm(
        schedule=schedule,
        num_layers=num_layers,
        is_inside=[_is_inside(op, case) for op in schedule.ops],
        program=program,
        number=[op.number for op in program.ops],
        before=before,
        micro_ends=_last_of_each({number: calls[number].micro for number in kernels}),
        held=[(ref.name, first, last) for ref, first, last in program.lifetimes if ref.name not in fixed],
        phase=[_HEAD if c.label == "head" else _LAYERS if c.label in _PASSES else _END for c in calls],
        chain=[program.ops[number].number for number in chain],
        chain_before=_chained(program, before, chain),
        chain_ends=_last_of_each({place: calls[chain[place]].micro for place in chain_kernels}),
        chain_phase=[calls[number].label if calls[number].micro == 0 else "" for number in chain],
        ends=_ends(case, schedule),
    )


def _is_kernel(op: Op) -> bool:
    return op.lane == "compute" and isinstance(op, Compute)


def _last_of_each(micro_of: Mapping[int, int]) -> list[int]:
    """The last of some places in each micro-batch."""
    last = {micro: place for place, micro in micro_of.items()}
    return [last[micro] for micro in sorted(last)]


def _chained(program: ExpandedProgram, before: list[list[int]], chain: list[int]) -> list[list[int]]:
    """Which ops of a chain each of them waits for: the one before it on its lane, and what it waits for itself."""
    place = {index: at for at, index in enumerate(chain)}
    on_lane: dict[str, int] = {}
    out = []
    for at, index in enumerate(chain):
        lane = program.ops[index].lane
        others = {place[other] for other in before[index] if other in place}
        out.append(sorted(others | ({on_lane[lane]} if lane in on_lane else set())))
        on_lane[lane] = at
    return out


def _small(form: SmallForm, schedule: Schedule, took: list[float], floor: list[float]) -> SmallStep:
    size = _sizes(schedule)
    times = [took[number] for number in form.number]
    start, end = passed(form.before, times)
    _, least = passed(form.chain_before, [floor[number] for number in form.chain])
    layers_bytes, head_bytes, end_bytes = _peaks_in_order(form, size)
    of_call: dict[str, float] = {}
    for number, label in zip(form.chain, form.chain_phase, strict=True):
        of_call[label] = of_call.get(label, 0.0) + floor[number]
    passing = {name for name, tensor in schedule.tensors.items() if tensor.role in _PASSING}
    peak_bytes, passing_bytes = _peak_in_time(form, size, start, end, passing)
    ops = form.program.ops
    busy = np.cumsum([s if op.lane == "compute" else 0.0 for op, s in zip(ops, times, strict=True)]).tolist()
    aside = sum(s for op, s in zip(ops, times, strict=True) if op.lane != "compute" and isinstance(op, Collective))
    return SmallStep(
        micro_s=tuple(end[op] for op in form.micro_ends),
        step_s=max(end),
        floor_s=tuple(least[op] for op in form.chain_ends),
        embedding_s=of_call.get("embedding", 0.0) + of_call.get("embedding.backward", 0.0),
        head_s=of_call.get("head", 0.0),
        kernels_s=(*(busy[op] for op in form.micro_ends), busy[-1]),
        busy_s=busy[-1] / len(form.micro_ends),
        aside_s=aside / len(form.micro_ends),
        persistent_bytes=sum(
            size[name] * (form.num_layers if tensor.per_layer else 1)
            for name, tensor in schedule.tensors.items()
            if tensor.persistent
        ),
        peak_bytes=peak_bytes,
        passing_bytes=passing_bytes,
        layers_bytes=layers_bytes,
        head_bytes=head_bytes,
        end_bytes=end_bytes,
    )


def _peak_in_time(
    form: SmallForm, size: Mapping[str, int], start: list[float], end: list[float], passing: Collection[str]
) -> tuple[float, float]:
    """The most bytes of buffers at once, and of those `passing` then."""
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


def _peaks_in_order(form: SmallForm, size: Mapping[str, int]) -> list[int]:
    """The most bytes of buffers during an op, as `core.program.peak_bytes`, by phase."""
    change = [0] * (len(form.number) + 1)
    for name, first, last in form.held:
        change[first] += size[name]
        change[last + 1] -= size[name]
    held, most = 0, [0, 0, 0]
    for phase, delta in zip(form.phase, change, strict=False):
        held += delta
        most[phase] = max(most[phase], held)
    return most


def _ends(case: Case, schedule: Schedule) -> tuple[list[str], list[str]]:
    """The persistent tensors of the weights that the embedding uses, and the head."""
    work = case.workload
    out = []
    for phase in (work.embedding, work.head):
        used = {weight for op in (*phase.forward, *phase.backward) for weight in (*op.weights, *op.gradients)}
        mine = [t for t in schedule.tensors.values() if t.persistent and not t.per_layer and t.weight in used]
        out.append([tensor.name for tensor in mine])
    return out[0], out[1]
