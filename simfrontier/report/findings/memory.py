"""What the devices hold at the peak of a step, at the largest size of a study."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.records import dataclass
from simfrontier.report.view import StudyView


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """The peak of one plan in bytes, what it is made of by kind of tensor, and what a device leaves to tensors
    (`capacity_bytes`: its memory without what the plan's stack reserves)."""

    plan: str
    fits: bool
    peak_bytes: float
    held_bytes: Mapping[str, int]
    capacity_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FullestStage:
    """The stage of a pipeline that needs most memory, counted from 0."""

    plan: str
    stage: int
    num_stages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The peaks of all plans, in the scenario's order. Of a plan in `fullest_stages` they are of that stage, otherwise
    of the critical rank."""

    device_word: str
    devices: int
    peaks: tuple[MemoryPeak, ...]
    fullest_stages: tuple[FullestStage, ...]


def memory_use(view: StudyView) -> MemoryUse:
    """The peaks of a study's plans."""
    return MemoryUse(
        device_word=view.device,
        devices=view.largest,
        peaks=tuple(
            MemoryPeak(
                plan=o.plan,
                fits=bool(o.row["fits"]),
                peak_bytes=float(o.row["peak_memory_bytes"]),
                held_bytes={kind: held for kind, held in o.at_peak.items() if held},
                capacity_bytes=view.capacity_bytes(o),
            )
            for o in view.drawn
        ),
        fullest_stages=tuple(
            FullestStage(plan=o.plan, stage=o.stages.fullest.stage, num_stages=len(o.stages.stages))
            for o in view.piped
            if o.stages
        ),
    )
