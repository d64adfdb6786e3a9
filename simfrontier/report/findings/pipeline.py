"""The pipelines of a study at its largest size: the time and memory of every stage, and the bubble."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.analysis import Stages
from simfrontier.records import dataclass
from simfrontier.report.view import StudyView


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A plan's pipeline: its stages without their spans, and shares (0 to 1) of the pipeline's time: `bubble`, the mean
    of its stages, and `closed_form`, what it would be with stages that are equal and exchanges that take no time."""

    plan: str
    fits: bool
    bubble: float
    closed_form: float
    stages: Stages


def pipelines_of(view: StudyView) -> tuple[Pipeline, ...]:
    """The pipelines among a study's plans, in the scenario's order."""
    return tuple(
        Pipeline(
            plan=o.plan,
            fits=bool(o.row["fits"]),
            bubble=o.stages.bubble,
            closed_form=o.stages.closed_form,
            stages=replace(o.stages, stages=tuple(replace(each, spans=()) for each in o.stages.stages)),
        )
        for o in view.piped
        if o.stages is not None
    )
