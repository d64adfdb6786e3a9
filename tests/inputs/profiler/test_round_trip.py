"""A simulated step, written as traces, read again and simulated again, is the same step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.answers.profiled_job import replayed
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.profiler import Platform, read_job
from simfrontier.inputs.scenario import Scenario
from tests.inputs.profiler.traces import exported, step_of

CASES = [
    *(("toy", plan, 8) for plan in ("zero3", "ddp", "zeropp", "zero-topo")),
    *(("compressed-3d", plan, 8) for plan in ("plain", "MZHybrid")),
    ("cross-entropy", "fused-two", 2),
]


def platform(scenario: Scenario) -> Platform:
    return Platform(machine=scenario.machine, library=scenario.library, placement=scenario.file.run.placement)


@pytest.mark.parametrize("fidelity", ["flow", "analytic"])
@pytest.mark.parametrize(("scenario", "plan", "devices"), CASES)
def test_an_imported_step_is_the_simulated_one(
    tmp_path: Path, scenario: str, plan: str, devices: int, fidelity: Fidelity
) -> None:
    loaded, step = step_of(scenario, plan, devices, fidelity)
    job = read_job(exported(loaded, step, tmp_path), devices_per_node=loaded.machine.devices_per_node)
    assert job.measured_s == pytest.approx(step.step_s, rel=1e-9)
    assert replayed(job, platform(loaded), fidelity).step_s == pytest.approx(step.step_s, rel=1e-9)
    assert len(job.schedule.roles) == len(step.schedule.roles) and not job.notes


@pytest.mark.parametrize("plan", ["zero3", "hsdp"])
def test_keys_of_the_profiler_are_enough_where_nothing_shares_the_device(tmp_path: Path, plan: str) -> None:
    """Without the key that only simulations write: kernels as long as they ran, calls by kind, type and size."""
    loaded, step = step_of("toy", plan, 8, "analytic")
    files = exported(loaded, step, tmp_path)
    for path in files:
        document = json.loads(path.read_text(encoding="utf-8"))
        del document["simfrontier"]
        for event in document["traceEvents"]:
            event.get("args", {}).pop("simfrontier", None)
        path.write_text(json.dumps(document), encoding="utf-8")
    job = read_job(files)
    assert replayed(job, platform(loaded), "analytic").step_s == pytest.approx(step.step_s, rel=1e-9)


def test_one_rank_may_stand_for_all(tmp_path: Path) -> None:
    loaded, step = step_of("toy", "zero3", 8)
    first = exported(loaded, step, tmp_path)[0]
    job = read_job([first], stand_in=True)
    assert replayed(job, platform(loaded)).step_s == pytest.approx(step.step_s, rel=1e-9)


def test_a_wait_that_is_lost_is_seen(tmp_path: Path) -> None:
    """The mutant: without its waits for events a step is told from times, which is said; with one wait less that is the
    last, a later kernel may start early once calls take longer."""
    loaded, step = step_of("toy", "zero3", 8)
    files = exported(loaded, step, tmp_path)
    for path in files:
        document = json.loads(path.read_text(encoding="utf-8"))
        document["traceEvents"] = [event for event in document["traceEvents"] if event.get("cat") != "cuda_sync"]
        path.write_text(json.dumps(document), encoding="utf-8")
    job = read_job(files)
    assert "told from times" in job.notes[0]
    assert replayed(job, platform(loaded)).step_s == pytest.approx(step.step_s, rel=0.02)
