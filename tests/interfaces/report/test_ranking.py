"""How sure a ranking is, and plans whose steps have unlike many sequences."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simfrontier.answers.accuracy import step_factor, sure_lead
from simfrontier.answers.study import PlanOutcome, Study, run_study
from simfrontier.inputs.scenario import scenario_of
from simfrontier.interfaces.report.headline import Ranking, headline_of, ranking_of
from simfrontier.interfaces.report.phrases import percent
from simfrontier.interfaces.report.results import findings_of
from simfrontier.interfaces.report.study_page import section
from simfrontier.interfaces.report.summary import verdict
from simfrontier.interfaces.report.view import RATE, StudyView, rate, step_s
from tests.facts import says
from tests.interfaces.report.studies import study


def plain(text: str) -> str:
    return re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " ")


def headline(view: StudyView) -> str:
    """The sentence that answers."""
    return plain(verdict(headline_of(view)))


def ranking_words(found: Ranking, view: StudyView) -> str:
    """The section on the ranking in words."""
    return plain(section("probability", {**findings_of(view), "probability": found}, view))


def outcome(plan: str, size: int = 8, of: Study | None = None) -> PlanOutcome:
    return next(o for o in (of or study()).outcomes if (o.plan, o.devices) == (plan, size))


def middle_of(samples_s: list[float]) -> dict[str, float]:
    low, median, high = np.quantile(samples_s, (0.05, 0.5, 0.95)).tolist()
    return {"step_time_p05_s": low, "step_time_p50_s": median, "step_time_p95_s": high}


def with_samples(samples_s: dict[str, list[float]]) -> StudyView:
    """The study with other samples of its plans on 8 devices."""

    def changed(o: PlanOutcome, samples: list[float]) -> PlanOutcome:
        middle = middle_of(samples)
        median_s = middle["step_time_p50_s"]
        row = {"step_time_s": median_s, "tokens_per_s_per_device": rate(o) * step_s(o) / median_s}
        return replace(o, samples_s=np.array(samples), row={**o.row, **middle, **row})

    made = tuple(
        changed(o, samples_s[o.plan]) if o.devices == 8 and o.plan in samples_s else o for o in study().outcomes
    )
    return StudyView(study=replace(study(), outcomes=made))


# ── words ──


def test_of_equal_plans_none_is_the_fastest() -> None:
    for third, near in (([2.0] * 4, False), ([1.01] * 4, True)):
        view = with_samples({"ddp": [1.0] * 4, "zero3": [1.0] * 4, "zeropp": third})
        found = headline_of(view)
        assert found.best is not None and found.too_close == (("zeropp",) if near else ())
        first, other = found.best["plan"], *found.equal
        assert {first, other} == {"ddp", "zero3"}  # their rates differ by rounding
        listed = f", {other} and zeropp are too close to call" if near else f" and {other} are equally fast"
        assert says(headline(view), f"{first}{listed}", "more than the next, zeropp")
        assert not says(headline(view), "is the fastest")


def test_a_ranking_that_samples_do_not_agree_on_is_too_close_to_call() -> None:
    fastest, second, slowest = study().outcomes[1::2]
    assert fastest.devices == 8
    view = with_samples(
        {fastest.plan: [1.0, 1.0, 2.0, 1.0], second.plan: [2.0, 2.0, 1.0, 2.0], slowest.plan: [3.0] * 4}
    )
    found = headline_of(view)
    assert found.best is not None and found.best["plan"] == fastest.plan
    assert found.too_close == (second.plan,)
    assert (found.ahead[0].other, found.ahead[0].faster_share, found.ahead[0].num_samples) == (second.plan, 0.75, 4)
    assert says(headline(view), fastest.plan, second.plan, "too close to call")
    ranking = ranking_of(view)
    assert ranking.ranked[8] == (fastest.plan, second.plan, slowest.plan) and ranking.num_samples == 4
    assert {plan: pair.faster_share for plan, pair in ranking.pairs[8][fastest.plan].items()} == {
        second.plan: 0.75,
        slowest.plan: 1.0,
    }


@pytest.mark.parametrize(("more", "is_near"), [(0.9, True), (1.1, False)])
def test_a_lead_below_the_models_error_of_it_is_too_close_to_call_though_all_samples_agree(
    more: float, is_near: bool
) -> None:
    """Samples err in the same way for all plans, so that they agree on any difference."""
    stacks = {o.row["stack"] for o in study().outcomes if o.plan in ("ddp", "zero3")}
    sure = sure_lead(len(stacks) == 1, "dense")
    lead = more * sure
    fast = np.linspace(1.0, 1.5, 100)
    view = with_samples({"ddp": fast.tolist(), "zero3": (fast * (1 + lead)).tolist(), "zeropp": [9.0] * 100})
    found = headline_of(view)
    assert found.best is not None and found.best["plan"] == "ddp"
    assert (found.ahead[0].other, found.ahead[0].faster_share) == ("zero3", 1.0)
    assert found.ahead[0].lead == pytest.approx(lead, rel=1e-9)
    assert found.too_close == (("zero3",) if is_near else ())
    assert says(headline(view), "ddp and zero3", "too close to call") == is_near
    assert says(headline(view), "within the model’s error of such a lead", plain(percent(sure))) == is_near
    assert says(headline(view), "ddp", "faster in more than 99 % of the samples") != is_near
    words = ranking_words(ranking_of(view), view)
    assert ("≈ &gt; 99 %" in " ".join(words.split())) == is_near


def test_the_interval_of_the_fastest_plan_is_that_of_published_runs_on_such_devices() -> None:
    """And at least that of its samples."""
    factor = step_factor(view().scenario.machine.device.peak_flops_per_s, "dense")
    found = headline_of(view())
    assert found.best is not None and found.interval is not None
    low, high = found.interval
    assert low == pytest.approx(min(found.best[RATE] / factor, found.best[f"{RATE}_p05"]))
    assert high == pytest.approx(max(found.best[RATE] * factor, found.best[f"{RATE}_p95"]))


SEQUENCES = {"short": 8, "long": 512}  # of a step
DOCUMENT: dict[str, Any] = {
    "name": "unequal",
    "title": "Unequal batches",
    "machine": {"name": "toy-cluster"},
    "model": {"name": "tiny"},
    "stack": "none",
    "training": {"grad_accum": 1},
    "run": {"devices": [8]},
    "plans": {"short": {"family": "ddp"}, "long": {"family": "ddp", "micro_batch": 64}},
}


@cache
def view() -> StudyView:
    return StudyView(study=run_study(scenario_of(DOCUMENT, "unequal.toml")))


@cache
def steps() -> dict[str, npt.NDArray[np.float64]]:
    """Seconds of a step in each sample, by plan; one of "short" takes less in all of them."""
    found = {o.plan: o.samples_s for o in view().drawn if o.samples_s is not None}
    assert set(found) == set(SEQUENCES) and np.all(found["short"] < found["long"])
    return found


def test_the_longer_step_that_trains_more_is_the_fastest_everywhere() -> None:
    assert ranking_of(view()).ranked[8] == ("long", "short")
    drawn = {plan: row[RATE] for plan, (row,) in view().rows.items()}
    medians = {plan: 32 * SEQUENCES[plan] / np.median(samples_s) / 8 for plan, samples_s in steps().items()}
    assert drawn == pytest.approx(medians, rel=1e-12)
    found = headline_of(view())
    assert found.best is not None and found.best["plan"] == "long" and found.best[RATE] == drawn["long"]
    (ahead,) = found.ahead
    assert (ahead.other, ahead.faster_share, ahead.too_close) == ("short", 1.0, False)
    assert 1 + ahead.lead == pytest.approx(medians["long"] / medians["short"], rel=1e-12)
