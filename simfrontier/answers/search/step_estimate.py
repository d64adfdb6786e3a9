"""Estimate of a plan from small schedules (few layers and micro-batches): step time without contention, a lower bound
on the simulated step time, and peak memory.

A step is repetitive: one more layer, or one more micro-batch, adds what the last one added. So schedules with two and
with three layers, and with at most three micro-batches, determine the values for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial

import numpy as np

from simfrontier.core.cost import Prices
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.engine import passed
from simfrontier.core.machine import Machine
from simfrontier.core.plan import STREAM, build, rebound, structure_of
from simfrontier.core.program import Collective, Compute, ExpandedProgram, Op, Schedule, expand, is_product, is_work
from simfrontier.core.workload import Workload
from simfrontier.inputs.scenario import Case

FEW_LAYERS = (2, 3)
ASIDE = ("gather", "reduce")  # lanes of weights and gradients
_LAYERS, _HEAD, _END = range(3)  # phases
_PASSING = ("gathered", "gradient", "encoded")  # roles of weights and gradients on their way
_PASSES = ("embedding", "forward", "head", "backward", "embedding.backward")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallStep:
    """One small step without contention: seconds at the end of each micro-batch (`micro_s`) and of the step (`step_s`).

    `floor_s`: the same end times if there were only the model's kernels and the collectives inside layers that they
    wait for, each with its lower bound (`Prices.floor_s`); these do not depend on where a plan keeps its weights.
    `embedding_s`, `head_s`: the sums of these lower bounds over the embedding and the head, in one micro-batch.
    `kernels_s`: seconds that the compute lane is busy until the end of each micro-batch, and of the step. `busy_s`:
    busy seconds of the compute lane until the end of the step, per micro-batch, of which products of weights take
    `products_s`; `aside_s`: seconds of collectives of weights and gradients on other lanes, per micro-batch (those in
    pieces beside products are moved by copy engines: Transformer Engine's ring exchange, torch's asynchronous tensor
    parallelism).

    Bytes on a rank: `persistent_bytes`: tensors that live for the whole step; `peak_bytes`: peak of buffers over time,
    of which `passing_bytes` are weights and gradients in flight; in program order, the peaks of buffers during layers
    (`layers_bytes`), during the head (`head_bytes`) and at the end of the step (`end_bytes`).
    """

    micro_s: tuple[float, ...]
    step_s: float
    floor_s: tuple[float, ...]
    embedding_s: float
    head_s: float
    kernels_s: tuple[float, ...]
    busy_s: float
    products_s: float
    aside_s: float
    persistent_bytes: int
    peak_bytes: float
    passing_bytes: float
    layers_bytes: int
    head_bytes: int
    end_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSteps:
    """Small steps of a plan with two and with three layers; the number of micro-batches is that of the full step, at
    most three. Bytes on a rank: persistent tensors of the embedding and the head (`ends_bytes`), and activations passed
    between layers (`stream_bytes`).
    """

    small: tuple[SmallStep, SmallStep]
    ends_bytes: tuple[int, int]
    stream_bytes: int

    def at(self, num_layers: float, of: Callable[[SmallStep], float]) -> float:
        """Return a quantity of a small step, extrapolated to any number of layers: each layer adds as much as the third
        one.
        """
        two, three = map(of, self.small)
        return two + (num_layers - FEW_LAYERS[0]) * (three - two)


@dataclass(frozen=True, slots=True, eq=False)
class SmallForm:
    """A small schedule shared by plans of one structure, whatever the sizes of their meshes and batches: its program,
    which of its ops are inside layers (`is_inside`), the last op of each micro-batch, the lifetime of each buffer
    (first and last op), and whether an op belongs to layers, to a head, or to the end of the step. `chain`: the kernels
    of the model and the collectives inside layers, with their dependencies, the last one of each micro-batch, and the
    call that each one of the first micro-batch belongs to. `ends`: the tensors that hold the weights of the embedding,
    and of the head.
    """

    schedule: Schedule
    num_layers: int
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


@dataclass
class SmallSchedules:
    """Builds small schedules, once for each structure of plans, and times them for cases."""

    prices: Prices
    forms: dict[Hashable, tuple[SmallForm, SmallForm]] = field(default_factory=dict)

    def reprice(self, prices: Prices, machine: Machine) -> None:
        """Use other prices from now on, for a variant of the machine with the same links."""
        prices.machine = machine
        self.prices = prices

    def pair(self, case: Case) -> SmallSteps:
        """Return the two small steps of a case. Raises InputError if one of its data movements cannot be built."""
        num_micro = 1
        if case.stages > 1 or case.grad_accum > 1:
            num_micro = 3 if case.engine.step_reduction == "overlap" else 2  # then the last is like those before it
        two, three = self._forms(case, num_micro)
        mesh, batch = case.mesh, case.micro_batch * case.batch_ranks
        schedule = rebound(three.schedule, mesh, batch)
        size = _sizes(schedule)
        embedding, head = (sum([size[name] for name in names]) for names in three.ends)
        return SmallSteps(
            small=(_small(two, rebound(two.schedule, mesh, batch), self.prices), _small(three, schedule, self.prices)),
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


def _sizes(schedule: Schedule) -> dict[str, int]:
    """Return the bytes of each tensor on a rank; 0 for tensors that share the memory of others."""
    return {
        name: 0 if tensor.shares else tensor.local_bytes(schedule.mesh) for name, tensor in schedule.tensors.items()
    }


def _work(case: Case, num_layers: int, batch: int) -> Workload:
    return case.workload_of(replace(case.shape, num_layers=num_layers), batch)


def _is_inside(op: Op, case: Case) -> bool:
    """Return whether an op is a kernel of the model or a collective among ranks that share a layer's work."""
    if isinstance(op, Compute):
        return op.lane == "compute" and is_work(op)
    return isinstance(op, Collective) and not set(op.axes) & set(case.plan.axes)


