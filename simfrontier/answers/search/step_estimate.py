"""Estimate of a plan from small schedules (few layers and micro-batches): step time without contention, a lower bound
on the simulated step time, and peak memory.

A step is repetitive: one more layer, or one more micro-batch, adds what the last one of its kind added. So schedules
with two and with three layers, one of them for each kind of layer, and with at most three micro-batches, determine the
values for any number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import chain

from simfrontier.answers.search.small_steps import Line, SmallSchedules, SmallStep, SmallSteps
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.inputs.scenario import Case


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
    layers are added, until it is gone. So the step is at least as long as its kernels, and as the host's code and what
    follows the last micro-batch."""
    whole = _extended(num_micro, at, lambda small: (*small.micro_s, small.step_s))
    kernels_s, host_s = (
        _extended(num_micro, at, of) for of in (lambda small: small.kernels_s, lambda small: small.host_s)
    )
    return max(whole, kernels_s, host_s + at(_end_s))


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

    def micro_s(line: Line, has_head: bool) -> float:
        """Return the time of a micro-batch in the layers of a stage, and in the head: at least that of its host."""
        host_s = line(lambda small: small.host_s[1] - small.host_s[0])
        return max(line(middle) - (0.0 if has_head else bare(middle)), host_s)

    ways = small_schedules.prices.boundaries_s(case.mesh, pipeline.axis, pair.stream_bytes)
    there_s, worst_s = sum(ways) / len(ways) * (stages - 1), max(ways)
    if pipeline.overlap:
        worst_s = 0.0
    ends_s = max(micro_s(last, has_head=True), micro_s(first, has_head=False)) + worst_s
    pace_s = max([ends_s, *(micro_s(line, has_head=False) + 2 * worst_s for line in lines[1:-1])])
    fill_s = sum([count * micro_s(pair.line(run), has_head=False) for run, count in passed_first])
    fill_s = fill_s * _waiting_share(case) + 2 * there_s
    if case.plan.gathers_once:
        fill_s += max(0.0, first(lambda small: small.micro_s[0]) - first(middle)) / pipeline.chunks
    end_s = max(line(_end_s) for line in lines)

    def least(small: SmallStep) -> float:
        return small.floor_s[1] - small.floor_s[0]

    embedding_s, head_s = pair.few.embedding_s, pair.few.head_s
    least_s = last(least) - embedding_s  # a path without some of the stage's ops is shorter by no more
    fill_least_s = sum([count * max(0.0, pair.line(run)(least) - embedding_s - head_s) for run, count in passed_first])
    if pipeline.splits_backward:  # weight gradients may fill the time before and after
        fill_least_s = 0.0
    return Estimate(
        step_s=fill_s + micro_s(last, has_head=True) + (micros - 1) * pace_s + end_s,
        floor_s=fill_least_s + micros * least_s,
        peak_bytes=max(_stage_bytes(case, pair, stage, line, bare) for stage, line in enumerate(lines)),
    )


def _end_s(small: SmallStep) -> float:
    """Return the time after the last micro-batch in seconds."""
    return small.step_s - small.micro_s[-1]


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
