"""The Python API: the same figures as the command line, loaded only when they are asked for."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simfrontier as sf
from simfrontier.answers.study import COLUMNS, run_study
from simfrontier.base.units import written
from simfrontier.inputs.scenario import load_scenario
from tests.invoke import invoke

TOY = Path(__file__).resolve().parents[1] / "scenarios" / "toy.toml"


def loaded_by(code: str) -> set[str]:
    """The modules of simfrontier that a fresh process has after running the code, and all it has."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_plan_is_simulated_as_the_study_does() -> None:
    scenario = sf.load(TOY, plans=("zero3", "zeropp"), devices=(8,))
    study = sf.compare(scenario)
    rows = {outcome.plan: outcome.row["step_time_nominal_s"] for outcome in study.outcomes}
    assert rows == {plan: sf.simulate(scenario, plan).step_s for plan in ("zero3", "zeropp")}
    assert sf.simulate(scenario).step_s == rows["zero3"]
    assert sf.simulate(scenario, fidelity="analytic").fidelity == "analytic"
    one = sf.load(TOY, plans="zero3", devices=np.int64(8))  # one plan, one size, a whole number of numpy's
    assert (list(one.plans), one.file.run.devices) == (["zero3"], [8])


def test_a_comparison_of_a_machine_and_a_model_equals_that_of_a_file_that_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "same.toml"
    file.write_text(
        'name = "same"\ntitle = "same"\n[machine]\nname = "toy-cluster"\n[model]\nname = "tiny"\n'
        'attention = "fused"\n[run]\ndevices = [2, 8]\n[training]\ngrad_accum = 2\n'
        '[plans.zero3]\n[plans.mine]\nfamily = "lattice"\n'
        'weight = ["gcd"]\naccumulator = ["gcd"]\noptimizer = ["node", "package", "gcd"]\n'
        'nesting = ["gcd", "package", "node"]\ngather_codec = "int8:64"\n'
    )
    mine = {
        "weight": ("gcd",),
        "accumulator": ["gcd"],
        "optimizer": ["node", "package", "gcd"],
        "nesting": ["gcd", "package", "node"],
        "gather_codec": "int8:64",
    }
    asked: dict[str, Any] = {"devices": [2, 8], "settings": {"training.grad_accum": 2}}
    told = sf.compare(file).frame().drop(columns="scenario")
    options = sf.load(file).plans["mine"]
    for plan in (mine, {**mine, "family": "lattice"}, options):
        found = sf.compare("toy-cluster", "tiny", {"zero3": {}, "mine": plan}, **asked)
        assert found.frame().drop(columns="scenario").equals(told)
    assert sf.compare(str(file), devices=8, plans="zero3").frame().shape[0] == 1


def test_search_explanation_check_and_validation_take_the_path_of_a_scenario(tmp_path: Path) -> None:
    from simfrontier.answers.explain import explain
    from simfrontier.answers.search import tune
    from simfrontier.core.program import load

    scenario = sf.load(TOY)
    assert sf.explain(TOY, "zero3", devices=8, what_if=False) == explain(scenario, "zero3", devices=8, what_if=False)
    pins = {"family": "zero", "micro_batch": 1}
    assert sf.tune(TOY, devices=8, pins=pins).best == tune(scenario, devices=8, pins=pins).best
    assert sf.check(TOY, "zero3", devices=8) == ()
    small = sf.load(TOY, {"machine.overrides.device.hbm_bytes": 1e4})
    assert "memory" in str(sf.check(small, "zero3", devices=8)[0])
    assert sf.check(small, "zero3", devices=8, memory=False) == ()
    path = sf.export(TOY, "zero3", devices=8, out=tmp_path / "schedule.json")
    assert load(path).mesh.num_ranks == 8


def test_validation_has_a_row_for_each_measured_time() -> None:
    table = sf.validate().frame()
    assert {"table", "measured_s", "predicted_s", "error", "use"} <= set(table.columns) and len(table) > 800


def test_frame_has_the_contract_columns_and_numbers() -> None:
    scenario = load_scenario("scenarios/frontier-20b.toml", plans=("zero3", "zero1"), devices=(8, 16))
    table = run_study(scenario, "analytic").frame()
    assert tuple(table.columns) == COLUMNS
    assert table["step_time_s"].dtype == float
    by_plan = table.set_index(["plan", "devices"])["step_time_s"]
    assert by_plan["zero3", 8] > 0
    assert math.isnan(by_plan["zero1", 8])