def _form(schedule: Schedule, num_layers: int, case: Case) -> SmallForm:
    program = expand(schedule, schedule.roles[0])
    calls = program.calls
    fixed = {name for name, tensor in schedule.tensors.items() if tensor.persistent}
    in_passes = [number for number, call in enumerate(calls) if call.label in _PASSES]
    kernels = [n for n in in_passes if isinstance(program.ops[n], Compute) and program.ops[n].lane == "compute"]
    chain = [number for number in in_passes if _is_inside(program.ops[number], case)]
    chain_kernels = [place for place, number in enumerate(chain) if program.ops[number].lane == "compute"]
    return SmallForm(
        schedule=schedule,
        num_layers=num_layers,
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


def _small(form: SmallForm, schedule: Schedule, prices: Prices) -> SmallStep:
    """Time a small schedule that was rebound to the sizes of a case."""
    took = [prices.seconds(op, schedule) for op in schedule.ops]
    floor = [
        prices.floor_s(op, schedule) if is_inside and isinstance(op, Compute | Collective) else 0.0
        for op, is_inside in zip(schedule.ops, form.is_inside, strict=True)
    ]
    size, ops = _sizes(schedule), form.program.ops
    times = [took[op.number] for op in ops]
    start, end = passed(form.program.before, times)
    _, least = passed(form.chain_before, [floor[number] for number in form.chain])
    layers_bytes, head_bytes, end_bytes = _peaks_in_order(form, size)
    of_call: dict[str, float] = {}
    for number, label in zip(form.chain, form.chain_phase, strict=True):
        of_call[label] = of_call.get(label, 0.0) + floor[number]
    passing = {name for name, tensor in schedule.tensors.items() if tensor.role in _PASSING}
    peak_bytes, passing_bytes = _peak_in_time(form, size, start, end, passing)
    busy = np.cumsum([s if op.lane == "compute" else 0.0 for op, s in zip(ops, times, strict=True)]).tolist()
    products = sum(s for op, s in zip(ops, times, strict=True) if op.lane == "compute" and is_product(op.kind))
    aside = sum(s for op, s in zip(ops, times, strict=True) if op.lane in ASIDE and isinstance(op, Collective))
    return SmallStep(
        micro_s=tuple(end[op] for op in form.micro_ends),
        step_s=max(end),
        floor_s=tuple(least[op] for op in form.chain_ends),
        embedding_s=of_call.get("embedding", 0.0) + of_call.get("embedding.backward", 0.0),
        head_s=of_call.get("head", 0.0),
        kernels_s=(*(busy[op] for op in form.micro_ends), busy[-1]),
        busy_s=busy[-1] / len(form.micro_ends),
        products_s=products / len(form.micro_ends),
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
    """Return the persistent tensors that hold the weights of the embedding, and those of the head."""
    work = case.workload
    out = []
    for phase in (work.embedding, work.head):
        used = {weight for op in (*phase.forward, *phase.backward) for weight in (*op.weights, *op.gradients)}
        mine = [t for t in schedule.tensors.values() if t.persistent and not t.per_layer and t.weight in used]
        out.append([tensor.name for tensor in mine])
    return out[0], out[1]


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
    at = partial(pair.at, case.shape.num_layers)
    return Estimate(
        step_s=_step_s(case.grad_accum, at),
        floor_s=_floor_s(case.grad_accum, at),
        peak_bytes=_peak_bytes(case, pair, at),
        busy_s=case.grad_accum * at(lambda small: small.busy_s),
        products_s=case.grad_accum * at(lambda small: small.products_s),
        aside_s=case.grad_accum * at(lambda small: small.aside_s),
    )


def _mixed(share: float, one: Estimate, other: Estimate) -> Estimate:
    """Return the weighted mean of two estimates: `share` of one, and the rest of the other."""
    each = ((field.name, getattr(one, field.name), getattr(other, field.name)) for field in fields(Estimate))
    return Estimate(**{name: share * a + (1.0 - share) * b for name, a, b in each})


Line = Callable[[Callable[[SmallStep], float]], float]  # `SmallSteps.at` some number of layers


def _peak_bytes(case: Case, pair: SmallSteps, at: Line) -> float:
    """Return the peak memory of a rank in bytes. Buffers of many layers are no smaller than those of few, however those
    of two and three layers coincide in time. Weights and gradients in flight are, for many layers, bounded by what the
    engine has under way: gathered weights that are live, and two gradient buckets, one being filled while the other is
    reduced."""
    engine, tensors = case.engine, DTYPE_BYTES[case.precision.model]
    under_way = (engine.live_elements + 2 * engine.reduce_bucket_elements) * tensors
    few = max(small.passing_bytes for small in pair.small)
    passing = min(at(lambda small: small.passing_bytes), max(few, float(under_way)))
    buffers = at(lambda small: small.peak_bytes - small.passing_bytes) + passing
    return at(lambda small: small.persistent_bytes) + max(buffers, *(small.peak_bytes for small in pair.small))


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
    attributed to the last; if these count as layers, both stages have a layer less. If exchanges block the stages, a
    stage exchanges with both neighbours for every micro-batch. If weights are gathered during the first forward, its
    first run of layers waits for them; the gathers of later runs have all that time.
    """
    pipeline = case.plan.pipeline
    assert pipeline is not None, "a case of several stages has a pipeline"
    stages, ends, micros = case.stages, int(pipeline.ends_as_layers), case.grad_accum
    layers = (case.shape.num_layers + 2 * ends) / stages  # of a stage between the first and the last
    stage, bare = partial(pair.at, layers - ends), partial(pair.at, 0)

    def middle(small: SmallStep) -> float:
        return small.micro_s[1] - small.micro_s[0]

    last_s = stage(middle)
    inner_s = pair.at(layers, middle) - bare(middle)
    ways = small_schedules.prices.boundaries_s(case.mesh, pipeline.axis, pair.stream_bytes)
    there_s, worst_s = sum(ways) / len(ways) * (stages - 1), max(ways)
    if pipeline.overlap:
        worst_s = 0.0
    pace_s = max(last_s + worst_s, inner_s + 2 * worst_s) if stages > 2 else last_s + worst_s
    fill_s = (stages - 1) * inner_s * _waiting_share(case) / pipeline.chunks + 2 * there_s
    if case.plan.gathers_once:
        fill_s += max(0.0, stage(lambda small: small.micro_s[0]) - last_s) / pipeline.chunks
    end_s = stage(lambda small: small.step_s - small.micro_s[-1])

    def least(small: SmallStep) -> float:
        return small.floor_s[1] - small.floor_s[0]

    embedding_s, head_s = pair.small[0].embedding_s, pair.small[0].head_s
    least_s = stage(least) - embedding_s  # of the last stage; a path without some of its ops is shorter by no more
    filling = 0 if pipeline.splits_backward else stages - 1  # weight gradients may fill the time before and after
    return Estimate(
        step_s=fill_s + last_s + (micros - 1) * pace_s + end_s,
        floor_s=filling * max(0.0, least_s - head_s) / pipeline.chunks + micros * least_s,
        peak_bytes=_pipeline_bytes(case, pair, stage, bare),
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
    layer = (*work.layer.forward, *work.recomputed, *work.layer.backward)
    weights = sum(op.flops for op in layer if op.makes_weight_gradients) / sum(op.flops for op in layer)
    return 1.5 - 2.5 * weights if pipeline.order == "dualpipev" else 1.0 - 2.0 * weights


def _pipeline_bytes(case: Case, pair: SmallSteps, stage: Line, bare: Line) -> float:
    """Return the larger of the peak bytes of the first stage, which has the most micro-batches in flight, and of the
    last stage, which has the head. With divided backwards all stages have as many in flight, and in an order of V shape
    the first stage has the head. `stage`: small steps with all layers of a stage, `bare`: with none.
    """
    pipeline = case.plan.pipeline
    assert pipeline is not None
    most = {
        "gpipe": case.grad_accum,
        "interleaved": case.stages + (case.stages - 1) / pipeline.chunks,
        "dualpipev": case.stages + 0.5,
    }.get(pipeline.order, float(case.stages))
    under_way = min(most, case.grad_accum)
    kept = stage(lambda small: small.persistent_bytes) - bare(lambda small: small.persistent_bytes)
    saved = stage(lambda small: small.layers_bytes) - bare(lambda small: small.layers_bytes)
    others = (under_way - 1) * saved if pipeline.splits_backward else 0.0
    embedding, head = pair.ends_bytes
    layers_bytes, end_bytes = stage(lambda small: small.layers_bytes), stage(lambda small: small.end_bytes)
    first = kept + embedding + max(layers_bytes + (under_way - 1) * saved, end_bytes)
    last = kept + head + max(max(layers_bytes, stage(lambda small: small.head_bytes)) + others, end_bytes)
    return max(first, last + embedding) if pipeline.is_v else max(first, last)
