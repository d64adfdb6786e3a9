"""The page of a search: its charts hold what was found, and its words are true of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np
import pytest

from simfrontier.accuracy import mean_step_error
from simfrontier.report.findings.tuning import Fates, kind_of, tuning_findings
from simfrontier.report.phrases import percent_up, three_digits
from simfrontier.report.render import said
from simfrontier.report.tuning import tuning_page
from simfrontier.tuning import OwnPlan, TunedPlan, TuningOutcome
from tests.facts import says
from tests.report.test_page import Page
from tests.some import some
from tests.tuning.toys import toy_tuning


def figures(page: str) -> dict[str, Any]:
    return {name: next(iter(json.loads(text).values())) for name, text in Page(page).data.items()}


def without_samples() -> TuningOutcome:
    def bare(plan: TunedPlan) -> TunedPlan:
        return plan if plan.simulated is None else replace(plan, simulated=replace(plan.simulated, samples_s=()))

    outcome = toy_tuning()
    return replace(outcome, plans=tuple(map(bare, outcome.plans)))


def test_the_page_is_whole_and_the_same_again() -> None:
    page = tuning_page(toy_tuning())
    assert page == tuning_page(toy_tuning())
    for anchor in ("headline", "front", "sure", "time", "why", "plans", "space", "assumptions", "reading"):
        assert f'<section id="{anchor}">' in page and f'href="#{anchor}"' in page
    assert {*figures(page)} == {"fig-front", "fig-order", "fig-estimates", "fig-time", "fig-best"}
    ours = page[: page.index("</main>")]
    assert "http" not in re.sub(r"https://(arxiv|github|doi)\S+", "", ours)  # needs no network; sources are named
    assert "<tiny>" not in page  # the title is the user's


def test_every_plan_is_drawn_once_and_filled_where_simulated() -> None:
    outcome = toy_tuning()
    drawn = figures(tuning_page(outcome))["fig-front"]
    points = {trace["name"]: trace for trace in drawn["data"]}
    simulated = [trace for name, trace in points.items() if name.endswith(", simulated")]
    estimated = [trace for name, trace in points.items() if name.endswith(", estimated")]
    assert sum(len(trace["x"]) for trace in simulated) == len(outcome.simulated)
    assert sum(len(trace["x"]) for trace in estimated) == len(outcome.estimated)
    assert all(trace["marker"]["symbol"] == "circle" for trace in simulated)
    assert all(trace["marker"]["symbol"] == "circle-open" for trace in estimated)
    front = points["Pareto front"]
    assert front["x"][:-1] == pytest.approx([plan.step_s for plan in outcome.front()], rel=1e-5)
    assert front["y"] == sorted(front["y"], reverse=True)
    assert points["the scenario's own"]["text"] == ["zero3"]
    x = drawn["layout"]["xaxis"]
    assert (x["ticksuffix"], drawn["layout"]["yaxis"]["ticksuffix"]) == ("s", "B")
    own = points["the scenario's own"]["x"]
    assert x["range"][0] < min(*front["x"], *own) and x["range"][1] > max(own)


@pytest.mark.parametrize(("lead", "is_sure"), [(0.9, False), (1.1, True)])
def test_a_lead_below_the_models_error_is_not_sure_though_all_samples_agree(lead: float, is_sure: bool) -> None:
    """By as much as a step is off in the mean, times this."""
    outcome = toy_tuning()
    best, *others = outcome.plans
    assert best.simulated is not None
    samples = np.array(best.simulated.samples_s)

    def slower(plan: TunedPlan) -> TunedPlan:
        times = samples * (1 + lead * mean_step_error())
        known = None if plan.simulated is None else replace(plan.simulated, samples_s=tuple(times.tolist()))
        return replace(plan, simulated=known)

    led = replace(outcome, plans=(best, *map(slower, others)))
    found = tuning_findings(led)
    assert ("probability of being the fastest" in tuning_page(led)) == is_sure
    assert found.chance == 1.0 and found.is_sure == is_sure
    (lead_words,) = said("tune", "lead", found)
    assert lead_words.endswith("too close to call.") != is_sure
    assert ("within the model’s own error of a step" in lead_words) != is_sure
    assert ("the fastest of the simulated plans in" in lead_words) == is_sure


def test_a_line_is_at_the_memory_of_a_device_unless_all_plans_take_far_less() -> None:
    outcome = toy_tuning()
    far = figures(tuning_page(outcome))["fig-front"]["layout"]
    assert far["shapes"] == [] and far["annotations"][0]["text"].endswith(", far above")
    best, *others = outcome.plans
    small = replace(best, candidate=replace(best.candidate, capacity_bytes=2e6))
    near = figures(tuning_page(replace(outcome, plans=(small, *others))))["fig-front"]["layout"]
    assert near["shapes"][0]["y0"] == 2e6
    assert near["annotations"][0]["text"].startswith("memory of a device: 2")


def test_bars_are_90_per_cent_intervals_beside_the_nominal_steps() -> None:
    outcome = toy_tuning()
    drawn = figures(tuning_page(outcome))
    band, steps = drawn["fig-order"]["data"]
    for place, plan in some(enumerate(outcome.simulated)):
        assert plan.simulated is not None and plan.simulated.band_s is not None
        low, middle, high = plan.simulated.band_s
        assert band["x"][place] == pytest.approx(middle, rel=1e-5)
        assert band["x"][place] + band["error_x"]["array"][place] == pytest.approx(high, rel=1e-4)
        assert band["x"][place] - band["error_x"]["arrayminus"][place] == pytest.approx(low, rel=1e-4)
        assert steps["x"][place] == pytest.approx(plan.nominal_s, rel=1e-5)


def test_parts_sum_to_the_nominal_steps_and_those_by_kind_to_the_best() -> None:
    outcome = toy_tuning()
    drawn = figures(tuning_page(outcome))
    for place, plan in enumerate(outcome.simulated):
        parts_s = fsum(bar["x"][place] for bar in drawn["fig-time"]["data"] if bar["type"] == "bar")
        assert parts_s == pytest.approx(plan.nominal_s, rel=1e-4)
    assert fsum(bar["x"][0] for bar in drawn["fig-best"]["data"]) == pytest.approx(outcome.time.step_s, rel=1e-9)


def test_without_samples_there_are_no_bars_and_no_chances() -> None:
    result = without_samples()
    page = tuning_page(result)
    assert "There are no error bars" in page and "probability of being the fastest" not in page
    assert [trace["name"] for trace in figures(page)["fig-order"]["data"]] == ["nominal"]
    assert tuning_findings(result).chance is None and tuning_findings(result).num_samples == 0


def test_one_plan_alone_makes_a_page() -> None:
    outcome = toy_tuning()
    alone = replace(outcome, plans=outcome.plans[:1], passed_over=(), own=(), why="", total=1)
    page = tuning_page(alone)
    assert "no other plan was simulated." in page
    assert "1 plan of tiny" in page
    assert "The scenario's own plans" not in page
    assert tuning_findings(alone).lead is None and alone.headroom == 0.0


# ── findings ──


def test_the_counts_sum_to_all() -> None:
    outcome = toy_tuning()
    fates = tuning_findings(outcome).fates
    assert fates.too_big + fates.faulty + fates.ruled_out + fates.estimated + fates.simulated == outcome.total
    more = replace(outcome, total=outcome.total + 3, too_big=outcome.too_big + 2, faulty=1)
    assert tuning_findings(more).fates == Fates(
        too_big=fates.too_big + 2,
        faulty=1,
        ruled_out=fates.ruled_out,
        estimated=fates.estimated,
        simulated=fates.simulated,
    )
    (searched,) = said("tune", "searched", tuning_findings(more))
    assert says(searched, f"{outcome.total + 3}", "tiny", 16, "8 GCDs", fates.too_big + 2, 1, fates.simulated)


def test_the_lead_is_over_the_next_in_step_rate_and_memory() -> None:
    outcome = toy_tuning()
    found = tuning_findings(outcome)
    best, second = outcome.simulated[:2]
    assert found.lead == second.step_s / best.step_s - 1
    assert found.tokens_per_s == outcome.batch * outcome.scenario.sequence / best.step_s
    assert found.chance == outcome.chances[0]
    (lead,) = said("tune", "lead", found)
    assert says(lead, best.candidate.name, f"{three_digits(found.tokens_per_s)} tokens/s", second.candidate.name)
    (why,) = said("tune", "why", found)
    assert why.startswith(f"{best.candidate.name} is ")


@pytest.mark.parametrize(("share", "shown"), [(0.0, "0.0"), (0.25, "25.0"), (0.12301, "12.4"), (0.1999, "20.0")])
def test_headroom_is_never_told_smaller_than_it_is(share: float, shown: str) -> None:
    assert percent_up(share) == f"{shown}\u00a0%"


def test_errors_are_of_simulated_against_estimated() -> None:
    """Estimates of half the nominal simulated steps and of all of their memory: 100 % longer, as much memory."""
    outcome = toy_tuning()

    def halved(plan: TunedPlan) -> TunedPlan:
        peak, step_s = plan.peak_bytes, plan.nominal_s / 2
        return replace(plan, estimate=replace(plan.estimate, step_s=step_s, floor_s=0.0, peak_bytes=peak))

    found = tuning_findings(replace(outcome, plans=tuple(map(halved, outcome.simulated))))
    assert (found.step_errors.low, found.step_errors.high) == (1.0, 1.0)
    assert (found.peak_errors.low, found.peak_errors.high) == (0.0, 0.0)


def test_an_own_plan_that_is_faster_is_told() -> None:
    outcome = toy_tuning()
    found = tuning_findings(outcome)
    assert [own.name for own in found.faster_own] == ["zero3"]
    own, not_run = outcome.own
    behind = found.behind(own)
    assert behind is not None and behind < 0.0 and found.behind(not_run) is None
    assert own.simulated is not None
    slow = OwnPlan(name="zero3", simulated=replace(own.simulated, nominal_s=1.0, samples_s=()), fits=True)
    assert tuning_findings(replace(outcome, own=(slow,))).faster_own == ()
    too_big = replace(own, fits=False)
    assert tuning_findings(replace(outcome, own=(too_big,))).faster_own == ()
    assert says("".join(said("tune", "own", found, too_big)), "does not fit into memory")
    assert says("".join(said("tune", "own", found, not_run)), "not run", not_run.why)


def test_plans_of_one_layout_have_one_kind() -> None:
    kinds = {kind_of(plan.candidate) for plan in toy_tuning().plans}
    assert kinds == {"Megatron: tensor", "Megatron: tensor × stages"}
