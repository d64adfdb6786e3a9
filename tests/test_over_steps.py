"""Several steps of a training on a machine that changes: which are simulated, their mean, and steps that cannot end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfrontier.machine import Perturbation, SlowDevice
from simfrontier.report.troubles import troubles_in_short
from simfrontier.scenario import load_scenario
from simfrontier.study import run_study
from simfrontier.study.over_steps import different
from tests.invoke import TOY, invoke, said_of


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


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("slow=[{device=1, factor=0.5, from_s=-1}]", ".slow[0].from_s: got -1, allowed: at least 0"),
        ("slow=[{device=1, factor=0.5, from_step=-1}]", ".slow[0].from_step: got -1, allowed: at least 0 and at most"),
        ("slow=[{device=1, factor=0.5, from_step=3}]", ".slow.from_step: got 3, allowed: 0 to 0 (run.steps = 1)"),
        ("slow=[{device=1, factor=0.5, until=3}]", '.slow[0].until: unknown key; did you mean "until_s"?'),
        ("nics=[{node=0, nic=7, factor=0.5}]", ": at 8 devices: NIC of node 0: got 7; a node has NICs 0 to 1"),
        ("nic=[{node=0, nic=7, factor=0.5}]", '.nic: unknown key; did you mean "nics"?'),
        ("packages=[{package=4, factor=0}]", ": at 8 devices: package: got 4; this job has packages 0 to 3"),
        ("links=[{node=0, link='nic0-net', factor=0}]", '"nic0>net"?'),
        (
            "memories=[{device=1, factor=0.5, from_s=2, until_s=1}]",
            ".memories[0]: memory of device 1 ends at 1 s of step 0, allowed: after it begins at 2 s of step 0",
        ),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, setting: str, message: str) -> None:
    assert message in said_of([f"perturbation.{setting}"], tmp_path)


def test_a_machine_that_is_cut_in_two_stops_the_job(tmp_path: Path) -> None:
    """Exit code 1: the input can be used, and the answer is no."""
    dead = "perturbation.nodes=[{node=1, factor=0, from_s=1e-4}]"
    ran = invoke("run", TOY, "--plans", "zero3", "--devices", "8", "--out", tmp_path / "out", "--set", dead)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert f"{TOY}: plans.zero3: at 8 devices: the job stops at " in ran.err
    assert ran.err.endswith("ranks 0-3 lost ranks 4-7; dead: devices 4-7\n")
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_in_words() -> None:
    ill = slow(factor=0.5, from_step=1, from_s=0.1, until_step=3)
    assert troubles_in_short(ill, "GCD") == "GCD 0 at 50 % from 100\u00a0ms of step 1 until step 3"
    many = Perturbation(slow=tuple(SlowDevice(device=device, factor=0.0) for device in range(30)))
    assert troubles_in_short(many, "GCD").endswith("GCD 19 dead, 10 others")