FUNCTIONS = sorted(name for name in dir(sf) if inspect.isfunction(getattr(sf, name)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_describes_every_parameter(name: str) -> None:
    """As a line of its own, so that help() and the documentation list it."""
    function = getattr(sf, name)
    described = {line.strip().partition(":")[0] for line in (function.__doc__ or "").splitlines()}
    assert {*inspect.signature(function).parameters} <= described


@pytest.mark.parametrize("kind", ["models", "machines", "plans", "keys"])
def test_tables_of_names_are_those_of_the_command(kind: str) -> None:
    table, listed = getattr(sf, kind)(), json.loads(invoke("list", kind, "--json").out)
    assert list(table.columns) == list(listed[0]) and len(table) == len(listed)
    assert [*zip(table["name"], table["description"], strict=True)] == [
        (one["name"], one["description"]) for one in listed
    ]


def test_sizes_of_names_are_typed() -> None:
    machine = sf.machines().set_index("name").loc["frontier"]
    assert (machine["devices_per_node"], machine["device"], machine["device_memory_bytes"]) == (8, "GCD", 64e9)
    models = sf.models().set_index("name")
    layers, hidden, rows = 40, 5120, 50304 + 2048  # gpt-13b: vocabulary and positions
    assert models.loc["gpt-13b", "parameters"] == pytest.approx(12 * layers * hidden**2 + rows * hidden, rel=0.03)
    assert models.loc["mixtral-8x7b", "active_parameters"] < models.loc["mixtral-8x7b", "parameters"] / 3


def test_only_what_fits_is_drawn_over_time() -> None:
    found = sf.compare("frontier", "gpt-neox-20b", ["zero3", "zero1"], devices=8)
    assert found.figure("memory", "zero1").data and found.figure("breakdown", "zero1").data
    with pytest.raises(sf.SimfrontierError, match="zero1 does not fit"):
        found.timeline("zero1")
    with pytest.raises(sf.InputError, match="plan: got 5"):
        found.timeline(5)  # type: ignore[arg-type]
    nothing = sf.compare("frontier", "llama-3-405b", ["zero3"], devices=8)
    assert nothing.figure("traffic").data
    for kind in ("rate", "efficiency", "breakdown"):
        with pytest.raises(sf.SimfrontierError, match="no plan fits"):
            nothing.figure(kind)  # type: ignore[arg-type]


def test_a_fault_of_a_value_of_several_types_is_one_fault() -> None:
    with pytest.raises(sf.InputError, match=r"training\.batch: got 0, allowed: at least 1$"):
        sf.compare("toy", batch=0)


def test_names_of_runs_are_texts() -> None:
    with pytest.raises(sf.InputError, match="machine: got 5, allowed: a name or words"):
        sf.runs(machine=5)  # type: ignore[arg-type]


def test_sizes_are_devices_or_nodes() -> None:
    asked = ("toy-cluster", "tiny", "zero3")
    assert sf.new_scenario(*asked, nodes=[1, np.int64(2)]).file.run.devices == [4, 8]
    smaller = {"machine.overrides.devices_per_node": 4}
    assert sf.new_scenario("h100-node", "gpt-13b", "zero3", nodes=2, settings=smaller).file.run.devices == [8]
    assert list(sf.compare(*asked, devices=None, nodes=2).frame()["devices"]) == [8]
    faults: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "devices: got none; .* nodes$"),
        ({"nodes": 2, "devices": 8}, "nodes: got .* beside devices"),
        ({"nodes": 0}, "nodes: got 0, allowed"),
        ({"nodes": "2 nodes"}, "nodes: got"),
    )
    for sizes, fault in faults:
        for function in (sf.new_scenario, sf.compare):
            with pytest.raises(sf.InputError, match=fault):
                function(*asked, **sizes)  # type: ignore[operator]
    with pytest.raises(sf.InputError, match=r"nodes: got .* of a scenario devices"):
        sf.compare("toy", nodes=2)


def test_a_notebook_displays_an_answer_in_a_line() -> None:
    step = sf.simulate("toy", "zero3", devices=8)
    seconds = written(step.step_s, "s")
    for answer, said in (
        (sf.load("toy", plans="zero3", devices=(4, 8)), "zero3 on 4, 8 GCDs"),
        (step, seconds),
        (sf.explain("toy", "zero3", devices=8, what_if=False), f"zero3 on 8 GCDs, {seconds}"),
        (sf.tune("toy", devices=8, pins={"family": "zero"}), "fit on 8 devices"),
        (sf.validate(), "measured times"),
    ):
        assert said in repr(answer) and len(repr(answer)) < 500


def test_numbers_of_numpy_are_numbers() -> None:
    wanted = {"training.micro_batch": np.int64(2), "machine.overrides.link_classes.nic.share": np.float32(0.5)}
    plans = {"a": {"tp": np.int64(2)}}
    model = {"name": "tiny", "num_layers": np.int64(2)}
    found = sf.new_scenario("toy-cluster", model, plans, devices=8, batch=np.int64(32), settings=wanted)
    training, own = found.file.training, {"training.micro_batch": 2, "machine.overrides.link_classes.nic.share": 0.5}
    assert (training.micro_batch, training.batch) == (2, 32)
    same = sf.new_scenario(
        "toy-cluster", {**model, "num_layers": 2}, {"a": {"tp": 2}}, devices=8, batch=32, settings=own
    )
    assert found.document == same.document


def test_arguments_of_another_type_are_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(sf.InputError, match='measured: got "x", allowed'):
        sf.explain("toy", "zero3", against="runs", measured="x")  # type: ignore[arg-type]
    with pytest.raises(sf.InputError, match='max_error: got "x", allowed: 0'):
        sf.tune("toy", max_error="x")  # type: ignore[arg-type]
    with pytest.raises(sf.InputError, match="out: got 5, allowed: the path"):
        sf.export("toy", "zero3", out=5)  # type: ignore[arg-type]
    with pytest.raises(sf.InputError, match='plans: got "", allowed: plans'):
        sf.new_scenario("toy-cluster", "tiny", "", devices=8)
    config = tmp_path / "config.json"
    config.write_text("{}")
    with pytest.raises(sf.InputError, match="machine: got 5, allowed: the name"):
        sf.import_job(config, machine=5)  # type: ignore[arg-type]
    with pytest.raises(sf.InputError, match=r"^nodes: got 2 beside devices"):
        sf.import_job(config, devices=16, nodes=2)
    with pytest.raises(sf.InputError, match="plans: got 5, allowed: plans"):
        sf.import_job(config, plans=5)  # type: ignore[arg-type]
