"""What other stacks and states of a library would change: factors by hand, the band over them, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.collectives import environments_of, libraries, load_library
from simfrontier.experiments import environment_of
from simfrontier.plan import FAMILIES
from simfrontier.report import StudyView, findings_of
from simfrontier.report.page import study_page
from simfrontier.scenario import Scenario, load_scenario, scenario_of
from simfrontier.stack import load_stack, stacks_of
from simfrontier.study import run_study
from simfrontier.tuning import GridSearcher
from tests.invoke import invoke

TABLES: dict[str, Any] = {
    "name": "small",
    "title": "Small",
    "machine": {"name": "frontier"},
    "model": {"name": "gpt-neox-20b", "num_layers": 4},
    "run": {"devices": [16]},
    "plans": {
        "zero3": {},
        "megatron": {"tensor": 4},
        "lattice": {"weight": ["gcd"], "accumulator": [], "optimizer": []},
    },
}


def scenario(**more: Any) -> Scenario:
    return scenario_of({**TABLES, **more}, "small.toml")


def step_s(made: Scenario, plan: str) -> float:
    """The median step of a plan in a study of its own."""
    return float(next(each for each in run_study(made).outcomes if each.plan == plan).row["step_time_s"])


def test_a_factor_is_the_step_with_it_over_the_step_without() -> None:
    found = environment_of(scenario(), 16)
    assert found is not None
    assert {plan: title.partition(":")[0] for plan, title in found.stacks.items()} == {
        "zero3": "deepspeed",
        "megatron": "megatron-core",
        "lattice": "deepspeed",
    }
    assert (found.library, found.devices) == ("rccl", 16)
    by_value = {each.value: each for each in found.alternatives}
    for value, more in (
        ("none", {"stack": "none"}),
        ("fsdp2", {"stack": "fsdp2"}),
        ("megatron", {"stack": "megatron"}),
        ("rccl-sockets", {"library": {"name": "rccl-sockets"}}),
    ):
        for plan, factor in by_value[value].factors.items():
            assert factor == pytest.approx(step_s(scenario(**more), plan) / step_s(scenario(), plan), rel=1e-12)


def test_a_factor_is_of_the_machine_as_the_scenario_has_it() -> None:
    """With a slow device, on which the step with any library takes longer."""
    more: dict[str, Any] = {"perturbation": {"slow": [{"device": 0, "factor": 0.3}]}}
    plans = {"plans": {"zero3": {}}}
    found, healthy = (environment_of(scenario(**plans, **each), 16) for each in (more, {}))
    assert found is not None and healthy is not None
    ours, theirs = (
        next(each for each in one.alternatives if each.value == "rccl-sockets").factors["zero3"]
        for one in (found, healthy)
    )
    own, other = (
        step_s(scenario(**plans, **more, **each), "zero3") for each in ({}, {"library": {"name": "rccl-sockets"}})
    )
    assert ours == pytest.approx(other / own, rel=1e-12) and ours != pytest.approx(theirs, rel=0.05)


def test_a_plan_is_tried_with_the_stacks_that_people_run_it_with() -> None:
    found = environment_of(scenario(), 16)
    assert found is not None
    with_stack = {
        plan: {e.value for e in found.alternatives if e.key == "stack" and plan in e.factors} for plan in found.bands
    }
    assert with_stack == {
        "zero3": {"none", *stacks_of("zero3")} - {"deepspeed"},
        "megatron": {"none", *stacks_of("megatron")} - {"megatron-core"},
        "lattice": {"none"},
    }
    assert {family for each in ("deepspeed", "axonn") for family in load_stack(each).families} <= set(FAMILIES)
    named = environment_of(scenario(stack="deepspeed"), 16)
    assert named is not None and {title.partition(":")[0] for title in named.stacks.values()} == {"deepspeed"}
    assert "deepspeed" not in {each.value for each in named.alternatives}


def test_a_band_holds_what_is_assumed_and_all_alternatives() -> None:
    found = environment_of(scenario(), 16)
    assert found is not None
    for plan, (low, high) in found.bands.items():
        factors = [each.factors[plan] for each in found.alternatives if plan in each.factors]
        assert (low, high) == (min(1.0, *factors), max(1.0, *factors))
    assert found.bands["zero3"][1] > 2.0  # sockets: a tenth of the bandwidth between two nodes


def test_states_of_a_library_are_said_by_their_files() -> None:
    assert environments_of("rccl") == ("rccl-no-gdr", "rccl-sockets")
    assert environments_of("gloo") == ()
    assert {load_library(name).environment_of for name in libraries()} == {None, "rccl"}


def test_nothing_is_said_where_nothing_is_known() -> None:
    alone = {"plans": {"lattice": TABLES["plans"]["lattice"]}, "library": {"name": "rccl-sockets"}, "stack": "none"}
    assert environment_of(scenario(**alone), 16) is None


def test_page_and_findings_say_it() -> None:
    made = scenario(plans={"zero3": {}})
    found = environment_of(made, 16)
    view = StudyView(study=run_study(made), environment=found)
    told = findings_of(view)
    assert told["environment"] is found
    text = study_page(told, view)
    assert '<section id="environment">' in text and "rccl-sockets" in text
    without = replace(view, environment=None)
    assert '<section id="environment">' not in study_page(findings_of(without), without)


def test_run_prints_what_it_assumes(tmp_path: Any) -> None:
    said = invoke("run", "scenarios/toy.toml", "--plans", "zero3", "--devices", "8", "--out", str(tmp_path / "a")).out
    assert "Assumed: steps of 8 sequences" in said and "no stack (kernels as fused as the model); library rccl." in said
    assert "(rccl-sockets)" in said
    silent = invoke(
        "run",
        "scenarios/toy.toml",
        "--plans",
        "zero3",
        "--devices",
        "8",
        "--no-sensitivity",
        "--out",
        str(tmp_path / "b"),
    )
    assert "Assumed" in silent.out and "rccl-sockets" not in silent.out


def test_memory_that_a_stack_reserves_is_not_there_for_tensors() -> None:
    own = load_stack("megatron-deepspeed")
    free = scenario().machine.device.hbm_bytes
    assert scenario(stack="megatron-deepspeed").machine.device.hbm_bytes == free - own.memory.reserved_bytes < free


def test_a_grid_that_was_searched_for_stays() -> None:
    """The plan says no tensor parallelism of its own; the search has found some, and alternatives are of that, with the
    keys that it was found with."""
    plans = {"megatron": {"search": {"values": {"tensor": [4]}}}}
    made = GridSearcher().complete(scenario(plans=plans), lambda _: None)
    found, fixed = environment_of(made, 16), environment_of(scenario(plans={"megatron": {"tensor": 4}}), 16)
    assert found is not None and fixed is not None
    for ours, theirs in zip(found.alternatives, fixed.alternatives, strict=True):
        assert ours.value == theirs.value
        assert ours.factors == pytest.approx(theirs.factors, rel=1e-12)


def test_some_plans_of_a_scenario_that_compares_more_have_the_same_alternatives() -> None:
    every = load_scenario("scenarios/frontier-20b.toml", devices=(64,))
    some = load_scenario("scenarios/frontier-20b.toml", plans=("zero3",), devices=(64,))
    whole, part = environment_of(every, 64), environment_of(some, 64)
    assert whole is not None and part is not None
    ours = {each.value: each.factors["zero3"] for each in part.alternatives}
    assert len(ours) >= 5
    assert ours == {each.value: each.factors["zero3"] for each in whole.alternatives if "zero3" in each.factors}


def test_an_alternative_has_nothing_of_the_stack_that_is_named() -> None:
    """megatron-core's plan keys, sequence parallelism and overlaps, are not megatron's."""
    plans = {"megatron": {"tensor": 4}}
    found = environment_of(scenario(plans=plans, stack="megatron-core"), 16)
    assert found is not None
    (other,) = (each for each in found.alternatives if each.value == "megatron")
    own, theirs = (step_s(scenario(plans=plans, stack=name), "megatron") for name in ("megatron-core", "megatron"))
    assert other.factors["megatron"] == pytest.approx(theirs / own)
    assert scenario(plans=plans, stack="megatron-core").plans["megatron"].sequence_parallel  # type: ignore[attr-defined]
