"""The page of a search: its charts hold what was found, and its words are true of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import fsum
from typing import Any

import pytest

from simfrontier.report.tuning import tuning_page
from simfrontier.report.tuning_text import (
    beaten_sentence,
    errors_sentence,
    fates,
    headroom_sentence,
    kind_of,
    lead_sentence,
    own_words,
    rate_words,
    searched_sentence,
    tokens_per_s,
    why_sentence,
)
from simfrontier.tuning import OwnPlan, TunedPlan, TuningOutcome
from tests.report.test_page import Page
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
    assert {*figures(page)} == {"fig-front", "fig-order", "fig-estimates", "fig-time", "fig-path"}
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
    assert front["x"][:-1] == pytest.approx([1e3 * plan.step_s for plan in outcome.front()], rel=1e-5)
    assert front["y"] == sorted(front["y"], reverse=True)
    assert points["the scenario's own"]["text"] == ["zero3"]
    x = drawn["layout"]["xaxis"]
    assert "(ms)" in x["title"]["text"] and "(MB)" in drawn["layout"]["yaxis"]["title"]["text"]
    own = points["the scenario's own"]["x"]
    assert x["range"][0] < min(*front["x"], *own) and x["range"][1] > max(own)


def test_a_line_is_at_the_memory_of_a_device_unless_all_plans_take_far_less() -> None:
    outcome = toy_tuning()
    far = figures(tuning_page(outcome))["fig-front"]["layout"]
    assert far["shapes"] == [] and far["annotations"][0]["text"].endswith(", far above")
    device = replace(outcome.scenario.machine.device, hbm_bytes=2e6)
    scenario = replace(outcome.scenario, machine=replace(outcome.scenario.machine, device=device))
    near = figures(tuning_page(replace(outcome, scenario=scenario)))["fig-front"]["layout"]
    assert near["shapes"][0]["y0"] == 2.0
    assert near["annotations"][0]["text"].startswith("memory of a device: 2")


def test_bars_hold_nine_samples_of_ten() -> None:
    outcome = toy_tuning()
    drawn = figures(tuning_page(outcome))
    band, steps = drawn["fig-order"]["data"]
    for place, plan in enumerate(outcome.simulated):
        assert plan.simulated is not None and plan.simulated.band_s is not None
        low, middle, high = plan.simulated.band_s
        assert band["x"][place] == pytest.approx(1e3 * middle, rel=1e-5)
        assert band["x"][place] + band["error_x"]["array"][place] == pytest.approx(1e3 * high, rel=1e-4)
        assert band["x"][place] - band["error_x"]["arrayminus"][place] == pytest.approx(1e3 * low, rel=1e-4)
        assert steps["x"][place] == pytest.approx(1e3 * plan.step_s, rel=1e-5)


def test_parts_sum_to_the_steps_and_the_path_to_the_best() -> None:
    outcome = toy_tuning()
    drawn = figures(tuning_page(outcome))
    for place, plan in enumerate(outcome.simulated):
        assert fsum(bar["x"][place] for bar in drawn["fig-time"]["data"]) == pytest.approx(1e3 * plan.step_s, rel=1e-4)
    assert fsum(bar["x"][0] for bar in drawn["fig-path"]["data"]) == pytest.approx(1e3 * outcome.path.step_s, rel=1e-9)


def test_without_samples_there_are_no_bars_and_no_chances() -> None:
    result = without_samples()
    page = tuning_page(result)
    assert "There are no error bars" in page and "chance to be the fastest" not in page
    assert [trace["name"] for trace in figures(page)["fig-order"]["data"]] == ["without errors"]
    assert "samples" not in lead_sentence(result)


def test_one_plan_alone_makes_a_page() -> None:
    outcome = toy_tuning()
    alone = replace(outcome, plans=outcome.plans[:1], passed_over=(), own=(), why="", total=1)
    page = tuning_page(alone)
    assert "no other plan was simulated." in page
    assert "1 plan of tiny" in page
    assert "The scenario&#x27;s own plans" not in page
    assert headroom_sentence(alone).startswith("No plan of the space can have a shorter step")


# ── words ──


def test_the_counts_sum_to_all() -> None:
    outcome = toy_tuning()
    assert sum(count for count, _ in fates(outcome)) == outcome.total
    assert searched_sentence(
        replace(outcome, total=outcome.total + 3, too_big=outcome.too_big + 2, faulty=1)
    ).startswith(
        f"{outcome.total + 3} plans of tiny with a batch of 16 sequences on 8 GCDs of toy-cluster: "
        f"{outcome.too_big + 2} do not fit into memory, 1 the library cannot run, "
    )


def test_the_lead_says_step_rate_memory_and_how_sure() -> None:
    outcome = toy_tuning()
    message = lead_sentence(outcome)
    assert message.startswith(f"{outcome.best.candidate.name}: ")
    rate = tokens_per_s(outcome, outcome.best)
    assert rate == outcome.batch * outcome.scenario.sequence / outcome.best.step_s
    assert f"{rate_words(outcome, outcome.best)} tokens/s" in message
    assert float(rate_words(outcome, outcome.best).replace(",", "")) == pytest.approx(rate, rel=5e-3)
    assert " of the samples" in message
    assert why_sentence(outcome).startswith(f"{outcome.best.candidate.name} is ")


def test_headroom_is_never_told_smaller_than_it_is() -> None:
    outcome = toy_tuning()
    matched = re.search(r"more than ([\d.]+)\u00a0% shorter", headroom_sentence(outcome))
    assert matched is not None and float(matched[1]) / 100 >= outcome.headroom - 1e-12


def test_errors_name_both_ways() -> None:
    message = errors_sentence(toy_tuning())
    assert re.search(r"longer|shorter", message) and re.search(r"(more|less) memory", message)


def test_an_own_plan_that_is_faster_is_told() -> None:
    outcome = toy_tuning()
    assert beaten_sentence(outcome).startswith("The scenario's own zero3 (")
    own = outcome.own[0]
    slow = OwnPlan(name="zero3", simulated=replace(own.simulated, step_s=1.0), fits=True)  # type: ignore[type-var]
    assert beaten_sentence(replace(outcome, own=(slow,))) == ""
    assert beaten_sentence(replace(outcome, own=(replace(own, fits=False),))) == ""
    assert own_words(outcome, replace(own, fits=False)).startswith("does not fit into memory; ")
    assert own_words(outcome, outcome.own[1]).startswith("not run: ")


def test_plans_of_one_layout_have_one_kind() -> None:
    kinds = {kind_of(plan.candidate) for plan in toy_tuning().plans}
    assert kinds == {"Megatron: tensor", "Megatron: tensor × stages"}
