"""The sequences of a step that plans of a comparison have where their scenario does not say it."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.report import StudyView, assumed, findings_of, headline_of
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.study import run_study
from simfrontier.tuning import GridSearcher

PIPE = {"family": "megatron", "tensor": 2, "pipeline": 2}


def scenario(plans: dict[str, Any], devices: tuple[int, ...] = (8,), **tables: Any) -> Scenario:
    document = {
        "name": "batches",
        "title": "Batches",
        "machine": {"name": "toy-cluster"},
        "model": {"name": "tiny"},
        "run": {"devices": list(devices)},
        "plans": plans,
    }
    return scenario_of({**document, **tables}, "batches.toml")


def batches(of: Scenario, devices: int = 8) -> dict[str, tuple[int, int]]:
    """By plan, sequences of a step and micro-batches that each data-parallel rank takes them in."""
    cases = {plan: of.case(plan, devices) for plan in of.plans}
    return {plan: (case.samples, case.grad_accum) for plan, case in cases.items()}


def test_all_plans_have_the_batch_of_the_one_with_the_most_ranks_in_one_accumulation_step() -> None:
    """Of 8 devices, ZeRO-3 has 8 data-parallel ranks, tensor 2 × pipeline 2 has 2."""
    of = scenario({"zero3": {}, "pipe": PIPE}, (8, 16))
    assert batches(of, 8) == {"zero3": (8, 1), "pipe": (8, 4)}
    assert batches(of, 16) == {"zero3": (16, 1), "pipe": (16, 4)}


def test_micro_batches_stay_and_accumulation_follows() -> None:
    plans = {"zero3": {}, "pipe": PIPE, "large": {"family": "zero3", "micro_batch": 4}}
    of = scenario(plans, training={"micro_batch": 2})
    assert {plan: of.case(plan, 8).micro_batch for plan in plans} == {"zero3": 2, "pipe": 2, "large": 4}
    assert batches(of) == {"zero3": (32, 2), "pipe": (32, 8), "large": (32, 1)}


def test_one_plan_has_one_accumulation_step() -> None:
    assert batches(scenario({"pipe": PIPE})) == {"pipe": (2, 1)}


@pytest.mark.parametrize(
    ("training", "plans", "wanted"),
    [
        ({"grad_accum": 1}, {"zero3": {}, "pipe": PIPE}, {"zero3": (8, 1), "pipe": (2, 1)}),
        ({"micro_batch": 2, "grad_accum": 2}, {"zero3": {}, "pipe": PIPE}, {"zero3": (32, 2), "pipe": (8, 2)}),
        ({}, {"zero3": {}, "pipe": {**PIPE, "grad_accum": 2}}, {"zero3": (8, 1), "pipe": (4, 2)}),
        ({"batch": 32}, {"zero3": {}, "pipe": PIPE}, {"zero3": (32, 4), "pipe": (32, 16)}),
    ],
    ids=["accumulation", "both", "of a plan", "batch"],
)
def test_what_a_scenario_says_is_kept(
    training: dict[str, int], plans: dict[str, Any], wanted: dict[str, tuple[int, int]]
) -> None:
    assert batches(scenario(plans, training=training)) == wanted


def test_a_plan_that_is_searched_for_has_the_batch_of_the_others() -> None:
    search = {"family": "megatron", "search": {"values": {"tensor": [1, 2, 4]}}}
    of = scenario({"zero3": {}, "searched": search})
    assert of.shared_batch(8) == 8
    study = run_study(GridSearcher().complete(of))
    assert {o.plan: StudyView(study=study).samples_of(o) for o in study.outcomes} == {"zero3": 8, "searched": 8}


def test_the_line_of_assumptions_says_it_and_the_first_line_has_no_warning() -> None:
    view = StudyView(study=run_study(scenario({"zero3": {}, "pipe": PIPE})))
    assert headline_of(view).unequal_batches == {}
    setup = findings_of(view)["setup"]
    assert setup["batch_by_default"] and set(setup["samples"].values()) == {8}
    assert "steps of 8 sequences for every plan (by default)" in assumed(setup)
    view = StudyView(study=run_study(scenario({"zero3": {}, "pipe": PIPE}, training={"batch": 32})))
    assert "by default" not in assumed(findings_of(view)["setup"])
    view = StudyView(study=run_study(scenario({"zero3": {}, "pipe": PIPE}, training={"grad_accum": 1})))
    assert headline_of(view).unequal_batches == {"zero3": 8, "pipe": 2}
    assert not findings_of(view)["setup"]["batch_by_default"]
