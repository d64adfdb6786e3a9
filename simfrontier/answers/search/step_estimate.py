"""Estimates: a whole step's time without contention, a floor under its simulated time, and its memory, out of
small schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

from simfrontier.answers.search.small_steps import SmallSchedules, SmallStep, SmallSteps
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.inputs.scenario import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Predicted step of a plan, in seconds and bytes. `step_s`: in closed form, without contention; at least `floor_s`,
    a lower bound on the simulated step. `peak_bytes`: on the fullest rank. `busy_s`: how long the lane of the kernels
    works; `aside_s`: how long collectives take on other lanes (0 in pipelines, where they are few)."""

    step_s: float
    floor_s: float
    peak_bytes: float
    busy_s: float = 0.0
    aside_s: float = 0.0

    def __post_init__(self) -> None:
        if self.step_s < self.floor_s:  # a few layers say only roughly what many take; the bound is certain
            object.__setattr__(self, "step_s", self.floor_s)


def estimate(case: Case, small_schedules: SmallSchedules) -> Estimate:
    """The estimate of a case: of layers of which some are checkpointed, each adds what it adds where all are like it.
    Raises InputError where its schedule cannot be made or priced."""
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
        aside_s=case.grad_accum * at(lambda small: small.aside_s),
    )


def _mixed(share: float, one: Estimate, other: Estimate) -> Estimate:
    """So much of one, and the rest of the other."""
    each = ((field.name, getattr(one, field.name), getattr(other, field.name)) for field in fields(Estimate))
    return Estimate(**{name: share * a + (1.0 - share) * b for name, a, b in each})


Line = Callable[[Callable[[SmallStep], float]], float]  # `SmallSteps.at` some number of layers


def _peak_bytes(case: Case, pair: SmallSteps, at: Line) -> float:
    """Buffers of many layers are no fewer than those of few, however those of two and of three meet in time. Weights
    and gradients on their way are, of many layers, no more than the engine has under way: gathered ones that live, and
    two buckets of gradients, one that fills while the other is reduced."""
    engine, tensors = case.engine, DTYPE_BYTES[case.precision.model]
    under_way = (engine.live_elements + 2 * engine.reduce_bucket_elements) * tensors
    few = max(small.passing_bytes for small in pair.small)
    passing = min(at(lambda small: small.passing_bytes), max(few, float(under_way)))
    buffers = at(lambda small: small.peak_bytes - small.passing_bytes) + passing
    return at(lambda small: small.persistent_bytes) + max(buffers, *(small.peak_bytes for small in pair.small))


def _step_s(num_micro: int, at: Line) -> float:
    """Communication that few layers do not hide, more may: what sticks out of the kernels shrinks as layers are added,
    until it is gone. So the step is not shorter than its kernels take."""
    whole = _extended(num_micro, at, lambda small: (*small.micro_s, small.step_s))
    return max(whole, _extended(num_micro, at, lambda small: small.kernels_s))


def _floor_s(num_micro: int, at: Line) -> float:
    return _extended(num_micro, at, lambda small: (*small.floor_s, small.floor_s[-1]))


def _extended(num_micro: int, at: Line, ends: Callable[[SmallStep], tuple[float, ...]]) -> float:
    """The end of a step of any number of micro-batches, of those of a small step's micro-batches and of itself: the
    first micro-batch, as many like the second as there are, and the last with the end of the step."""
    if num_micro == 1:
        return at(lambda small: ends(small)[-1])
    return (
        at(lambda small: ends(small)[0])
        + (num_micro - 2) * at(lambda small: ends(small)[1] - ends(small)[0])
        + at(lambda small: ends(small)[-1] - ends(small)[-3])
    )


def _of_pipeline(case: Case, pair: SmallSteps, small_schedules: SmallSchedules) -> Estimate:
    """One micro-batch goes through all stages, the others follow at the pace of the slowest stage; then the step ends.

    Stages have layers alone, the first and the last besides the embedding and the head, which are taken as the last's.
    Where exchanges hold stages up, a stage meets both neighbours with every micro-batch. Where weights are gathered
    beside the first forward, its first run of layers waits for them; those after it have all that time.
    """
    pipeline = case.plan.pipeline
    assert pipeline is not None, "a case of several stages has a pipeline"
    stages, layers, micros = case.stages, case.shape.num_layers / case.stages, case.grad_accum
    stage, bare = partial(pair.at, layers), partial(pair.at, 0)

    def middle(small: SmallStep) -> float:
        return small.micro_s[1] - small.micro_s[0]

    last_s = stage(middle)
    inner_s = last_s - bare(middle)
    ways = small_schedules.prices.boundaries_s(case.mesh, pipeline.axis, pair.stream_bytes)
    there_s, worst_s = sum(ways) / len(ways) * (stages - 1), max(ways)
    if pipeline.overlap:
        worst_s = 0.0
    pace_s = max(last_s + worst_s, inner_s + 2 * worst_s) if stages > 2 else last_s + worst_s
    fill_s = (stages - 1) * inner_s / pipeline.chunks + 2 * there_s
    if case.plan.gathers_once:
        fill_s += max(0.0, stage(lambda small: small.micro_s[0]) - last_s) / pipeline.chunks
    end_s = stage(lambda small: small.step_s - small.micro_s[-1])

    def least(small: SmallStep) -> float:
        return small.floor_s[1] - small.floor_s[0]

    embedding_s, head_s = pair.small[0].embedding_s, pair.small[0].head_s
    least_s = stage(least) - embedding_s  # of the last stage; a path without some of its ops is shorter by no more
    return Estimate(
        step_s=fill_s + last_s + (micros - 1) * pace_s + end_s,
        floor_s=(stages - 1) * max(0.0, least_s - head_s) / pipeline.chunks + micros * least_s,
        peak_bytes=_pipeline_bytes(case, pair, stage, bare),
    )


def _pipeline_bytes(case: Case, pair: SmallSteps, stage: Line, bare: Line) -> float:
    """The fuller of the first stage, which has the most micro-batches under way, and the last, which has the head;
    `stage`: with all layers of one, `bare`: with none."""
    pipeline = case.plan.pipeline
    assert pipeline is not None
    most = {"gpipe": float(case.grad_accum), "1f1b": float(case.stages)}.get(
        pipeline.order, case.stages + (case.stages - 1) / pipeline.chunks
    )
    under_way = min(most, case.grad_accum)
    kept = stage(lambda small: small.persistent_bytes) - bare(lambda small: small.persistent_bytes)
    saved = stage(lambda small: small.layers_bytes) - bare(lambda small: small.layers_bytes)
    embedding, head = pair.ends_bytes
    layers_bytes, end_bytes = stage(lambda small: small.layers_bytes), stage(lambda small: small.end_bytes)
    first = kept + embedding + max(layers_bytes + (under_way - 1) * saved, end_bytes)
    last = kept + head + max(layers_bytes, stage(lambda small: small.head_bytes), end_bytes)
    return max(first, last)
