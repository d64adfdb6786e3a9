"""The keys of scenarios for softmaxes and the loss: what names them, what is refused, and what plans take."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.scenario import scenario_of
from tests.report.studies import study

BASE: dict[str, Any] = {
    "name": "softmax",
    "title": "softmax",
    "machine": {"name": "frontier"},
    "model": {"name": "tiny"},
    "run": {"devices": [2], "fidelity": "analytic"},
}


@pytest.mark.parametrize(
    "settings",
    [{"model.softmax": "two-pass"}, {"plans.ddp.softmax": "two-pass"}, {"plans.mega.cross_entropy": "mn-merge"}],
    ids=str,
)
def test_one_plan_that_names_any_is_enough(settings: dict[str, Any]) -> None:
    document = {**BASE, "plans": {"ddp": {}, "mega": {"family": "megatron", "tensor": 2}}}
    assert not scenario_of(document, "x.toml").names_softmaxes
    assert scenario_of(document, "x.toml", settings).names_softmaxes


def test_a_study_that_names_none_does_not_count_them() -> None:
    assert all(outcome.softmaxes is None for outcome in study().outcomes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.softmax": "two-passes"}, 'model.softmax: got "two-passes", allowed: "fused", "two-pass", '),
        ({"plans.ddp.softmax": "one"}, 'plans.ddp.softmax: got "one", allowed: "fused", "two-pass", '),
        ({"plans.ddp.attention": "flash"}, 'plans.ddp.attention: got "flash", allowed: "plain" or "fused"'),
        ({"plans.mega.cross_entropy": "two"}, 'plans.mega.cross_entropy: got "two", allowed: "three-all-reduces", "f'),
        ({"plans.ddp.cross_entropy": "mn-merge"}, "plans.ddp.cross_entropy: unknown key; "),
        (
            {"plans.mega.data": {"family": "ddp", "softmax": "fused"}},
            "plans.mega.data.softmax: is of the plan as a whole: plans.mega.softmax",
        ),
    ],
    ids=str,
)
def test_what_is_not_allowed_is_told_in_one_line(settings: dict[str, Any], message: str) -> None:
    document = {**BASE, "plans": {"ddp": {}, "mega": {"family": "megatron", "tensor": 2}}}
    with pytest.raises(InputError, match=f"^x.toml: {re.escape(message)}") as caught:
        scenario_of(document, "x.toml", settings)
    assert "\n" not in str(caught.value)


def test_plans_take_the_models_kernel_and_attention_unless_they_say_otherwise() -> None:
    document = {**BASE, "plans": {"ddp": {}, "own": {"family": "ddp", "softmax": "fused", "attention": "plain"}}}
    settings = {"model.softmax": "two-pass", "model.attention": "fused"}
    scenario = scenario_of(document, "x.toml", settings)
    cases = [scenario.case(plan, 2) for plan in ("ddp", "own")]
    assert [(case.softmax, case.attention) for case in cases] == [("two-pass", "fused"), ("fused", "plain")]
    assert [dict(case.workload.traits).get("softmax") for case in cases] == ["two-pass", None]
