"""Estimate of a plan from small schedules (few layers and micro-batches): step time without contention, a lower bound
on the simulated step time, and peak memory.

A step is repetitive: one more layer, or one more micro-batch, adds what the last one of its kind added. So schedules
with two and with three layers, one of them for each kind of layer, and with at most three micro-batches, determine the
values for any number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain

import numpy as np

from simfrontier.answers.search.equal_ops import EqualOps, of_equals
from simfrontier.core.collectives import algorithm
from simfrontier.core.cost import Prices
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.engine import passed
from simfrontier.core.machine import Machine
from simfrontier.core.plan import STREAM, VALUES, build, rebound, structure_of
from simfrontier.core.program import (
    DIRECT,
    LIBRARY,
    Collective,
    Compute,
    Exchange,
    ExpandedProgram,
    Mesh,
    Op,
    Schedule,
    Tensor,
    expand,
    is_product,
    is_work,
)
from simfrontier.core.workload import Workload
from simfrontier.inputs.scenario import Case

FEW_LAYERS = 2
ASIDE = ("gather", "reduce")  # lanes of weights and gradients
_LAYERS, _HEAD, _END = range(3)  # phases
_PASSING = ("gathered", "gradient", "encoded")  # roles of weights and gradients on their way
Line = Callable[[Callable[["SmallStep"], float]], float]  # a quantity of small steps, extrapolated to some layers
_PASSES = ("embedding", "forward", "head", "backward", "embedding.backward")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallStep:
    """One small step without contention: seconds at the end of each micro-batch (`micro_s`) and of the step (`step_s`).

    `floor_s`: the same end times if there were only the model's kernels and the collectives inside layers that they
    wait for, each with its lower bound (`Prices.floor_s`); these do not depend on where a plan keeps its weights.
    `embedding_s`, `head_s`: the sums of these lower bounds over the embedding and the head, in one micro-batch.
    `kernels_s`: seconds that the compute lane is busy until the end of each micro-batch, and of the step; `aside_s`:
    those of collectives of weights and gradients on other lanes (those in pieces beside products are moved by copy
    engines: Transformer Engine's ring exchange, torch's asynchronous tensor parallelism). `products_s`: seconds of
    products of weights, per micro-batch.

    Bytes on a rank: `persistent_bytes`: tensors that live for the whole step; `peak_bytes`: peak of buffers over time,
    of which `passing_bytes` are weights and gradients in flight; in program order, the peaks of buffers during layers
    (`layers_bytes`), during the head (`head_bytes`) and at the end of the step (`end_bytes`); `products_bytes`: the
    activations that products for weight gradients of layers read in one micro-batch.
    """

    micro_s: tuple[float, ...]
    step_s: float
    floor_s: tuple[float, ...]
    embedding_s: float
    head_s: float
    kernels_s: tuple[float, ...]
    products_s: float
    aside_s: tuple[float, ...]
    persistent_bytes: int
    peak_bytes: float
    passing_bytes: float
    layers_bytes: int
    head_bytes: int
    end_bytes: int
    products_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSteps:
    """Small steps of a plan: with two layers of the model's most frequent kind (`few`), and with one more layer of
    each kind (`more`, the most frequent first); multi-token prediction counts as a part of the head. The number of
    micro-batches is that of the full step, at most three.
    `kinds`: the kind of each layer of the model, as an index into `more`. Bytes on a rank: persistent tensors of the
    embedding and the head (`ends_bytes`), and activations passed between layers (`stream_bytes`).
    """

    few: SmallStep
    more: tuple[SmallStep, ...]
    kinds: tuple[int, ...]
    ends_bytes: tuple[int, int]
    stream_bytes: int

    def line(self, kinds: Iterable[int]) -> Line:
        """Return the extrapolation of quantities of a small step to layers of these kinds: each adds as much as one
        more of its kind.
        """
        count = Counter(kinds)
        count[0] -= FEW_LAYERS

        def at(of: Callable[[SmallStep], float]) -> float:
            few = of(self.few)
            return few + sum([count[kind] * (of(small) - few) for kind, small in enumerate(self.more)])

        return at


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedSchedule:
    """A small schedule at the sizes of a case. By number of the op, its seconds (`took`) and, for those inside layers,
    their lower bounds (`floor`); `size`: bytes of each tensor on a rank, 0 for those that share the memory of others.
    """

    schedule: Schedule
    took: list[float]
    floor: list[float]
    size: Mapping[str, int]


@dataclass
class SmallSchedules:
    """Builds small schedules, once for each structure of plans, and times them for cases."""

    prices: Prices
    forms: dict[Hashable, tuple[tuple[SmallForm, ...], EqualOps]] = field(default_factory=dict)

    def reprice(self, prices: Prices, machine: Machine) -> None:
        """Use other prices from now on, for a variant of the machine with the same links."""
        prices.machine = machine
        self.prices = prices

    def pair(self, case: Case) -> SmallSteps:
        """Return the small steps of a case. Raises InputError if one of its data movements cannot be built."""
        num_micro = 1
        if case.stages > 1 or case.grad_accum > 1:
            num_micro = 3 if case.engine.step_reduction == "overlap" else 2  # then the last is like those before it
        mesh, batch = case.mesh, case.micro_batch * case.batch_ranks
        layers = case.workload_of(case.shape, 1).layers[: case.shape.num_layers]
        kinds = [kind for kind, _ in Counter(layers).most_common()]
        forms, equals = self._forms(case, num_micro, [layers.index(kind) for kind in kinds])
        schedules = [rebound(form.schedule, mesh, batch) for form in forms]
        priced = self._priced(forms, schedules, equals)
        few, *more = (_small(form, each, self.prices, case) for form, each in zip(forms, priced, strict=True))
        size = priced[1].size
        embedding, head = (sum([size[name] for name in names]) for names in forms[1].ends)
        return SmallSteps(
            few=few,
            more=tuple(more),
            kinds=tuple([kinds.index(layer) for layer in layers]),
            ends_bytes=(embedding, head),
            stream_bytes=size.get(STREAM, 0),
        )

    def _priced(
        self, forms: Sequence[SmallForm], schedules: Sequence[Schedule], equals: EqualOps
    ) -> list[PricedSchedule]:
        """Return the schedules of the forms, rebound to the sizes of a case, with the times of their ops."""
        prices, took, floors, sizes = self.prices, dict[int, float](), dict[int, float](), dict[int, int]()
        out = []
        for form, schedule, ops, tensors in zip(forms, schedules, equals.ops, equals.tensors, strict=True):

            def floor_s(op: Op, form: SmallForm = form, schedule: Schedule = schedule) -> float:
                if isinstance(op, Exchange) or not form.is_inside[op.number]:
                    return 0.0
                return prices.floor_s(op, schedule)

            own = of_equals(tensors, schedule.tensors.values(), partial(_size, mesh=schedule.mesh), sizes)
            out.append(
                PricedSchedule(
                    schedule=schedule,
                    took=of_equals(ops, schedule.ops, partial(prices.seconds, schedule=schedule), took),
                    floor=of_equals(ops, schedule.ops, floor_s, floors),
                    size=dict(zip(schedule.tensors, own, strict=True)),
                )
            )
        return out

    def _forms(self, case: Case, num_micro: int, kinds: list[int]) -> tuple[tuple[SmallForm, ...], EqualOps]:
        """Return the form with few layers, and those with one more layer of each kind, and which of their ops are
        equal; `kinds` has the number of a layer of each kind, the most frequent first."""
        plan, usual = replace(case.plan, pipeline=None), kinds[:1] * FEW_LAYERS
        key = _hidden_kind(case), structure_of(_work(case, kinds, 1), plan, case.mesh, case.engine, num_micro)
        if key not in self.forms:
            works = [
                _work(case, layers, case.micro_batch * case.batch_ranks)
                for layers in (usual, *(sorted((*usual, kind)) for kind in kinds))
            ]
            forms = [_form(build(work, plan, case.mesh, case.engine, num_micro), work, case) for work in works]
            self.forms[key] = tuple(forms), EqualOps.of(form.schedule for form in forms)
        return self.forms[key]


def _size(tensor: Tensor, mesh: Mesh) -> int:
    """Return the bytes of a tensor on a rank; 0 if it shares the memory of another one."""
    return 0 if tensor.shares else tensor.local_bytes(mesh)


def _read_by_products(form: SmallForm, size: Mapping[str, int]) -> float:
    """Return the bytes of activations that the products of a micro-batch's layers read which make gradients of
    weights."""
    ops, tensors = form.schedule.ops, form.schedule.tensors
    read = {ref.name for op in ops if isinstance(op, Compute) and op.named.part == "wgrad" for ref in op.reads}
    held = (size[name] for name, _, _ in form.held if name in read and tensors[name].per_layer)
    return sum(held) / len(form.micro_ends)


def _work(case: Case, layers: Iterable[int], batch: int) -> Workload:
    """Return the graph of a micro-batch of a model that has only these layers of the case's, given by their numbers,
    and those of multi-token prediction."""
    work = case.workload_of(case.shape, batch)
    return work.of_layers((*[work.layers[layer] for layer in layers], *work.layers[case.shape.num_layers :]))


def _is_inside(op: Op, case: Case) -> bool:
    """Return whether an op is a kernel of the model or a collective among ranks that share a layer's work."""
    if isinstance(op, Compute):
        return op.lane == "compute" and is_work(op)
    return isinstance(op, Collective) and not set(op.axes) & set(case.plan.axes) and not _is_hidden(op, case)


