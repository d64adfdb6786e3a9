"""Studies: schedules that are built once and rebound, rows and their samples, several steps, and advice on memory."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import simfrontier
from simfrontier.answers.study import BAND, ScheduleCache, run_study, schedule_of
from simfrontier.answers.study.columns import different
from simfrontier.base.workers import Workers
from simfrontier.core.engine import Fidelity
from simfrontier.core.machine import Perturbation, SlowDevice
from simfrontier.core.program.checker import check
from simfrontier.core.program.lifetime import peak_bytes
from simfrontier.core.program.store import digest, to_json
from simfrontier.inputs.scenario import Scenario, load_scenario, scenario_of
from simfrontier.interfaces.api.scenarios import Plans
from tests.invoke import TOY
from tests.some import some

DOCUMENT: dict[str, Any] = tomllib.loads(TOY.read_text(encoding="utf-8"))
PLANS = tuple(DOCUMENT["plans"])


def toy(settings: dict[str, Any] | None = None, *plans: str, devices: tuple[int, ...] = (2, 4)) -> Scenario:
    return scenario_of(DOCUMENT, "toy.toml", settings, plans, devices)


@pytest.mark.parametrize("plan", PLANS)
def test_a_shop_gives_what_a_fresh_build_gives(plan: str) -> None:
    scenario, schedule_cache = toy(), ScheduleCache()
    for devices in (2, 4, 8, 16, 24, 8, 2):
        got = schedule_cache.get(scenario, plan, devices)
        fresh = schedule_of(scenario, plan, devices)
        assert to_json(got.schedule) == to_json(fresh)
        report = check(fresh)
        assert report.peak == peak_bytes(got.schedule, got.schedule.roles[0])


@pytest.mark.parametrize(
    "settings",
    [
        {"training.micro_batch": 3},
        {"model.checkpointing": "none"},
        {"engine.overlap": False},
        {"model.num_layers": 3},
        {"model.precision": "fp32"},
        {"model.name": "tiny-mlp"},
    ],
)
def test_a_shop_that_serves_several_scenarios_does_not_mix_them_up(settings: dict[str, Any]) -> None:
    schedule_cache, changed = ScheduleCache(), toy(settings)
    schedule_cache.get(toy(), "zero3", 8)
    assert digest(schedule_cache.get(changed, "zero3", 8).schedule) == digest(schedule_of(changed, "zero3", 8))


def test_rates_follow_from_the_step_time() -> None:
    scenario = toy({"training.micro_batch": 3, "training.grad_accum": 2}, "zero3")
    for o in some(run_study(scenario).outcomes):
        seconds, samples = float(o.row["step_time_s"]), 3 * 2 * o.devices
        assert o.row["tokens_per_s"] == pytest.approx(samples * 32 / seconds, rel=1e-12)
        # GPT-NeoX counts 96 b s l h^2 (1 + s / 6h + V / 16lh) with checkpointing: the layers' four passes and the head
        neox = 96 * samples * 32 * 2 * 64**2 * (1 + 32 / (6 * 64) + 256 / (16 * 2 * 64))
        assert o.row["neox_tflops_per_device"] == pytest.approx(neox / seconds / o.devices / 1e12, rel=1e-12)
        assert o.row["hfu"] == pytest.approx(neox / seconds / o.devices / 2e12, rel=1e-12)
        # the model's own: 72 b s l h^2 (1 + s / 6h) of the layers' three passes, 6 b s V h of the head
        flops = 72 * samples * 32 * 2 * 64**2 * (1 + 32 / (6 * 64)) + 6 * samples * 32 * 256 * 64
        assert o.row["tflops_per_device"] == pytest.approx(flops / seconds / o.devices / 1e12, rel=1e-12)
        assert o.row["mfu"] == pytest.approx(flops / seconds / o.devices / 2e12, rel=1e-12)


def test_processes_change_nothing_and_tell_of_every_case_in_order(two_workers: Workers) -> None:
    names: list[str] = []
    scenario = toy(None, "ddp", "zero3", devices=(2, 4))
    several = run_study(scenario, progress=names.append, workers=two_workers)
    assert names == ["ddp on 2", "ddp on 4", "zero3 on 2", "zero3 on 4"]
    assert [o.row for o in several.outcomes] == [o.row for o in run_study(scenario).outcomes]


@pytest.mark.parametrize(("fidelity", "exact"), [("analytic", False), ("flow", True), ("chunk", False)])
def test_a_column_without_a_suffix_is_the_median_of_the_samples(fidelity: Fidelity, exact: bool) -> None:
    for o in some(run_study(toy(None, "zero3", "zero-topo", devices=(4, 8)), fidelity, exact).outcomes):
        row = {column: float(cell) for column, cell in o.row.items() if not isinstance(cell, str)}
        assert o.samples_s is not None and len(o.samples_s) == 200
        assert row["step_time_s"] == np.median(o.samples_s) != row["step_time_nominal_s"]
        assert [row[column] for column in BAND] == [np.quantile(o.samples_s, share) for share in (0.05, 0.5, 0.95)]
        slower = row["step_time_s"] / row["step_time_nominal_s"]
        for rate in ("tflops_per_device", "mfu", "tokens_per_s"):
            assert row[rate] == pytest.approx(row[f"{rate}_nominal"] / slower, rel=1e-12)
        assert row["tokens_per_s_per_device"] == pytest.approx(row["tokens_per_s"] / o.devices, rel=1e-12)


@pytest.mark.parametrize("exact", [False, True])
def test_cyclic_placement_folds_to_the_same_times(exact: bool) -> None:
    scenario = toy({"run.placement": "cyclic"}, "zero-topo", "hsdp", devices=(8,))
    folded, other = run_study(scenario), run_study(scenario, exact=exact)
    for a, b in some(zip(folded.outcomes, other.outcomes, strict=True)):
        assert float(a.row["step_time_s"]) == pytest.approx(float(b.row["step_time_s"]), rel=1e-9)


def slow(**when: Any) -> Perturbation:
    return Perturbation(slow=(SlowDevice(device=0, **when),))


def test_steps_that_are_alike_are_simulated_once() -> None:
    assert different(Perturbation(), 1000) == ((0, 1000),)
    assert different(slow(factor=0.5), 1000) == ((0, 1000),)
    assert different(slow(factor=0.5, from_step=2, until_step=5), 10) == ((0, 7), (2, 3))  # 0, 1, 5 to 9; and 2 to 4
    # In step 1 from 0.1 s on, and in all of those after it.
    assert different(slow(factor=0.5, from_step=1, from_s=0.1), 10) == ((0, 1), (1, 1), (2, 8))


def rows(**settings: Any) -> dict[str, Any]:
    scenario = load_scenario(TOY, settings, ("zero3",), (8,))
    (outcome,) = run_study(scenario).outcomes
    return outcome.row


def test_the_row_is_the_mean_of_all_steps() -> None:
    ill = [{"device": 0, "factor": 0.5, "from_step": 2, "until_step": 5}]
    healthy = rows()
    lagging = rows(**{"perturbation.slow": [{"device": 0, "factor": 0.5}]})
    both = rows(**{"perturbation.slow": ill, "run.steps": 10})
    assert lagging["step_time_s"] > healthy["step_time_s"]
    for key in ("step_time_s", "compute_time_s", "exposed_comm_s", "bound_s"):
        assert both[key] == pytest.approx(0.7 * healthy[key] + 0.3 * lagging[key], rel=1e-12), key
    assert both["tokens_per_s"] * both["step_time_s"] == pytest.approx(
        healthy["tokens_per_s"] * healthy["step_time_s"], rel=1e-12
    )
    assert both["tokens_per_s_nominal"] * both["step_time_nominal_s"] == pytest.approx(
        healthy["tokens_per_s"] * healthy["step_time_s"], rel=1e-12
    )
    assert (both["step_time_p05_s"], both["step_time_p95_s"]) == ("", "")  # no interval is known of a mean
    every = rows(**{"perturbation.spread": [{"name": "rccl-calls-lumi"}], "run.steps": 8})["note"]
    assert every.startswith("mean of 8 steps: ") and every.count(" to ") == 1 and " of " not in every[16:]
    assert both["note"].startswith("mean of 10 steps: 7 of ") and both["note"].endswith("; shown: step 2")


LONG = {"model.sequence": 65536}  # scores of attention fill memory: batch × heads × sequence² numbers


def row_of(plan: Plans, settings: Mapping[str, Any], devices: int = 128, model: str = "gpt-20b") -> Mapping[str, Any]:
    scenario = simfrontier.new_scenario(
        "frontier",
        model,
        plan,
        devices=devices,
        settings={"uncertainty.samples": 0, "model.attention": "plain", **settings},
    )
    study = simfrontier.compare(scenario).study
    (outcome,) = study.outcomes
    return outcome.row


def settings_in(note: str) -> dict[str, str]:
    """The settings that a note names, as `--set key=value` or `key = "value"`."""
    told = re.findall(r'--set (\S+)=(\d+)|((?:model|plans)\.\S+) = "(\w+)"', note)
    return {key or other: int(value) if value else word for key, value, other, word in told}


def test_the_memory_with_what_is_named_is_that_of_a_run_with_it() -> None:
    note = row_of("zero3", LONG)["note"]
    (told,) = re.findall(r"it needs about ([\d.]+) GB", note)
    row = row_of("zero3", {**LONG, **settings_in(note)})
    assert row["fits"] and row["peak_memory_bytes"] == pytest.approx(float(told) * 1e9, rel=0.05)


def test_a_default_grid_that_does_not_fit_names_one_that_does() -> None:
    plan = {"megatron": {"family": "megatron"}}  # a table: in words it would have the smallest grid that fits
    note = row_of(plan, {}, 1024, "gpt-175b")["note"]
    assert "pipeline = 1 (the default)" in note
    grid = settings_in(note)
    assert grid and row_of(plan, grid, 1024, "gpt-175b")["fits"]


def test_a_grid_of_experts_alone_is_not_told_to_be_the_default() -> None:
    for plan, is_default in (("ep 8", False), ({"megatron": {"family": "megatron"}}, True)):
        note = row_of(plan, {}, 8, "mixtral-8x7b")["note"]
        assert ("(the default)" in note) == is_default


def test_a_stated_number_of_data_parallel_ranks_leaves_the_samples_as_they_are() -> None:
    (plain,), (stated,) = (
        run_study(toy({"plans.zero3.data_ranks": 8} if is_stated else None, "zero3", devices=(8,))).outcomes
        for is_stated in (False, True)
    )
    assert plain.samples_s is not None and stated.samples_s is not None
    assert plain.samples_s.tolist() == stated.samples_s.tolist()
