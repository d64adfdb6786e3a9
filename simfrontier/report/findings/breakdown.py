"""Where the steps of a study go: the parts of each plan's step at each size, and its lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from simfrontier.records import dataclass
from simfrontier.report.view import StudyView, step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """The step of one plan at one size, in seconds. `parts_s`: its parts by the names of `analysis.Exposure`'s
    fields, which sum to `step_s`. Without times where the plan does not fit."""

    plan: str
    devices: int
    fits: bool
    step_s: float | None = None
    bound_s: float | None = None
    parts_s: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The steps of all plans by size, the smallest first. `has_pipelines`: at the largest size;
    `exchanges_beside`: whether a pipeline exchanges on lanes of its own."""

    device_word: str
    steps: Mapping[int, tuple[StepParts, ...]]
    has_pipelines: bool
    exchanges_beside: bool

    @property
    def largest(self) -> int:
        return max(self.steps)


def breakdown_of(view: StudyView) -> Breakdown:
    """The parts of every step of a study."""
    pipelines = [view.cases[o.plan, o.devices].plan.pipeline for o in view.piped]
    return Breakdown(
        device_word=view.device,
        steps={size: tuple(_steps(view, size)) for size in view.sizes},
        has_pipelines=bool(pipelines),
        exchanges_beside=any(pipeline is not None and pipeline.overlap for pipeline in pipelines),
    )


def _steps(view: StudyView, size: int) -> list[StepParts]:
    return [
        StepParts(
            plan=o.plan,
            devices=size,
            fits=True,
            step_s=step_s(o),
            bound_s=float(o.row["bound_s"]),
            parts_s=asdict(o.exposure),
        )
        if o.row["fits"]
        else StepParts(plan=o.plan, devices=size, fits=False)
        for o in view.at(size)
    ]
