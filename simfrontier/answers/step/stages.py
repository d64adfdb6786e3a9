"""Stages of a pipeline over a step: forwards, backwards and exchanges by micro-batch, the bubble, and the
memory of each stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simfrontier.core.engine import KINDS, RoleTimeline, SimulatedStep
from simfrontier.core.program import Collective, Exchange, Op, Peak, Phase, Role, Schedule, phase_of

_LANE = "compute"
OUTSIDE = "embedding and head"  # states and activations that are not of a layer


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpan:
    """Activity of a stage from `start_s` to `end_s`: a forward or backward of micro-batch `micro` (including
    recomputation, collectives inside the stage and waiting for them), an exchange of the micro-batch with a
    neighbouring stage, or the end of the step.

    `layers`: first and last layer. `beside`: True for an exchange on a lane of its own, which overlaps other
    activities.
    """

    kind: Phase
    micro: int
    layers: tuple[int, int]
    start_s: float
    end_s: float
    beside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Times of one stage on one rank class. The pipeline's time consists of `forward_s`, `backward_s`, `exchange_s`
    (only exchanges that block the stage) and the rest, `bubble_s`. `held`: bytes at the stage's memory peak, by kind of
    content.
    """

    stage: int
    rank: int
    spans: tuple[StageSpan, ...]
    forward_s: float
    backward_s: float
    exchange_s: float
    bubble_s: float
    peak_bytes: int
    held: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """All stages of a step. `pipeline_s`: seconds from the start of the step to the end of the last forward, backward
    or exchange; later work (reductions, optimizer) does not belong to the pipeline. `critical`: the stage of the
    critical rank. A step has `num_micro` micro-batches, a stage `chunks` runs of layers; its backwards may be `divided`
    into input gradients and weight gradients.
    """

    stages: tuple[StageTimes, ...]
    critical: int
    pipeline_s: float
    step_s: float
    num_micro: int
    chunks: int
    divided: bool

    @property
    def closed_form(self) -> float | None:
        """Bubble as a share of the pipeline's time if all stages take equally long and exchanges take no time: (P - 1)
        / (v M + P - 1) for P stages, M micro-batches and v chunks (Narayanan et al., arXiv 2104.04473, who give the
        bubble relative to the remaining time: (P - 1) / (v M)). None for divided backwards.
        """
        if self.divided:
            return None
        others = len(self.stages) - 1
        return others / (self.chunks * self.num_micro + others)

    @property
    def fullest(self) -> StageTimes:
        """The stage with the largest memory peak; of equals, the first."""
        return max(self.stages, key=lambda stage: stage.peak_bytes)

    @property
    def bubble(self) -> float:
        """Bubble as a share of the pipeline's time, averaged over the stages."""
        return sum(stage.bubble_s for stage in self.stages) / len(self.stages) / self.pipeline_s


def stages_of(step: SimulatedStep, peaks: Sequence[Peak], chunks: int = 1, divided: bool = False) -> Stages | None:
    """Return the stages of a step, each on its rank class that ends last (of equals, the lowest); None if the step has
    one role. `peaks`: memory peak of each role; empty if memory is not needed; `chunks`, `divided`: as in `Stages`.
    """
    if len(step.roles) == 1:
        return None
    ordered = sorted(
        ((_place(role_timeline), role, role_timeline) for role, role_timeline in enumerate(step.roles)),
        key=lambda each: each[0],
    )
    chosen = [(stage, role, role_timeline, _class_of(step, role_timeline)) for stage, role, role_timeline in ordered]
    spans = {stage: _spans(role_timeline, cls, step.step_s) for stage, _, role_timeline, cls in chosen}
    pipeline_s = max((span.end_s for mine in spans.values() for span in mine if span.kind != "end"), default=0.0)
    made = []
    for stage, role, _, cls in chosen:
        rank = int(step.pricing.folding.representative[cls])
        made.append(_stage(stage, rank, spans[stage], pipeline_s, step.schedule, peaks[role] if peaks else None))
    return Stages(
        stages=tuple(made),
        critical=next(stage for stage, _, role_timeline, _ in chosen if step.critical in role_timeline.classes),
        pipeline_s=pipeline_s,
        step_s=step.step_s,
        num_micro=int(step.schedule.meta["grad_accum"]),
        chunks=chunks,
        divided=divided,
    )


def _place(role_timeline: RoleTimeline) -> int:
    at = role_timeline.segmented.role.at
    assert at is not None, "a role of several stands at a stage"
    return at[1]


