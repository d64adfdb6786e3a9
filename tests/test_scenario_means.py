"""What a scenario means: settings, plans, sizes and defaults, and what is left out."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.scenario import load_scenario, parse_setting, refuse_variations, scenario_of
from simfrontier.workload import PRECISIONS, MlpShape, find_model
from tests.invoke import ROOT, TOY
from tests.scenario_files import SCENARIOS

DOCUMENT: dict[str, Any] = tomllib.loads(TOY.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=1.5", 1.5),
        ("a=true", True),
        ('a="1"', "1"),
        ("a=[1, 2]", [1, 2]),
        ("a=0.10.0", "0.10.0"),
        ("a=int8:64", "int8:64"),
        ("a= x y ", "x y"),
        ("a=", ""),
        ("a=" + "[" * 2000, "[" * 2000),
    ],
)
def test_a_setting_is_toml_or_a_bare_word(text: str, value: object) -> None:
    assert parse_setting(text) == ("a", value)


def test_an_mlp_is_named_or_of_ones_own() -> None:
    tiny = scenario_of(DOCUMENT, "toy.toml", {"model.name": "tiny-mlp", "model.hidden": 32}).shape
    assert tiny == replace(find_model("tiny-mlp"), hidden=32)
    sizes = {"num_layers": 3, "inputs": 8, "hidden": 16, "classes": 4}
    own = scenario_of(DOCUMENT, "toy.toml", {"model.name": "own", **{f"model.{k}": v for k, v in sizes.items()}}).shape
    assert own == MlpShape(name="own", source="scenario", **sizes)


def test_a_model_differs_in_what_is_set() -> None:
    settings = {
        "ffn_hidden": 96,
        "gated": True,
        "kv_heads": 2,
        "norm": "rmsnorm",
        "biases": False,
        "positions": "rotary",
        "embedding_norm": True,
        "causal": True,
        "vocabulary_multiple": 128,
        "dropout": True,
    }
    scenario = load_scenario(TOY, {"model.name": "tiny", **{f"model.{key}": value for key, value in settings.items()}})
    assert scenario.shape == replace(find_model("tiny"), **settings)  # type: ignore[type-var]
    back = load_scenario(TOY, {"model.name": "llama-3-8b", "model.gated": False, "model.biases": True})
    assert back.shape == replace(find_model("llama-3-8b"), gated=False, biases=True)  # type: ignore[type-var]


def test_the_precision_is_that_of_the_workload() -> None:
    assert scenario_of(DOCUMENT, "toy.toml").precision.model == "fp16"
    for name in ("tiny", "tiny-mlp"):
        scenario = scenario_of(DOCUMENT, "toy.toml", {"model.name": name, "model.precision": "fp64"})
        assert scenario.case("zero3", 4).workload.precision == scenario.precision == PRECISIONS["fp64"]


def test_settings_plans_and_sizes_replace_what_the_file_says() -> None:
    scenario = load_scenario(TOY, {"training.micro_batch": 4}, ("zeropp", "ddp"), (8, 4))
    assert scenario.file.training.micro_batch == 4
    assert list(scenario.plans) == ["zeropp", "ddp"]
    assert scenario.file.run.devices == [8, 4]
    assert str(scenario.plans["zeropp"].weight_codec) == "int8:64"  # type: ignore[attr-defined]


def test_a_family_that_the_file_does_not_list_has_its_defaults() -> None:
    document = {**DOCUMENT, "plans": {"ddp": {}}}
    assert str(scenario_of(document, "f", plans=("zeropp",)).plans["zeropp"].weight_codec) == "int8:6144"  # type: ignore[attr-defined]


def test_a_document_is_not_changed_by_what_is_set() -> None:
    before = repr(DOCUMENT)
    scenario_of(DOCUMENT, "f", {"engine.overlap": False}, ("ddp",))
    assert repr(DOCUMENT) == before


def test_a_setting_of_every_plan_is_one_of_each_at_every_size() -> None:
    """`plans.*`: of all plans of the file; what a single size says of it holds no more, and what else it says does."""
    sized = {"at": {"8": {"plans": {"zero3": {"micro_batch": 5}, "ddp": {"grad_accum": 2}}}}}
    scenario = scenario_of({**DOCUMENT, **sized}, "f", {"plans.*.micro_batch": 3})
    assert {name: plan.micro_batch for name, plan in scenario.plans.items()} == dict.fromkeys(DOCUMENT["plans"], 3)
    assert scenario.case("zero3", 8).options.micro_batch == 3
    assert scenario.case("ddp", 8).options.grad_accum == 2 and scenario.case("ddp", 4).options.grad_accum is None
    chosen = scenario_of(DOCUMENT, "f", {"plans.*.micro_batch": 3, "plans.ddp.micro_batch": 4}, ("ddp", "zero3"))
    assert {name: plan.micro_batch for name, plan in chosen.plans.items()} == {"ddp": 4, "zero3": 3}


def test_a_setting_of_every_plan_that_one_does_not_know_names_it() -> None:
    with pytest.raises(InputError, match=r"^f: plans\.zero3\.tensor: unknown key; allowed: attention, checkpointing, "):
        scenario_of(DOCUMENT, "f", {"plans.*.tensor": 2})


def test_a_setting_of_every_plan_is_one_of_a_family_s_own_plan_too() -> None:
    """`megatron` is no plan of the file: its name alone means its defaults, and what is set of all."""
    scenario = scenario_of(DOCUMENT, "f", {"plans.*.micro_batch": 3}, ("megatron", "ddp"))
    assert {name: plan.micro_batch for name, plan in scenario.plans.items()} == {"megatron": 3, "ddp": 3}


def test_dotted_overrides_are_keys_of_the_machine_and_the_library() -> None:
    scenario = load_scenario(
        TOY, {"machine.overrides.link_classes.nic.share": 0.5, "library.overrides.num_channels": 16}
    )
    assert scenario.machine.link_classes["nic"].share == 0.5
    assert scenario.library.num_channels == 16
    assert {p.key: p.kind for p in scenario.library.provenance()}["num_channels"] == "assumed"


def test_the_sensitivity_of_plans_that_are_not_run_is_left_out() -> None:
    path = ROOT / "scenarios" / "frontier-20b.toml"
    assert load_scenario(path).file.sensitivity is not None
    assert load_scenario(path, plans=("zero3", "zero-topo")).file.sensitivity is None


def test_a_size_off_the_mesh_is_refused_when_asked_for() -> None:
    with pytest.raises(InputError, match="3 devices do not fill"):
        load_scenario(TOY).mesh(3)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_and_all_its_variations_can_be_made(path: Path) -> None:
    refuse_variations(load_scenario(path))


def test_published_figures_of_plans_that_are_not_run_stay() -> None:
    published = {"source": "x", "ratios": {"zero3": 1.0, "my-own": 2.0}}
    assert scenario_of({**DOCUMENT, "published": published}, "f", plans=("zero3",)).file.published is not None
