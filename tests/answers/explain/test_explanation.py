"""Explanations: every answer is the step of a scenario with those settings; what the command prints and writes."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from math import fsum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.answers.explain import DoesNotFitError, Explanation, TriedChange, explain
from simfrontier.answers.explain.changes import setting_text
from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.core.engine.memory import fullest
from simfrontier.inputs.scenario import Scenario, load_scenario, parse_setting
from simfrontier.interfaces.report.explanation import explanation_page
from tests.interfaces.report.test_page import Page
from tests.invoke import TOY, invoke


def toy(*plans: str, devices: int = 8, **settings: Any) -> Scenario:
    return load_scenario(TOY, settings, plans, (devices,))


@cache
def of_toy(plan: str) -> Explanation:
    """The toy scenario's plan on 8 devices, explained, zero3 against zero-topo."""
    return explain(load_scenario(TOY), plan, devices=8, against="zero-topo" if plan == "zero3" else None)


_SHOP = ScheduleCache()


def ran(scenario: Scenario, plan: str, devices: int) -> tuple[float, int]:
    """The step and the peak of a plan, as `run` has them."""
    built = _SHOP.get(scenario, plan, devices)
    step = simulated(scenario.of(plan, devices), built, scenario.file.run.fidelity)
    return step.step_s, fullest(step, built.peaks).peak_bytes


def told(change: TriedChange) -> dict[str, Any]:
    return dict(map(parse_setting, change.settings))


@pytest.mark.parametrize("plan", ["zero3", "zero-topo"])
def test_each_change_is_the_step_of_the_scenario_with_its_settings(plan: str) -> None:
    result = of_toy(plan)
    assert result.step_s == ran(toy(plan), plan, 8)[0]
    assert len(result.changes) > 8
    for change in result.changes[:: 1 if plan == "zero3" else 5]:  # each is a simulation: of some plans every fifth
        assert (change.step_s, change.peak_bytes) == ran(toy(plan, **told(change)), plan, 8), change
        assert change.saved_s == result.step_s - change.step_s
        assert change.share == change.saved_s / result.step_s
        assert change.fits


QUICK = ("--fidelity", "analytic", "--devices", "8")


def document(*more: str | Path) -> dict[str, Any]:
    ran = invoke("explain", TOY, *QUICK, "--json", *more)
    assert (ran.code, ran.err) == (0, "")
    known: dict[str, Any] = json.loads(ran.out)
    return known


def test_json_has_everything() -> None:
    known = document("--plan", "zero3", "--against", "zero-topo")
    assert (known["plan"], known["devices"], known["fidelity"]) == ("zero3", 8, "analytic")
    assert fsum(part["seconds"] for part in known["parts"]) == pytest.approx(known["step_s"], rel=1e-9)
    links = known["links"]
    assert (links[0]["start_s"], links[-1]["end_s"]) == (0.0, known["step_s"])
    assert {"name", "kind", "axes", "level", "lane", "call", "layer", "micro", "role"} <= {*links[0]}
    saved = [change["saved_s"] for change in known["changes"]]
    assert saved == sorted(saved, reverse=True) and len(saved) > 8
    other = known["against"]
    difference = fsum(each["seconds"] for each in other["differences"])
    assert difference == pytest.approx(known["step_s"] - other["step_s"], rel=1e-9)


def test_without_a_plan_all_are_compared_with_the_next_best() -> None:
    known = document("--no-what-if")
    steps = [each["step_s"] for each in known["ranking"]]
    assert (len(steps), steps) == (8, sorted(steps))
    assert (known["plan"], known["against"]) == (known["ranking"][0]["plan"], known["ranking"][0]["next"])
    for each, after in pairwise(known["ranking"]):
        assert each["next"]["plan"] == after["plan"] and each["next"]["parts"] == after["parts"]
        difference = fsum(part["seconds"] for part in each["next"]["differences"])
        assert difference == pytest.approx(each["step_s"] - after["step_s"], abs=1e-9 * each["step_s"])
    assert known["ranking"][-1]["next"] is None and known["left_out"] == {}
    ran = invoke("explain", TOY, "--no-what-if", *QUICK)
    assert "The 8 plans, each against the next best" in ran.out
    for each in known["ranking"][:-1]:
        assert ran.out.count(f"{each['plan']} is {each['next']['sentence']}.\n") == 1


def figures(page: str) -> dict[str, Any]:
    return {name: next(iter(json.loads(text).values())) for name, text in Page(page).data.items()}


def test_the_page_has_its_charts_and_the_same_text_again() -> None:
    result = of_toy("zero3")
    page = explanation_page(result)
    assert page == explanation_page(result)
    drawn = figures(page)
    assert {*drawn} == {"fig-parts", "fig-strip", "fig-changes", "fig-both", "fig-waterfall"}
    bars = drawn["fig-parts"]["data"]
    assert fsum(bar["x"][0] for bar in bars) == pytest.approx(result.step_s, rel=1e-8)
    strip = drawn["fig-strip"]["data"]
    for column in zip(*(trace["y"] for trace in strip), strict=True):
        assert sum(column) == pytest.approx(1.0, abs=2e-3)  # at any time the path is in something
    changes = drawn["fig-changes"]["data"]
    assert sum(len(trace["y"]) for trace in changes) == len(result.changes)
    fall = drawn["fig-waterfall"]["data"][0]
    assert fsum(fall["x"][:-1]) == pytest.approx(fall["x"][-1], rel=1e-7)  # the last fall ends at the step
    for change in result.changes:
        assert change.label.replace("'", "&#x27;") in page


def test_the_page_names_plans_that_are_not_compared() -> None:
    """Also beside one plan that was asked for, where plans are not ranked."""
    uneven = {"plans.uneven": {"family": "megatron", "tensor": 5}}
    result = explain(load_scenario(TOY, uneven, laid_out=False), "zero3", devices=8, what_if=False)
    assert result.ranking == () and "Not compared: uneven (tensor = 5" in explanation_page(result)


def test_a_plan_that_does_not_fit_ends_with_1(tmp_path: Path) -> None:
    small = ("--set", "machine.overrides.device.hbm_bytes=2e5")
    ran = invoke("explain", TOY, "--plan", "ddp", *small, *QUICK, "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    with pytest.raises(DoesNotFitError, match=r"plans\.ddp: at 8 devices: does not fit into memory: needs "):
        explain(load_scenario(TOY, {"machine.overrides.device.hbm_bytes": 2e5}), "ddp", devices=8)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62)
# no control characters: neither files nor --set take them
WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]), max_size=12)
VALUES = st.recursive(
    NUMBERS | st.booleans() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_a_value_is_read_back_as_it_is(value: Any) -> None:
    key, result = parse_setting(setting_text("plans.mine.key", value))
    assert (key, result, type(result)) == ("plans.mine.key", value, type(value))


def test_the_other_ways_of_keys_and_values_are_tried() -> None:
    settings = {"model.positions": "rotary", "model.attention": "fused", "plans.megatron.context": 2}
    tried = explain(toy("megatron", **settings), "megatron", devices=8).changes
    ways = {setting for each in tried for setting in each.settings if "context_by" in setting}
    assert ways == {"plans.megatron.context_by=gather", "plans.megatron.context_by=heads"}
