"""Where the steps of a study go: the parts of each plan's step at each size, and its lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field

from simfrontier.analysis import Waits, band_of
from simfrontier.records import dataclass
from simfrontier.report.findings.samples import Sampled
from simfrontier.report.view import StudyView, nominal_step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """The nominal step of one plan at one size, in seconds. `parts_s`: its parts by the names of `analysis.Exposure`'s
    fields, which sum to it. Without times where the plan does not fit."""

    plan: str
    devices: int
    fits: bool
    nominal_step_s: float | None = None
    bound_s: float | None = None
    parts_s: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedFor:
    """Waiting for the slowest devices in a plan's step, expected over the samples, in seconds. `in_step_s`: by how much
    that makes the step longer; `in_calls_s`: by the names of calls, how long a rank on average waits in them for the
    last of its group, beside kernels or not, the longest first."""

    in_step_s: Sampled
    in_calls_s: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The steps of all plans by size, the smallest first. `has_pipelines`: at the largest size;
    `exchanges_beside`: whether a pipeline exchanges on lanes of its own. `waiting`: by plan, at the largest size; empty
    where devices are not known to differ."""

    device_word: str
    steps: Mapping[int, tuple[StepParts, ...]]
    has_pipelines: bool
    exchanges_beside: bool
    waiting: Mapping[str, WaitedFor] = field(default_factory=dict)

    @property
    def waited_calls(self) -> tuple[str, ...]:
        """The names of all calls in which ranks wait."""
        return tuple(dict.fromkeys(name for each in self.waiting.values() for name in each.in_calls_s))

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
        waiting={o.plan: _waited(o.waits) for o in view.drawn if o.waits is not None},
    )


def _waited(waits: Waits) -> WaitedFor:
    means = {name: float(each.mean()) for name, each in waits.in_calls_s.items()}
    low, median, high = band_of(waits.in_step_s)
    return WaitedFor(
        in_step_s=Sampled(low=low, median=median, high=high),
        in_calls_s=dict(sorted(means.items(), key=lambda each: -each[1])),
    )


def _steps(view: StudyView, size: int) -> list[StepParts]:
    return [
        StepParts(
            plan=o.plan,
            devices=size,
            fits=True,
            nominal_step_s=nominal_step_s(o),
            bound_s=float(o.row["bound_s"]),
            parts_s=asdict(o.exposure),
        )
        if o.row["fits"]
        else StepParts(plan=o.plan, devices=size, fits=False)
        for o in view.at(size)
    ]