def _class_of(step: SimulatedStep, role_timeline: RoleTimeline) -> int:
    if step.critical in role_timeline.classes:
        return step.critical
    ends = role_timeline.timeline.end.max(axis=1, initial=0.0).tolist()
    return next(cls for cls, end in zip(role_timeline.classes, ends, strict=True) if end >= max(ends) * (1 - 1e-9))


def _stage(
    stage: int, rank: int, spans: tuple[StageSpan, ...], pipeline_s: float, schedule: Schedule, peak: Peak | None
) -> StageTimes:
    spent: dict[Phase, float] = {"forward": 0.0, "backward": 0.0, "exchange": 0.0}
    for span in spans:
        if span.kind != "end" and not span.beside:
            spent[span.kind] += span.end_s - span.start_s
    # A stage whose last backward is done may have begun with its reductions while others still run the pipeline.
    ended = sum(max(0.0, min(span.end_s, pipeline_s) - span.start_s) for span in spans if span.kind == "end")
    return StageTimes(
        stage=stage,
        rank=rank,
        spans=spans,
        forward_s=spent["forward"],
        backward_s=spent["backward"],
        exchange_s=spent["exchange"],
        bubble_s=max(0.0, pipeline_s - sum(spent.values()) - ended),
        peak_bytes=0 if peak is None else peak.num_bytes,
        held={} if peak is None else _held(peak, schedule),
    )


def _held(peak: Peak, schedule: Schedule) -> dict[str, int]:
    """Return the bytes at the peak by kind of tensor; tensors that belong to no layer are kept apart."""
    out: Counter[str] = Counter()
    for holder in peak.holders:
        of_layer = schedule.tensors[holder.name].per_layer
        out[KINDS.get(holder.role, "other") if of_layer else OUTSIDE] += holder.num_bytes
    return dict(out)


def _spans(role_timeline: RoleTimeline, cls: int, step_s: float) -> tuple[StageSpan, ...]:
    """Return the activities of a rank class on its lane `compute`, and exchanges that overlap them; consecutive pieces
    of one activity are merged."""
    spans: list[StageSpan] = []
    for piece in _pieces(role_timeline, cls):
        before = spans[-1] if spans and piece.kind != "exchange" else None
        is_same = before is not None and (piece.kind, piece.micro) == (before.kind, before.micro)
        if before is None or not is_same or piece.start_s - before.end_s > 1e-9 * step_s:
            spans.append(piece)
        else:
            layers = min(before.layers[0], piece.layers[0]), max(before.layers[1], piece.layers[1])
            spans[-1] = replace(before, layers=layers, end_s=piece.end_s)
    return tuple(spans)


def _pieces(role_timeline: RoleTimeline, cls: int) -> Iterator[StageSpan]:
    """Yield a span for each node on the lane `compute`, and for exchanges on other lanes. A span of the stage's own
    work begins as soon as the preceding node has ended and the data of other stages have arrived: other waiting is no
    bubble.
    """
    program, row, role = role_timeline.segmented.program, role_timeline.classes.index(cls), role_timeline.segmented.role
    start, end = role_timeline.timeline.start[row].tolist(), role_timeline.timeline.end[row].tolist()
    by_lane, done_s = program.by_lane, 0.0
    schedule, phases = role_timeline.segmented.schedule, dict[int, Phase]()  # by the call's block
    for node, (op, call) in enumerate(zip(program.ops, program.calls, strict=True)):
        if call.block not in phases:
            phases[call.block] = phase_of(call, schedule)
        on_compute, phase = op.lane == _LANE, phases[call.block]
        if not on_compute and phase != "exchange":
            continue
        begin_s = start[node]
        if on_compute:
            if not _meets_others(op, role):
                awaited = [by_lane[lane][count - 1] for lane, count in program.waits[node]]
                given = [end[other] for other in awaited if isinstance(program.ops[other], Exchange)]
                begin_s = min(begin_s, max([done_s, *given]))
            done_s = end[node]
        yield StageSpan(
            kind=phase,
            micro=0 if phase == "end" else call.micro,
            layers=(call.layer, call.layer),
            start_s=begin_s,
            end_s=end[node],
            beside=not on_compute,
        )


def _meets_others(op: Op, role: Role) -> bool:
    """Return whether other stages take part in the op."""
    return isinstance(op, Exchange) or (isinstance(op, Collective) and role.at is not None and role.at[0] in op.axes)
