"""The page of a search: its charts hold what was found, and its words are true of it."""

from __future__ import annotations

import json
from math import fsum
from typing import Any

import pytest

from simfrontier.interfaces.report.tuning_page import tuning_page
from tests.answers.search.toys import toy_tuning
from tests.interfaces.report.test_page import Page


def figures(page: str) -> dict[str, Any]:
    return {name: next(iter(json.loads(text).values())) for name, text in Page(page).data.items()}


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


def test_parts_sum_to_the_nominal_steps_and_those_by_kind_to_the_best() -> None:
    outcome = toy_tuning()
    drawn = figures(tuning_page(outcome))
    for place, plan in enumerate(outcome.simulated):
        parts_s = fsum(bar["x"][place] for bar in drawn["fig-time"]["data"] if bar["type"] == "bar")
        assert parts_s == pytest.approx(plan.nominal_s, rel=1e-4)
    assert fsum(bar["x"][0] for bar in drawn["fig-best"]["data"]) == pytest.approx(outcome.time.step_s, rel=1e-9)
