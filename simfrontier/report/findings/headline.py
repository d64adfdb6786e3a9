"""Which plan is fastest at the largest size of a study, by how much, and what holds the others back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from simfrontier.records import dataclass
from simfrontier.report.findings.pairs import Pair, pace_ratio, pairs_of
from simfrontier.report.findings.samples import SURE, Sampled, sampled_share, sampled_step_s, sampled_tflops
from simfrontier.report.view import StudyView, median_rate, median_step_s, rate, step_s
from simfrontier.study import PlanOutcome

PARTS = ("inter_node", "intra_node", "package", "codec", "idle")
SAME = 0.0005  # plans whose rates are nearer than this are called equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The fastest plan: medians of its samples; `typical_tflops`, `typical_step_s` and `exposed_s` (what of that step
    is not compute) are where every device is typical and no model errs. Shares are 0 to 1; `peak_share` counts
    recomputation and is None where there is none, as are `scaling_efficiency` of a study of one size and samples where
    nothing is known to be uncertain."""

    plan: str
    tflops_per_device: float
    sampled_tflops: Sampled | None
    typical_tflops: float
    step_s: float
    sampled_step_s: Sampled | None
    typical_step_s: float
    tokens_per_s: float
    scaling_efficiency: float | None
    first_devices: int
    exposed_s: float
    mfu: float
    peak_share: float | None
    peak_memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How much faster than a plan the best is (0.05: by 5 %, the median of paired samples), and in what share of how
    many samples it is faster."""

    plan: str
    tflops_per_device: float
    lead: float
    faster_share: float | None
    num_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimit:
    """What costs a plan the most beside its kernels: a field of `analysis.Exposure`, in seconds of the step with every
    device typical. `misfit`: why it does not fit, and then there are no times."""

    plan: str
    misfit: str
    tflops_per_device: float | None = None
    step_s: float | None = None
    compute_s: float | None = None
    part: str = ""
    part_s: float | None = None
    is_pipeline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The comparison in short. `best` is None where nothing fits; `ahead`: the plans that it leaves behind, the fastest
    first, `too_close` those of them that too few samples agree on, `equal` those that it does not leave behind;
    `devices_differ`: samples have a slowest device; `recompute_alike`: all plans or none recompute activations;
    `advice`: what to try with plans that fit, by plan."""

    device_word: str
    devices: int
    num_plans: int
    num_sizes: int
    capacity_bytes: float
    counts_tokens: bool
    devices_differ: bool
    recompute_alike: bool
    best: Best | None
    ahead: tuple[Ahead, ...]
    too_close: tuple[str, ...]
    equal: tuple[str, ...]
    limits: tuple[PlanLimit, ...]
    pairs: tuple[Pair, ...] = ()
    advice: Mapping[str, str] = field(default_factory=dict)


def headline_of(view: StudyView) -> Headline:
    """The comparison of a study's plans at its largest size."""
    best = view.ranked[0] if view.ranked else None
    ahead = [] if best is None else [_ahead(view, best, outcome) for outcome in view.ranked[1:]]
    others = {o.plan: o for o in [*view.ranked, *view.drawn] if o is not best}
    left = tuple(one for one in ahead if one.lead >= SAME)
    return Headline(
        device_word=view.device,
        devices=view.largest,
        num_plans=len(view.plans),
        num_sizes=len(view.sizes),
        capacity_bytes=view.scenario.machine.device.hbm_bytes,
        counts_tokens=view.shapes[view.largest].sequence != 1,
        devices_differ=bool(view.scenario.machine.device.speed_sd),
        recompute_alike=len(set(view.recomputing.values())) == 1,
        best=None if best is None else _best(view, best),
        ahead=left,
        too_close=tuple(one.plan for one in left if one.faster_share is not None and one.faster_share < SURE),
        equal=tuple(one.plan for one in ahead if one.lead < SAME),
        limits=tuple(map(plan_limit, others.values())),
        pairs=pairs_of(view),
        advice={outcome.plan: str(outcome.row["note"]) for outcome in view.ranked if outcome.row["note"]},
    )


def plan_limit(outcome: PlanOutcome) -> PlanLimit:
    """What costs a plan the most beside its kernels, or that it does not fit."""
    if not outcome.row["fits"]:
        return PlanLimit(plan=outcome.plan, misfit=str(outcome.row["note"]))
    parts = {part: float(getattr(outcome.exposure, part)) for part in PARTS}
    largest = max(parts, key=lambda part: parts[part])
    return PlanLimit(
        plan=outcome.plan,
        misfit="",
        tflops_per_device=median_rate(outcome),
        step_s=step_s(outcome),
        compute_s=outcome.exposure.compute,
        part=largest,
        part_s=parts[largest],
        is_pipeline=outcome.stages is not None,
    )


def _ahead(view: StudyView, best: PlanOutcome, other: PlanOutcome) -> Ahead:
    share, count = sampled_share(best, other) or (None, 0)
    lead = pace_ratio(view, best, other).median - 1
    return Ahead(
        plan=other.plan, tflops_per_device=median_rate(other), lead=lead, faster_share=share, num_samples=count
    )


def _best(view: StudyView, best: PlanOutcome) -> Best:
    row = best.row
    peak = view.scenario.at(view.largest).peak_flops_per_s
    first = min((o for o in view.study.of(best.plan) if o.row["fits"]), key=lambda o: o.devices)
    slowed = step_s(best) / median_step_s(best)
    return Best(
        plan=best.plan,
        tflops_per_device=median_rate(best),
        sampled_tflops=sampled_tflops(best),
        typical_tflops=rate(best),
        step_s=median_step_s(best),
        sampled_step_s=sampled_step_s(best),
        typical_step_s=step_s(best),
        tokens_per_s=slowed * float(row["tokens_per_s"]),
        scaling_efficiency=median_rate(best) / median_rate(first) if len(view.sizes) > 1 else None,
        first_devices=first.devices,
        exposed_s=float(row["exposed_comm_s"]),
        mfu=slowed * float(row["mfu"]),
        peak_share=median_rate(best) * 1e12 / peak if view.recomputing[best.plan] else None,
        peak_memory_bytes=float(row["peak_memory_bytes"]),
    )