def _hidden_kind(case: Case) -> str:
    """Return the kind of the collectives of values that overlap with the computation of another micro-batch: "any" in
    DualPipeV, or dispatches of experts' rows; empty if none do."""
    pipeline = case.plan.pipeline
    if pipeline is None:
        return ""
    return "any" if pipeline.order == "dualpipev" else "all_to_all" if pipeline.alternates else ""


def _is_hidden(op: Op, case: Case) -> bool:
    kind = _hidden_kind(case)
    return bool(kind) and isinstance(op, Collective) and op.name in VALUES and kind in ("any", op.kind)


def _hidden_share(case: Case) -> float:
    """Return the share of a stage's passes that overlap with another one: all but the first forward and the last
    backward; in DualPipeV 2 M - 3 P + 1 of the 2 M of the first stage."""
    if _hidden_kind(case) == "any":
        return max(0.0, 1.0 - (3 * case.stages - 1) / (2 * case.grad_accum))
    return 1.0 - 1.0 / case.grad_accum if _hidden_kind(case) else 0.0


def _form(schedule: Schedule, work: Workload, case: Case) -> SmallForm:
    program = expand(schedule, schedule.roles[0])
    calls = program.calls
    fixed = {name for name, tensor in schedule.tensors.items() if tensor.persistent}
    in_passes = [number for number, call in enumerate(calls) if call.label in _PASSES]
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
        phase=[_HEAD if c.label == "head" else _LAYERS if c.label in _PASSES else _END for c in calls],
        chain=[program.ops[number].number for number in chain],
        chain_before=_chained(program, chain),
        chain_ends=_last_of_each({place: calls[chain[place]].micro for place in chain_kernels}),
        chain_phase=[calls[number].label if calls[number].micro == 0 else "" for number in chain],
        ends=_ends(case, schedule),
    )


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


