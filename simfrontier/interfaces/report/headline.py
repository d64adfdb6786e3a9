"""The fastest plan of a study, its lead, and the confidence in the ranking of plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from simfrontier.answers.accuracy import model_kind_of, sure_lead
from simfrontier.answers.step import Spread, band_of, probability_faster, spread_of
from simfrontier.answers.study import PlanOutcome
from simfrontier.interfaces.report.view import RATE, STEP, Row, StudyView, rate, result_row, step_s

SURE = 0.9  # a ranking that fewer samples agree with is too close to call
PARTS = ("inter_node", "intra_node", "package", "codec", "host", "idle")  # of the columns exposed_PART_s
SAME = 0.0005  # plans whose rates are nearer than this are called equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A value from median step times, with the range of 90 % of its samples."""

    low: float
    median: float
    high: float


def sampled_ratio(first: PlanOutcome, second: PlanOutcome, work: float) -> Sampled:
    """Return the ratio of the first plan's rate to the second's, if the first does `work` times as much per step. The
    value is the ratio of the median steps, the interval that of the paired samples (without samples: the ratio
    itself)."""
    ratio = work * step_s(second) / step_s(first)
    if first.samples_s is None or second.samples_s is None:
        return Sampled(low=ratio, median=ratio, high=ratio)
    low, _, high = band_of(work * second.samples_s / first.samples_s)
    return Sampled(low=low, median=ratio, high=high)


def too_close(ratio: float, faster_share: float | None, sure: float) -> bool:
    """Return whether a ratio of two plans' rates is too near 1 to tell which plan is faster: it differs from 1 by less
    than the lead from which on rankings of published runs are right (`sure`; samples do not show errors that affect all
    plans alike), or fewer than `SURE` of the samples agree."""
    is_near = max(ratio, 1 / ratio) - 1 < sure
    return is_near or (faster_share is not None and max(faster_share, 1 - faster_share) < SURE)


