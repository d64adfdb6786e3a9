"""Whose steps a timeline shows, at the largest size of a study."""

from __future__ import annotations

from simfrontier.records import dataclass
from simfrontier.report.view import StudyView
from simfrontier.trace import rank_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalRank:
    """The rank of a plan that ends last, and the operations of its step. `stage`: its stage, in a pipeline."""

    plan: str
    rank: str
    stage: int | None
    num_ops: int


def critical_ranks(view: StudyView) -> tuple[CriticalRank, ...]:
    """Those of all plans that fit, in the scenario's order."""
    return tuple(
        CriticalRank(
            plan=o.plan,
            rank=rank_text(o.trace.processes[0].members, o.devices),
            stage=None if o.stages is None else o.stages.critical,
            num_ops=len(o.trace.processes[0].spans),
        )
        for o in view.drawn
        if o.trace is not None
    )
