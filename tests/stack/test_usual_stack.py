"""The stack that a plan runs by where its scenario names none, and where it is said."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from simfrontier.plan import FAMILIES
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.stack import USUAL as BY_FAMILY, load_stack, usual_stack
from simfrontier.study import run_study
from tests.invoke import invoke
from tests.report.test_page import Page

USUAL = {
    **dict.fromkeys(("zero1", "zero2", "zero3", "zeropp", "zero-topo"), "deepspeed"),
    "hsdp": "fsdp2",
    "megatron": "megatron-core",
    "axonn": "axonn",
}
PLANS: dict[str, Any] = {"zero3": {}, "hsdp": {}, "pipe": {"family": "megatron", "tensor": 2}}


def scenario(**more: Any) -> Scenario:
    document = {
        "name": "stacks",
        "title": "Stacks",
        "machine": {"name": "frontier"},
        "model": {"name": "tiny"},
        "run": {"devices": [16]},
        "plans": PLANS,
    }
    return scenario_of({**document, **more}, "stacks.toml")


@pytest.mark.parametrize(("family", "name"), USUAL.items())
def test_a_family_runs_by_the_stack_that_people_run_it_with(family: str, name: str) -> None:
    stack = usual_stack(family)
    assert stack is not None and stack.name == name
    assert family in load_stack(name).families


def test_every_family_has_one() -> None:
    assert [family for family in FAMILIES if usual_stack(family) is None] == []


def test_the_document_of_stacks_says_the_same() -> None:
    table = (
        Path("docs/stacks.md").read_text(encoding="utf-8").partition("| family of the plan |")[2].partition("\n\n")[0]
    )
    said = {}
    for families, name in re.findall(r"^\| (`.*?) \| `([\w-]+)`", table, re.M):
        said |= dict.fromkeys(re.findall(r"`([\w-]+)`", families), name)
    assert said == BY_FAMILY == {**USUAL, "ddp": "fsdp1-flash2", "lattice": "deepspeed"}


@pytest.mark.parametrize("plan", PLANS)
def test_the_default_is_the_run_that_names_that_stack(plan: str) -> None:
    default = run_study(scenario())
    stack = usual_stack(scenario().plans[plan].family)
    assert stack is not None
    (named,) = run_study(scenario(stack=stack.name)).of(plan)
    (own,) = default.of(plan)
    against = {"speedup": ""}  # another stack changes the first plan, too
    assert own.row | against == named.row | against and own.row["stack"] == stack.name


def test_none_is_kernels_as_fused_as_the_model_on_the_machine_as_it_is() -> None:
    of = scenario(stack="none")
    assert of.of("zero3", 16).machine == of.machine and of.of("zero3", 16).stack is None
    own, none = (run_study(each).of("zero3")[0].row for each in (scenario(), of))
    assert none["stack"] == "none" and own["step_time_nominal_s"] != none["step_time_nominal_s"]
    assert scenario().of("zero3", 16).machine == load_stack("deepspeed").on(of.machine)


def test_what_the_scenario_says_wins_over_the_stack_of_each_plan() -> None:
    """Stacks have options of engine and plans; one that differs from what the scenario says."""
    own = load_stack("megatron-core").plans["megatron"]
    key, value = next(iter(own.items()))
    assert getattr(scenario().of("pipe", 16).plans["pipe"], key) == value
    assert getattr(scenario(stack="none").of("pipe", 16).plans["pipe"], key) != value


def test_table_page_findings_and_csv_say_the_stack_of_each_plan(tmp_path: Path) -> None:
    file = tmp_path / "stacks.toml"
    file.write_text(
        'name = "stacks"\ntitle = "Stacks"\nmachine.name = "frontier"\nmodel.name = "tiny"\nrun.devices = [16]\n'
        "[plans.zero3]\n[plans.hsdp]\n[plans.megatron]\ntensor = 2\n"
    )
    wanted = {"zero3": "deepspeed", "hsdp": "fsdp2", "megatron": "megatron-core"}
    done = invoke("run", file, "--out", tmp_path / "out")
    lines = [line.split() for line in done.out.replace("│", " ").splitlines()]
    rows = [line for line in lines if len(line) == 3 and line[0] in wanted]
    assert {plan: stack for plan, stack, _ in rows} == wanted
    with (tmp_path / "out" / "results.csv").open(newline="", encoding="utf-8") as table:
        assert {row["plan"]: row["stack"] for row in csv.DictReader(table)} == wanted
    found = json.loads((tmp_path / "out" / "findings.json").read_text(encoding="utf-8"))
    assert found["setup"]["stacks"] == wanted
    words = Page((tmp_path / "out" / "index.html").read_text(encoding="utf-8")).words
    said = "stacks: zero3 deepspeed; hsdp fsdp2; megatron megatron-core"
    assert said in " ".join(words.split()) and said in done.out