def work_ratio(view: StudyView, first: PlanOutcome, second: PlanOutcome) -> float:
    """Return the number of sequences per step of the first plan relative to the second plan."""
    return view.samples_of(first) / view.samples_of(second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Comparison of two plans at one size: the ratio of their rates, the share of `num_samples` paired samples in which
    the first plan is faster (None without samples), the relative lead from which on the ranking of two such plans is
    sure (`sure_lead`), and whether the ratio is `too_close` to 1 to call."""

    devices: int
    plan: str
    other: str
    ratio: Sampled
    faster_share: float | None
    num_samples: int
    sure_lead: float
    too_close: bool

    @property
    def lead(self) -> float:
        """Return the relative lead of the first plan over the second (0.05: 5 % faster)."""
        return self.ratio.median - 1.0


def pair_of(view: StudyView, first: PlanOutcome, second: PlanOutcome) -> Pair:
    """Compare two plans that both fit into memory at one size."""
    work = work_ratio(view, first, second)
    share, count, ratio = None, 0, sampled_ratio(first, second, work)
    if first.samples_s is not None and second.samples_s is not None:
        share, count = probability_faster(first.samples_s / work, second.samples_s), len(first.samples_s)
    sure = sure_lead(first.row["stack"] == second.row["stack"], model_kind_of(view.scenario.at(first.devices).shape))
    return Pair(
        devices=first.devices,
        plan=first.plan,
        other=second.plan,
        ratio=ratio,
        faster_share=share,
        num_samples=count,
        sure_lead=sure,
        too_close=too_close(ratio.median, share, sure),
    )


def rate_interval(row: Row) -> tuple[float, float]:
    """Return the ends of the 90 % interval of the rate of a plan that fits."""
    return row[f"{RATE}_low"], row[f"{RATE}_high"]


def step_interval(row: Row) -> tuple[float, float]:
    """Return the ends of the 90 % interval of the step time in seconds of a plan that fits: that of its rate."""
    low, high = rate_interval(row)
    work = row[RATE] * row[STEP]
    return work / high, work / low


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Comparison of a study's plans at its largest size.

    `best`: the row of the fastest plan, None if no plan fits; `interval`: 90 % interval of its rate;
    `ahead`: comparisons of the fastest plan with each slower plan, the fastest of these first, and `too_close` those
    among them that are too close to call; `equal`: the plans that are as fast as the best; `pairs`: comparisons of all
    pairs of plans that fit, at every size, in the scenario's order of plans; `limits`: the rows of all other plans,
    with the part that costs them most (`with_limit`); `advice`: changes to try on plans that fit, by plan;
    `unequal_batches`: sequences per step by plan, empty if all plans have the same number.
    """

    device_word: str
    devices: int
    num_plans: int
    rate_unit: str
    unequal_batches: Mapping[str, int]
    best: Row | None
    interval: tuple[float, float] | None
    ahead: tuple[Pair, ...]
    too_close: tuple[str, ...]
    equal: tuple[str, ...]
    limits: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    advice: Mapping[str, str]


def headline_of(view: StudyView) -> Headline:
    """Return the comparison of a study's plans at its largest size."""
    best = view.ranked[0] if view.ranked else None
    ahead = [] if best is None else [pair_of(view, best, other) for other in view.ranked[1:]]
    others = {o.plan: o for o in [*view.ranked, *view.drawn] if o is not best}
    left = tuple(pair for pair in ahead if pair.lead >= SAME)
    samples = {outcome.plan: view.samples_of(outcome) for outcome in view.drawn}
    return Headline(
        device_word=view.device,
        devices=view.largest,
        num_plans=len(view.plans),
        rate_unit=view.rate_unit,
        unequal_batches=samples if len(set(samples.values())) > 1 else {},
        best=None if best is None else result_row(best),
        interval=None if best is None else rate_interval(result_row(best)),
        ahead=left,
        too_close=tuple(pair.other for pair in left if pair.too_close),
        equal=tuple(pair.other for pair in ahead if pair.lead < SAME),
        limits=tuple(map(with_limit, others.values())),
        pairs=tuple(
            pair_of(view, first, second)
            for size in view.sizes
            for first, second in combinations([each for each in view.at(size) if each.row["fits"]], 2)
        ),
        advice={outcome.plan: str(outcome.row["note"]) for outcome in view.ranked if outcome.row["note"]},
    )


def with_limit(outcome: PlanOutcome) -> Row:
    """Return the row of an outcome with the largest exposed part of its nominal step: `part`, in `part_s` seconds."""
    row = result_row(outcome)
    if not row["fits"]:
        return row
    largest = max(PARTS, key=lambda part: row[f"exposed_{part}_s"])
    is_bubble = largest == "idle" and outcome.stages is not None
    return {**row, "part": "bubble" if is_bubble else largest, "part_s": row[f"exposed_{largest}_s"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Confidence in the ranking of plans.

    `errors`: the sampled sources of error. By number of devices: `ranked`, the plans with samples, the fastest first,
    and `pairs`, the comparison of each plan with each other, by plan and other plan. `sure_leads`: the relative lead
    from which on the ranking of two plans is sure, by one software stack and by two. `are_plain`: whether steps can be
    sampled: single steps of a job that has the machine to itself, on a machine that does not change during the step.
    """

    errors: Spread
    num_samples: int
    ranked: Mapping[int, tuple[str, ...]]
    pairs: Mapping[int, Mapping[str, Mapping[str, Pair]]]
    sure_leads: tuple[float, float]
    are_plain: bool


def ranking_of(view: StudyView) -> Ranking:
    """Return the confidence in the ranking of a study's plans, at every size at which a plan has samples."""
    sampled_at = {size: [o for o in view.at(size) if o.samples_s is not None] for size in view.sizes}
    known = {size: sorted(own, key=lambda o: -rate(o)) for size, own in sampled_at.items() if own}
    sampled = [outcome.samples_s for outcomes in known.values() for outcome in outcomes]
    file = view.scenario.file
    model = model_kind_of(view.scenario.at(view.sizes[0]).shape)
    return Ranking(
        errors=spread_of(view.scenario.machine, view.scenario.library),
        num_samples=file.uncertainty.samples if not sampled or sampled[-1] is None else len(sampled[-1]),
        ranked={size: tuple(o.plan for o in outcomes) for size, outcomes in known.items()},
        pairs={
            size: {a.plan: {b.plan: pair_of(view, a, b) for b in outcomes if b is not a} for a in outcomes}
            for size, outcomes in known.items()
        },
        sure_leads=(sure_lead(True, model), sure_lead(False, model)),
        are_plain=view.scenario.beside is None and not file.perturbation.is_timed and file.run.steps == 1,
    )
