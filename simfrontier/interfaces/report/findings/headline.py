"""The fastest plan at the largest size of a study, its lead, and what holds the others back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfrontier.answers.accuracy import mean_step_error
from simfrontier.answers.study import PlanOutcome
from simfrontier.interfaces.report.findings.pairs import Pair, pair_of, pairs_of
from simfrontier.interfaces.report.view import Row, StudyView, result_row

PARTS = ("inter_node", "intra_node", "package", "codec", "idle")  # of the columns exposed_PART_s
SAME = 0.0005  # plans whose rates are nearer than this are called equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The comparison of a study's plans at its largest size.

    `best`: the row of the fastest plan, None where nothing fits; `ahead`: that plan compared with each that it leaves
    behind, the fastest first, `too_close` those of them that are too close to call, `equal` those that it does not
    leave behind; `limits`: the rows of all other plans, with what costs them most (`with_limit`); `advice`: what to try
    with plans that fit, by plan; `unequal_batches`: sequences of a step by plan, empty where all have as many.
    """

    device_word: str
    devices: int
    num_plans: int
    rate_unit: str
    step_error: float
    unequal_batches: Mapping[str, int]
    best: Row | None
    ahead: tuple[Pair, ...]
    too_close: tuple[str, ...]
    equal: tuple[str, ...]
    limits: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    advice: Mapping[str, str]


def headline_of(view: StudyView) -> Headline:
    """The comparison of a study's plans at its largest size."""
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
        step_error=mean_step_error(),
        unequal_batches=samples if len(set(samples.values())) > 1 else {},
        best=None if best is None else result_row(best),
        ahead=left,
        too_close=tuple(pair.other for pair in left if pair.too_close),
        equal=tuple(pair.other for pair in ahead if pair.lead < SAME),
        limits=tuple(map(with_limit, others.values())),
        pairs=pairs_of(view),
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
