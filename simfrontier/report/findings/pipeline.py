"""The pipelines of a study at its largest size: the time and memory of every stage, and the bubble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfrontier.report.view import StudyView


@dataclass(frozen=True, slots=True, kw_only=True)
class StageShares:
    """Of the pipeline's time, what a stage spends on forwards, backwards and exchanges that hold it up, and the bubble,
    which is the rest until its reductions begin; its peak in bytes, and what it is made of by kind of tensor."""

    stage: int
    forward_s: float
    backward_s: float
    exchange_s: float
    bubble_s: float
    peak_bytes: int
    held_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A plan's pipeline of `num_micro` micro-batches and `chunks` runs of layers per stage. `pipeline_s`: from the
    start of the step to its last backward. Shares of that time, 0 to 1: `bubble`, the mean of its stages, and
    `closed_form`, what it would be with stages that are equal and exchanges that take no time. `critical`: the stage of
    the critical rank."""

    plan: str
    fits: bool
    num_micro: int
    chunks: int
    critical: int
    step_s: float
    pipeline_s: float
    bubble: float
    closed_form: float
    stages: tuple[StageShares, ...]


def pipelines_of(view: StudyView) -> tuple[Pipeline, ...]:
    """The pipelines among a study's plans, in the scenario's order."""
    return tuple(
        Pipeline(
            plan=o.plan,
            fits=bool(o.row["fits"]),
            num_micro=known.num_micro,
            chunks=known.chunks,
            critical=known.critical,
            step_s=known.step_s,
            pipeline_s=known.pipeline_s,
            bubble=known.bubble,
            closed_form=known.closed_form,
            stages=tuple(
                StageShares(
                    stage=each.stage,
                    forward_s=each.forward_s,
                    backward_s=each.backward_s,
                    exchange_s=each.exchange_s,
                    bubble_s=each.bubble_s,
                    peak_bytes=each.peak_bytes,
                    held_bytes=each.held,
                )
                for each in known.stages
            ),
        )
        for o in view.piped
        if (known := o.stages) is not None
    )