def _small(form: SmallForm, priced: PricedSchedule, prices: Prices, case: Case) -> SmallStep:
    """Time a small schedule that was rebound to the sizes of a case."""
    schedule, floor, size, ops = priced.schedule, priced.floor, priced.size, form.program.ops
    took = _without_hidden(schedule.ops, priced.took, case, prices)
    times = [took[op.number] for op in ops]
    start, end = passed(form.program.before, times)
    _, least = passed(form.chain_before, [floor[number] for number in form.chain])
    layers_bytes, head_bytes, end_bytes = _peaks_in_order(form, size)
    of_call: dict[str, float] = {}
    for number, label in zip(form.chain, form.chain_phase, strict=True):
        of_call[label] = of_call.get(label, 0.0) + floor[number]
    passing = {name for name, tensor in schedule.tensors.items() if tensor.role in _PASSING}
    peak_bytes, passing_bytes = _peak_in_time(form, size, start, end, passing)
    each = list(zip(ops, times, strict=True))
    busy = np.cumsum([s if op.lane == "compute" else 0.0 for op, s in each]).tolist()
    products = sum(s for op, s in each if op.lane == "compute" and is_product(op.kind))
    aside = np.cumsum([s if op.lane in ASIDE and isinstance(op, Collective) else 0.0 for op, s in each]).tolist()
    return SmallStep(
        micro_s=tuple(end[op] for op in form.micro_ends),
        step_s=max(end),
        floor_s=tuple(least[op] for op in form.chain_ends),
        embedding_s=of_call.get("embedding", 0.0) + of_call.get("embedding.backward", 0.0),
        head_s=of_call.get("head", 0.0),
        kernels_s=(*(busy[op] for op in form.micro_ends), busy[-1]),
        products_s=products / len(form.micro_ends),
        aside_s=(*(aside[op] for op in form.micro_ends), aside[-1]),
        persistent_bytes=sum(
            size[name] * (form.instances[tensor.weight or tensor.follows or ""] if tensor.per_layer else 1)
            for name, tensor in schedule.tensors.items()
            if tensor.persistent
        ),
        peak_bytes=peak_bytes,
        passing_bytes=passing_bytes,
        layers_bytes=layers_bytes,
        head_bytes=head_bytes,
        end_bytes=end_bytes,
        products_bytes=_read_by_products(form, size),
    )


