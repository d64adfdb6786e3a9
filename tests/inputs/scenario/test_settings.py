"""Settings, overrides, calibrations and meshes of a scenario, and what plans take from its model."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Calibration, CallTable, MeasuredPoint, write_calibration
from simfrontier.core.workload import find_model
from simfrontier.inputs.scenario import load_scenario, parse_setting, refuse_variations, scenario_of
from simfrontier.inputs.scenario.form import ModelTable
from simfrontier.inputs.scenario.parts import shape_of
from tests.invoke import ROOT, TOY
from tests.scenario_files import SCENARIOS

DOCUMENT: dict[str, Any] = tomllib.loads(TOY.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ('a="1"', "1"),
        ("a=[1, 2]", [1, 2]),
        ("a=0.10.0", "0.10.0"),
        ("a=int8:64", "int8:64"),
        ("a= x y ", "x y"),
    ],
)
def test_a_setting_is_toml_or_a_bare_word(text: str, value: object) -> None:
    assert parse_setting(text) == ("a", value)


def test_a_model_differs_in_what_is_set() -> None:
    settings = {
        "ffn_hidden": 96,
        "gated": True,
        "kv_heads": 2,
        "head_dim": 8,
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


@pytest.mark.parametrize(
    "setting", [{"capacity": 1.5}, {"router": "sigmoid"}, {"expert_clamp": True}, {"narrow_products": "experts"}]
)
def test_settings_of_experts_that_a_model_lacks_are_refused(setting: dict[str, Any]) -> None:
    (key,) = setting
    with pytest.raises(InputError, match=f"model.{key}: llama-3-8b has no experts; missing: model.experts"):
        shape_of(ModelTable(name="llama-3-8b", linear_precision="fp8", **setting))


def test_a_setting_of_every_plan_is_one_of_each_at_every_size() -> None:
    """`plans.*`: of all plans of the file; what a single size says of it holds no more, and what else it says does."""
    sized = {"at": {"8": {"plans": {"zero3": {"micro_batch": 5}, "ddp": {"grad_accum": 2}}}}}
    scenario = scenario_of({**DOCUMENT, **sized}, "f", {"plans.*.micro_batch": 3})
    assert {name: plan.micro_batch for name, plan in scenario.plans.items()} == dict.fromkeys(DOCUMENT["plans"], 3)
    assert scenario.case("zero3", 8).options.micro_batch == 3
    assert scenario.case("ddp", 8).options.grad_accum == 2 and scenario.case("ddp", 4).options.grad_accum is None
    chosen = scenario_of(DOCUMENT, "f", {"plans.*.micro_batch": 3, "plans.ddp.micro_batch": 4}, ("ddp", "zero3"))
    assert {name: plan.micro_batch for name, plan in chosen.plans.items()} == {"ddp": 4, "zero3": 3}


def test_dotted_overrides_are_keys_of_the_machine_and_the_library() -> None:
    scenario = load_scenario(
        TOY, {"machine.overrides.link_classes.nic.share": 0.5, "library.overrides.num_channels": 16}
    )
    assert scenario.machine.link_classes["nic"].share == 0.5
    assert scenario.library.num_channels == 16
    assert {p.key: p.kind for p in scenario.library.provenance()}["num_channels"] == "assumed"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_and_all_its_variations_can_be_made(path: Path) -> None:
    refuse_variations(load_scenario(path))


CROSSCHECK = ROOT / "scenarios" / "crosscheck.toml"
KNOWN = Calibration(
    title="gloo on test",
    where="test, 2 cores",
    when="2026-11-21",
    how="by hand",
    machine={"device.hbm_bytes_per_s": 7e9},
    library={"ring.base_s": 1e-3},
    calls=(
        CallTable(
            kind="all_gather",
            ranks=8,
            nodes=1,
            packages=8,
            points=(MeasuredPoint(bytes=1000, seconds=1e-6),),
            residual=0.1,
        ),
    ),
)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The cross-check's scenario in a folder of its own, with a calibration beside it."""
    write_calibration(KNOWN, tmp_path / "cal.toml")
    return Path(shutil.copy(CROSSCHECK, tmp_path / "mine.toml"))


def test_overrides_of_the_scenario_win(scenario: Path) -> None:
    settings = {
        "library.calibration": "cal.toml",
        "machine.overrides.device.hbm_bytes_per_s": 1e9,
        "library.overrides.ring.base_s": 5e-3,
    }
    loaded = load_scenario(scenario, settings)
    assert (loaded.machine.device.hbm_bytes_per_s, loaded.library.ring.base_s) == (1e9, 5e-3)


BASE: dict[str, Any] = {
    "name": "softmax",
    "title": "softmax",
    "machine": {"name": "frontier"},
    "model": {"name": "tiny"},
    "run": {"devices": [2], "fidelity": "analytic"},
}


def test_plans_take_the_models_kernel_and_attention_unless_they_say_otherwise() -> None:
    document = {**BASE, "plans": {"ddp": {}, "own": {"family": "ddp", "softmax": "fused", "attention": "plain"}}}
    settings = {"model.softmax": "two-pass", "model.attention": "fused"}
    scenario = scenario_of(document, "x.toml", settings)
    cases = [scenario.case(plan, 2) for plan in ("ddp", "own")]
    assert [(case.softmax, case.attention) for case in cases] == [("two-pass", "fused"), ("fused", "plain")]
    assert [dict(case.workload.traits).get("softmax") for case in cases] == ["two-pass", None]
