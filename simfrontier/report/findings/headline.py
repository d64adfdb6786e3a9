"""Which plan is fastest at the largest size of a study, by how much, and what holds the others back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from simfrontier.accuracy import mean_step_error
from simfrontier.records import dataclass
from simfrontier.report.findings.pairs import Pair, pair_of, pairs_of
from simfrontier.report.findings.samples import Sampled, sampled_rate, sampled_step_s
from simfrontier.report.view import StudyView, nominal_step_s, rate, step_s
from simfrontier.study import PlanOutcome

PARTS = ("inter_node", "intra_node", "package", "codec", "idle")
SAME = 0.0005  # plans whose rates are nearer than this are called equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The fastest plan, at its median step. `rate`: tokens per second and device (samples, where a model has none);
    `nominal_`: without variation between devices and errors of models. `exposed_s`: what of the step is not compute.
    Shares are 0 to 1; `hfu` counts recomputation and is None where there is none, as are `scaling_efficiency` of a
    study of one size and samples where nothing is known to be uncertain. `capacity_bytes`: of a device, without what
    the plan's stack reserves."""

    plan: str
    stack: str
    rate: float
    sampled_rate: Sampled | None
    nominal_rate: float
    tflops_per_device: float
    step_s: float
    sampled_step_s: Sampled | None
    nominal_step_s: float
    tokens_per_s: float
    scaling_efficiency: float | None
    first_devices: int
    exposed_s: float
    mfu: float
    hfu: float | None
    peak_memory_bytes: float
    capacity_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How much faster than a plan the best is (0.05: by 5 %), in what share of how many samples it is faster, and
    whether that is `too_close` to call."""

    plan: str
    rate: float
    lead: float
    faster_share: float | None
    num_samples: int
    too_close: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimit:
    """What costs a plan the most beside its kernels: a field of `analysis.Exposure`, in seconds of the nominal step.
    `misfit`: why it does not fit, and then there are no times."""

    plan: str
    misfit: str
    rate: float | None = None
    nominal_step_s: float | None = None
    compute_s: float | None = None
    part: str = ""
    part_s: float | None = None
    is_pipeline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The comparison in short. `best` is None where nothing fits; `ahead`: the plans that it leaves behind, the fastest
    first, `too_close` those of them that are too close to call, `equal` those that it does not leave behind;
    `devices_differ`: samples have a slowest device; `recompute_alike`: all plans or none recompute activations;
    `advice`: what to try with plans that fit, by plan."""

    device_word: str
    devices: int
    num_plans: int
    num_sizes: int
    rate_unit: str
    counts_tokens: bool
    step_error: float
    unequal_batches: Mapping[str, int]
    devices_differ: bool
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
        rate_unit=view.rate_unit,
        counts_tokens=view.counts_tokens,
        step_error=mean_step_error(),
        unequal_batches=_unequal_batches(view),
        devices_differ=bool(view.scenario.machine.device.speed_sd),
        best=None if best is None else _best(view, best),
        ahead=left,
        too_close=tuple(one.plan for one in left if one.too_close),
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
        rate=rate(outcome),
        nominal_step_s=nominal_step_s(outcome),
        compute_s=outcome.exposure.compute,
        part=largest,
        part_s=parts[largest],
        is_pipeline=outcome.stages is not None,
    )


def _unequal_batches(view: StudyView) -> dict[str, int]:
    """Sequences of a step by plan at the largest size; empty where all have as many."""
    samples = {outcome.plan: view.samples_of(outcome) for outcome in view.drawn}
    return samples if len(set(samples.values())) > 1 else {}


def _ahead(view: StudyView, best: PlanOutcome, other: PlanOutcome) -> Ahead:
    pair = pair_of(view, best, other)
    return Ahead(
        plan=other.plan,
        rate=rate(other),
        lead=pair.ratio.median - 1,
        faster_share=pair.faster_share,
        num_samples=pair.num_samples,
        too_close=pair.too_close,
    )


def _best(view: StudyView, best: PlanOutcome) -> Best:
    row = best.row
    first = min((o for o in view.study.of(best.plan) if o.row["fits"]), key=lambda o: o.devices)
    return Best(
        plan=best.plan,
        stack=str(row["stack"]),
        rate=rate(best),
        sampled_rate=sampled_rate(best),
        nominal_rate=rate(best) * step_s(best) / nominal_step_s(best),
        tflops_per_device=float(row["tflops_per_device"]),
        step_s=step_s(best),
        sampled_step_s=sampled_step_s(best),
        nominal_step_s=nominal_step_s(best),
        tokens_per_s=float(row["tokens_per_s"]),
        scaling_efficiency=float(row["scaling_efficiency"]) if len(view.sizes) > 1 else None,
        first_devices=first.devices,
        exposed_s=float(row["exposed_comm_s"]),
        mfu=float(row["mfu"]),
        hfu=float(row["hfu"]) if view.cases[best.plan, best.devices].recomputes else None,
        peak_memory_bytes=float(row["peak_memory_bytes"]),
        capacity_bytes=view.capacity_bytes(best),
    )
