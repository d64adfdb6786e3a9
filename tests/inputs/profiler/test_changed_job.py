"""The same job otherwise, held against simulations of the plans that it then is."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.answers.profiled_job import replayed
from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.inputs.profiler import Job, Platform, on_ranks, read_job, with_gathers_in_nodes, with_kernels
from simfrontier.inputs.scenario import load_scenario
from tests.inputs.profiler.traces import FEW_LAYERS, exported, step_of
from tests.invoke import ROOT


def job_of(tmp_path: Path, plan: str, devices: int, scenario: str = "frontier-10b") -> tuple[Job, Platform]:
    loaded, step = step_of(scenario, plan, devices)
    files = exported(loaded, step, tmp_path, all_ranks=False)
    job = read_job(files[:1], stand_in=True, devices_per_node=loaded.machine.devices_per_node)
    return job, Platform(machine=loaded.machine, library=loaded.library)


@pytest.mark.parametrize(("plan", "bound"), [("hsdp", 1e-9), ("zero3", 0.05)])
def test_four_times_the_ranks_are_the_plan_on_as_many(tmp_path: Path, plan: str, bound: float) -> None:
    """HSDP's nodes are as before, and meet in larger groups. Of ZeRO-3 the optimizer's kernels, which here stay as they
    were, shrink with the parts of the weights."""
    job, platform = job_of(tmp_path, plan, 16)
    _, step = step_of("frontier-10b", plan, 64)
    assert replayed(on_ranks(job, 64), platform).step_s == pytest.approx(step.step_s, rel=bound)


@pytest.mark.parametrize(("scenario", "devices"), [("toy", 16), ("frontier-10b", 16)])
def test_hpz_is_zeropp_with_a_copy_of_the_weights_in_every_node(tmp_path: Path, scenario: str, devices: int) -> None:
    """ZeRO++ with hpZ alone. Its schedule differs in little else: which weights are gathered ahead."""
    settings = {"plans.hpz.family": "zeropp", "plans.hpz.qwz": False, "plans.hpz.qgz": False}
    settings |= FEW_LAYERS.get(scenario, {})
    loaded = load_scenario(ROOT / "scenarios" / f"{scenario}.toml", settings, ("hpz",), (devices,))
    planned = simulated(loaded, ScheduleCache().get(loaded, "hpz", devices), "flow", False)
    job, platform = job_of(tmp_path, "zero3", devices, scenario)
    _, before = step_of(scenario, "zero3", devices)
    asked = replayed(with_gathers_in_nodes(job, loaded.machine.devices_per_node), platform)
    assert asked.step_s == pytest.approx(planned.step_s, rel=0.005)
    assert asked.step_s < before.step_s * (1 - 0.002)


def test_kernels_twice_as_long_make_a_step_of_kernels_twice_as_long(tmp_path: Path) -> None:
    job, platform = job_of(tmp_path, "hsdp", 8)
    once, twice = replayed(job, platform), replayed(with_kernels(job, 2.0), platform)
    assert twice.compute_s == pytest.approx(2 * once.compute_s, rel=0.03)  # calls slow them less
