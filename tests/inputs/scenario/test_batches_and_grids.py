"""Batches, micro-batches and grids of plans, and tables of single sizes, as a scenario says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.search import GridSearcher
from simfrontier.answers.study import run_study
from simfrontier.core.workload import GptShape
from simfrontier.inputs.scenario import Scenario, load_scenario, scenario_of
from simfrontier.inputs.scenario.case import Case
from simfrontier.interfaces.report.view import StudyView
from tests.invoke import TOY

# The toy scenario's model: tiny, 2 layers, hidden 64, 4 heads, vocabulary 256, sequence 32; nodes of 4 devices.


def loaded(plan: str, settings: dict[str, Any], devices: tuple[int, ...] = (8,)) -> Scenario:
    every = {key if "." in key else f"plans.{plan}.{key}": value for key, value in settings.items()}
    return load_scenario(TOY, every, (plan,), devices)


def case(plan: str, settings: dict[str, Any], devices: int = 8) -> Case:
    return loaded(plan, settings, (devices,)).case(plan, devices)


@pytest.mark.parametrize(
    ("plan", "settings", "ranks", "micro_batch", "grad_accum"),
    [
        ("axonn", {"x": 2, "z": 2}, 4, 1, 1),  # data 2 × z 2
        ("axonn", {"x": 2, "training.micro_batch": 3, "training.grad_accum": 2}, 4, 3, 2),
        ("axonn", {"x": 2, "training.micro_batch": 3, "micro_batch": 2, "grad_accum": 5}, 4, 2, 5),  # the plan's own
        ("axonn", {"x": 2, "z": 2, "training.batch": 48}, 4, 1, 12),  # 48 / 4 sequences of a rank, one at a time
        ("axonn", {"x": 2, "training.batch": 48, "grad_accum": 3}, 4, 4, 3),
        ("megatron", {"tensor": 2, "pipeline": 2, "training.batch": 16}, 2, 1, 8),
        ("zero3", {"training.batch": 16, "training.micro_batch": 2}, 8, 2, 1),
    ],
)
def test_batch_and_micro_batches(
    plan: str, settings: dict[str, Any], ranks: int, micro_batch: int, grad_accum: int
) -> None:
    got = case(plan, settings)
    assert (got.batch_ranks, got.micro_batch, got.grad_accum) == (ranks, micro_batch, grad_accum)
    assert got.samples == ranks * micro_batch * grad_accum
    assert got.workload.batch == ranks * micro_batch
    if "training.batch" in settings:
        assert got.samples == settings["training.batch"]


def test_axonn_s_mesh_is_x_y_z_stages_data_and_megatron_s_tensor_data_stages() -> None:
    """Fastest last; nodes of 4 devices in packages of 2. What a grid leaves of a package or a node is an axis."""
    assert case("axonn", {"x": 2, "z": 2, "pipeline": 2}, 16).mesh.axes == (
        ("data", 2),
        ("package", 1),
        ("gcd", 1),
        ("stage", 2),
        ("z", 2),
        ("y", 1),
        ("x", 2),
    )
    assert case("megatron", {"tensor": 2, "pipeline": 2}, 16).mesh.axes == (
        ("stage", 2),
        ("data", 2),
        ("package", 2),
        ("gcd", 1),
        ("tensor", 2),
    )


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


def test_a_size_has_its_own_model_batch_and_grid_and_the_others_keep_theirs() -> None:
    settings = {
        "at": {
            "16": {
                "model": {"num_layers": 4, "hidden": 128},
                "training": {"batch": 64},
                "plans": {"megatron": {"tensor": 4}},
            }
        },
        "training.batch": 32,
        "tensor": 2,
    }
    scenario = load_scenario(TOY, {"plans.megatron.tensor": settings.pop("tensor"), **settings}, ("megatron",), (8, 16))
    small, large = scenario.case("megatron", 8), scenario.case("megatron", 16)
    assert (small.shape.num_layers, small.shape.hidden, small.samples, small.mesh["tensor"]) == (2, 64, 32, 2)
    assert (large.shape.num_layers, large.shape.hidden, large.samples, large.mesh["tensor"]) == (4, 128, 64, 4)
    assert isinstance(large.shape, GptShape) and large.shape.heads == 4  # what the size does not say is the scenario's


def test_a_setting_holds_at_every_size_also_where_a_table_says_otherwise(tmp_path: Path) -> None:
    text = TOY.read_text() + "\n[plans.megatron]\n[at.16]\nmodel = { num_layers = 4, hidden = 128 }\n"
    path = tmp_path / "sized.toml"
    path.write_text(text + "plans.megatron.tensor = 4\n")

    def of(**settings: Any) -> tuple[int, int, int]:
        one = load_scenario(
            path, {key.replace("__", "."): each for key, each in settings.items()}, ("megatron",), (16,)
        )
        case = one.case("megatron", 16)
        assert isinstance(case.shape, GptShape)
        return case.shape.num_layers, case.shape.hidden, case.mesh["tensor"]

    assert of() == (4, 128, 4)
    assert of(model__num_layers=6) == (6, 128, 4)
    assert of(plans__megatron__tensor=2) == (4, 128, 2)
    assert of(at__16__model__num_layers=8, model__num_layers=6) == (8, 128, 4)  # of the size alone
