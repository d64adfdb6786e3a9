"""Advice on plans: a grid that was left at its default, and settings with which the memory of a plan would do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

import simfrontier
from tests.invoke import invoke

LONG = {"model.sequence": 65536}  # scores of attention fill memory: batch × heads × sequence² numbers


def row_of(plan: str, settings: Mapping[str, Any], devices: int = 128, model: str = "gpt-20b") -> Mapping[str, Any]:
    scenario = simfrontier.new_scenario(
        "frontier", model, plan, devices=devices, settings={"uncertainty.samples": 0, **settings}
    )
    study = simfrontier.compare(scenario).study
    (outcome,) = study.outcomes
    return outcome.row


def settings_in(note: str) -> dict[str, str]:
    """The settings that a note names, as `--set key=value` or `key = "value"`."""
    told = re.findall(r'--set (\S+)=(\d+)|((?:model|plans)\.\S+) = "(\w+)"', note)
    return {key or other: int(value) if value else word for key, value, other, word in told}


@pytest.mark.parametrize("plan", ["zero3", "megatron"])
def test_scores_that_do_not_fit_name_fused_attention(plan: str) -> None:
    row = row_of(plan, {**LONG, "plans.megatron.tensor": 8} if plan == "megatron" else LONG)
    assert not row["fits"] and settings_in(row["note"]) == {"model.attention": "fused"}


def test_the_memory_with_what_is_named_is_that_of_a_run_with_it() -> None:
    note = row_of("zero3", LONG)["note"]
    (told,) = re.findall(r"it needs about ([\d.]+) GB", note)
    row = row_of("zero3", {**LONG, **settings_in(note)})
    assert row["fits"] and row["peak_memory_bytes"] == pytest.approx(float(told) * 1e9, rel=0.05)


def test_kept_activations_name_checkpointing() -> None:
    kept = {"model.checkpointing": "none", "training.micro_batch": 16}
    note = row_of("zero3", kept)["note"]
    assert settings_in(note) == {"model.checkpointing": "full"}
    assert row_of("zero3", {**kept, **settings_in(note)})["fits"]


def test_a_setting_of_the_plan_is_named_as_such() -> None:
    note = row_of("zero3", {**LONG, "plans.zero3.attention": "plain"})["note"]
    assert settings_in(note) == {"plans.zero3.attention": "fused"}


def test_states_that_do_not_fit_name_no_attention() -> None:
    row = row_of("ddp", {"training.micro_batch": 1})
    assert not row["fits"] and "attention" not in row["note"] and "checkpointing" not in row["note"]


@pytest.mark.parametrize("plan", ["megatron", "axonn"])
def test_a_default_grid_that_does_not_fit_names_one_that_does(plan: str) -> None:
    note = row_of(plan, {}, 1024, "gpt-175b")["note"]
    assert "pipeline = 1 (the default)" in note
    grid = settings_in(note)
    assert grid and row_of(plan, grid, 1024, "gpt-175b")["fits"]


def test_a_default_grid_that_fits_is_told_too() -> None:
    row = row_of("megatron", {"model.num_layers": 2}, 16)
    assert row["fits"] and row["note"] == "tensor = 1, pipeline = 1 (the default); try --set plans.megatron.tensor=8"


def test_a_chosen_grid_is_no_default() -> None:
    assert row_of("megatron", {"model.num_layers": 2, "plans.megatron.tensor": 1}, 16)["note"] == ""


def test_compare_tells_the_default_grid(tmp_path: Any) -> None:
    given = ("--machine", "frontier", "--model", "gpt-13b", "--plans", "megatron", "--devices", "16")
    ran = invoke("compare", *given, "--set", "model.num_layers=2", "--out", tmp_path / "out")
    told = "megatron: tensor = 1, pipeline = 1 (the default); try --set plans.megatron.tensor=8."
    assert told in ran.out and told in (tmp_path / "out" / "index.html").read_text()


def test_explain_says_the_same(tmp_path: Any) -> None:
    scenario = tmp_path / "long.toml"
    scenario.write_text(
        'name = "long"\ntitle = "long"\nmachine.name = "frontier"\nmodel.name = "gpt-20b"\nmodel.sequence = 65536\n'
        "run.devices = [128]\n[plans.zero3]\n"
    )
    ran = invoke("explain", scenario, "--plan", "zero3")
    assert ran.code == 1 and settings_in(ran.err) == {"model.attention": "fused"}