def _without_hidden(ops: Sequence[Op], took: list[float], case: Case, prices: Prices) -> list[float]:
    """Return the times of ops without what computation of another micro-batch hides of collectives in the passes that
    overlap: all of them, if they are shorter than the computation, which is slower by the compute units that they
    hold."""
    calls = [op for op in ops if isinstance(op, Collective) and _is_hidden(op, case)]
    sent = sum(took[op.number] for op in calls)
    if not sent:
        return took
    made = sum(took[op.number] for op in ops if op.lane == "compute" and isinstance(op, Compute))
    units = max(algorithm(DIRECT if op.via == LIBRARY else op.via).units(prices.library) for op in calls)
    slower = units / max(1.0, prices.machine.device.num_compute_units - units)
    left = 1.0 - _hidden_share(case) * min(1.0, made / sent) * max(0.0, 1.0 - slower)
    return [left * s if _is_hidden(op, case) else s for op, s in zip(ops, took, strict=True)]


def _peak_in_time(
    form: SmallForm, size: Mapping[str, int], start: list[float], end: list[float], passing: Collection[str]
) -> tuple[float, float]:
    """Return the peak of buffer bytes over time, and how many of these bytes are `passing` (weights and gradients in
    flight).
    """
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
    """Return the largest buffer bytes during an op, in program order (as `core.program.peak_bytes`), by phase."""
    change = [0] * (len(form.phase) + 1)
    for name, first, last in form.held:
        change[first] += size[name]
        change[last + 1] -= size[name]
    held, most = 0, [0, 0, 0]
    for phase, delta in zip(form.phase, change, strict=False):
        held += delta
        most[phase] = max(most[phase], held)
    return most


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated step of a plan, in seconds and bytes. `step_s`: step time in closed form, without contention; at least
    `floor_s`, a lower bound on the simulated step time. `peak_bytes`: on the fullest rank. `busy_s`: busy time of the
    compute lane, of which matrix products of weights take `products_s`; `aside_s`: time of collectives of weights and
    gradients on other lanes (0 in pipelines, where they are few).
    """

    step_s: float
    floor_s: float
    peak_bytes: float
    busy_s: float = 0.0
    products_s: float = 0.0
    aside_s: float = 0.0

    def __post_init__(self) -> None:
        if self.step_s < self.floor_s:  # a few layers say only roughly what many take; the bound is certain
            object.__setattr__(self, "step_s", self.floor_s)


def estimate(case: Case, small_schedules: SmallSchedules) -> Estimate:
    """Estimate the step of a case. If only some layers are checkpointed, the estimates with all and with no layers
    checkpointed are averaged, weighted by the share of layers. Raises InputError if the schedule cannot be built or
    priced.
    """
    if case.checkpoint_every > 1:
        every = replace(case, checkpoint_every=1)
        none = replace(every, checkpointing="none")
        return _mixed(case.recomputed_share, estimate(every, small_schedules), estimate(none, small_schedules))
    pair = small_schedules.pair(case)
    if case.stages > 1:
        return _of_pipeline(case, pair, small_schedules)
    at = pair.line(pair.kinds)
    return Estimate(
        step_s=_step_s(case.grad_accum, at),
        floor_s=_floor_s(case.grad_accum, at),
        peak_bytes=_peak_bytes(case, pair, at),
        busy_s=_extended(case.grad_accum, at, lambda small: small.kernels_s),
        products_s=case.grad_accum * at(lambda small: small.products_s),
        aside_s=_extended(case.grad_accum, at, lambda small: small.aside_s),
    )


def _mixed(share: float, one: Estimate, other: Estimate) -> Estimate:
    """Return the weighted mean of two estimates: `share` of one, and the rest of the other."""
    each = ((field.name, getattr(one, field.name), getattr(other, field.name)) for field in fields(Estimate))
    return Estimate(**{name: share * a + (1.0 - share) * b for name, a, b in each})


def _peak_bytes(case: Case, pair: SmallSteps, at: Line) -> float:
    """Return the peak memory of a rank in bytes. Buffers of many layers are no smaller than those of few, however those
    of two and three layers coincide in time. Weights and gradients in flight are, for many layers, bounded by what the
    engine has under way: gathered weights that are live, and two gradient buckets, one being filled while the other is
    reduced."""
    engine, tensors = case.engine, DTYPE_BYTES[case.precision.model]
    under_way = (engine.live_elements + 2 * engine.reduce_bucket_elements) * tensors
    small_steps = (pair.few, *pair.more)
    few = max(small.passing_bytes for small in small_steps)
    passing = min(at(lambda small: small.passing_bytes), max(few, float(under_way)))
    buffers = at(lambda small: small.peak_bytes - small.passing_bytes) + passing
    return at(lambda small: small.persistent_bytes) + max(buffers, *(small.peak_bytes for small in small_steps))


def _step_s(num_micro: int, at: Line) -> float:
    """Return the step time in seconds. Communication exposed with few layers may be hidden with more: it shrinks as
    layers are added, until it is gone. So the step is at least as long as its kernels."""
    whole = _extended(num_micro, at, lambda small: (*small.micro_s, small.step_s))
    return max(whole, _extended(num_micro, at, lambda small: small.kernels_s))


def _floor_s(num_micro: int, at: Line) -> float:
    return _extended(num_micro, at, lambda small: (*small.floor_s, small.floor_s[-1]))


def _extended(num_micro: int, at: Line, ends: Callable[[SmallStep], tuple[float, ...]]) -> float:
    """Return the end of a step of `num_micro` micro-batches, extrapolated from the ends of a small step's micro-batches
    and of the small step itself: the first micro-batch, then copies of the second, and the last with the end of the
    step."""
    if num_micro == 1:
        return at(lambda small: ends(small)[-1])
    return (
        at(lambda small: ends(small)[0])
        + (num_micro - 2) * at(lambda small: ends(small)[1] - ends(small)[0])
        + at(lambda small: ends(small)[-1] - ends(small)[-3])
    )


def _of_pipeline(case: Case, pair: SmallSteps, small_schedules: SmallSchedules) -> Estimate:
    """Estimate the step of a pipeline: one micro-batch passes through all stages, the others follow at the pace of the
    slowest stage; then the step ends.

    Stages have only layers, except that the first and the last also have the embedding and the head, both of which are
    attributed to the stage with the head. The first micro-batch passes through the first run of layers of each stage.
    If exchanges block the stages, a stage exchanges with both neighbours for every micro-batch. If weights are gathered
    during the first forward, its first run of layers waits for them; the gathers of later runs have all that time.
    """
    pipeline = case.plan.pipeline
    assert pipeline is not None, "a case of several stages has a pipeline"
    stages, micros, bare = case.stages, case.grad_accum, pair.line(())
    most = len(pair.kinds)
    runs = [[[pair.kinds[n] for n in layers if n < most] for layers in chunks] for chunks in case.groups]
    lines = [pair.line(chain.from_iterable(chunks)) for chunks in runs]
    first, last = lines[0], lines[0 if pipeline.is_v else -1]
    passed_first = Counter(tuple(chunks[0]) for chunks in runs[: stages - 1]).items()

    def middle(small: SmallStep) -> float:
        return small.micro_s[1] - small.micro_s[0]

    ways = small_schedules.prices.boundaries_s(case.mesh, pipeline.axis, pair.stream_bytes)
    there_s, worst_s = sum(ways) / len(ways) * (stages - 1), max(ways)
    if pipeline.overlap:
        worst_s = 0.0
    ends_s = max(last(middle), first(middle) - bare(middle)) + worst_s
    pace_s = max([ends_s, *(line(middle) - bare(middle) + 2 * worst_s for line in lines[1:-1])])
    fill_s = sum([count * (pair.line(run)(middle) - bare(middle)) for run, count in passed_first])
    fill_s = fill_s * _waiting_share(case) + 2 * there_s
    if case.plan.gathers_once:
        fill_s += max(0.0, first(lambda small: small.micro_s[0]) - first(middle)) / pipeline.chunks
    end_s = max(line(lambda small: small.step_s - small.micro_s[-1]) for line in lines)

    def least(small: SmallStep) -> float:
        return small.floor_s[1] - small.floor_s[0]

    embedding_s, head_s = pair.few.embedding_s, pair.few.head_s
    least_s = last(least) - embedding_s  # a path without some of the stage's ops is shorter by no more
    fill_least_s = sum([count * max(0.0, pair.line(run)(least) - embedding_s - head_s) for run, count in passed_first])
    if pipeline.splits_backward:  # weight gradients may fill the time before and after
        fill_least_s = 0.0
    return Estimate(
        step_s=fill_s + last(middle) + (micros - 1) * pace_s + end_s,
        floor_s=fill_least_s + micros * least_s,
        peak_bytes=max(_stage_bytes(case, pair, stage, line, bare) for stage, line in enumerate(lines)),
    )


def _waiting_share(case: Case) -> float:
    """Return the bubble for each stage but one, as a share of a chunk's forward and backward, if exchanges take no
    time. With forward F, input gradients I and weight gradients W, which sum to 1, it is F + I - W in ZB-H1 (arXiv
    2401.10241) and ZB-V (there F, if all take equally long), and 1 + I - 2 W in DualPipeV (README of
    github.com/deepseek-ai/DualPipe; overlapped passes take as long as one after the other). F is taken to be as long
    as I."""
    pipeline, work = case.plan.pipeline, case.workload
    assert pipeline is not None
    if not pipeline.splits_backward:
        return 1.0
    total = weights = 0
    for layer, count in Counter(work.layers).items():
        ops = (*layer.forward, *work.recomputed(layer), *layer.backward)
        total += count * sum(op.flops for op in ops)
        weights += count * sum(op.flops for op in ops if op.makes_weight_gradients)
    share = weights / total
    return 1.5 - 2.5 * share if pipeline.order == "dualpipev" else 1.0 - 2.0 * share


def _stage_bytes(case: Case, pair: SmallSteps, stage: int, line: Line, bare: Line) -> float:
    """Return the peak bytes of a stage. The first stage has the embedding and the most micro-batches in flight, the
    last stage the head. With divided backwards all stages have as many in flight, and in an order of V shape the first
    stage has the head. `line`: small steps with all layers of the stage, `bare`: with none.
    """
    pipeline = case.plan.pipeline
    assert pipeline is not None
    in_flight = {
        "gpipe": float(case.grad_accum),
        "1f1b": float(case.stages - stage),
        "interleaved": case.stages + (case.stages - 1 - 2 * stage) / pipeline.chunks,
        "dualpipev": case.stages + 0.5,
    }.get(pipeline.order, float(case.stages))
    has_head = stage == (0 if pipeline.is_v else case.stages - 1)
    if has_head and not pipeline.splits_backward:
        in_flight = 1.0
    embedding, head = pair.ends_bytes
    kept = line(lambda small: small.persistent_bytes) - bare(lambda small: small.persistent_bytes)
    kept += (0 if stage else embedding) + (head if has_head else 0)
    layers_bytes, end_bytes = line(lambda small: small.layers_bytes), line(lambda small: small.end_bytes)
    saved = (min(in_flight, case.grad_accum) - 1) * (layers_bytes - bare(lambda small: small.layers_bytes))
    if pipeline.splits_backward:  # micro-batches in flight, or those whose weight gradients alone are still to come
        late = (stage + 1) / 2 if pipeline.order == "dualpipev" else stage
        saved = max(saved, min(late, case.grad_accum) * line(lambda small: small.products_bytes))
    own_bytes = max(layers_bytes, line(lambda small: small.head_bytes)) if has_head else layers_bytes
    return kept + max(own_bytes + saved, end_bytes)
