"""Nodes of a job and other jobs' traffic: what they mean, and what a run says of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from simfrontier.core.network import groups_of_job
from simfrontier.inputs.scenario import load_scenario
from tests.invoke import invoke

SCENARIO = """\
name = "lying"
title = "Nodes of a toy"
[machine]
name = "toy-cluster"
[model]
name = "tiny"
[run]
devices = [16]
[uncertainty]
samples = 0
[plans.zero3]
"""
# As Slurm has it: two leaf switches in each of two groups, and one node apart.
TOPOLOGY = """\
SwitchName=s0 Nodes=toy[00-01]
SwitchName=s1 Nodes=toy[02-03]
SwitchName=s2 Nodes=toy[04-06]
SwitchName=s3 Nodes=toy07
SwitchName=g0 Switches=s[0-1]
SwitchName=g1 Switches=s[2-3]
"""


def scenario(tmp_path: Path, nodes: str, topology: str = TOPOLOGY, devices: str = "[16]") -> Path:
    (tmp_path / "topology.conf").write_text(topology, encoding="utf-8")
    path = tmp_path / "lying.toml"
    path.write_text(f"{SCENARIO.replace('[16]', devices)}[nodes]\n{nodes}\n", encoding="utf-8")
    return path


def groups(path: Path) -> list[int]:
    return groups_of_job(load_scenario(path).machine, 4).tolist()


@pytest.mark.parametrize(
    ("nodes", "in_groups"),
    [
        ("", [0, 0, 0, 0]),
        ('placement = "spread"', [0, 1, 2, 3]),
        ("list = [0, 4, 1, 8]", [0, 1, 0, 2]),
        ('placement = "list"\nlist = [15, 0, 1, 2]', [3, 0, 0, 0]),
        # groups are the leaf switches: of 2, 2, 3 and 1 nodes
        ('topology = "topology.conf"', [0, 0, 1, 1]),
        ('topology = "topology.conf"\nplacement = "spread"', [0, 1, 2, 3]),
        ('topology = "topology.conf"\nlist = "toy[05-07,00]"', [2, 2, 3, 0]),
        # or the switches above them: of 4 and 4 nodes
        ('topology = "topology.conf"\ngroup_level = 1', [0, 0, 0, 0]),
        ('topology = "topology.conf"\ngroup_level = 1\nplacement = "spread"', [0, 0, 1, 1]),
    ],
)
def test_where_the_nodes_are(tmp_path: Path, nodes: str, in_groups: list[int]) -> None:
    assert groups(scenario(tmp_path, nodes)) == in_groups


def ran(path: Path, out: Path, *more: str) -> tuple[str, float]:
    told = invoke("run", path, "--out", out, "--no-sensitivity", *more)
    assert told.code == 0, told
    with (out / "results.csv").open(encoding="utf-8") as file:
        return told.out, float(next(csv.DictReader(file))["step_time_s"])


NARROW = ("--set", 'machine.overrides={"link_classes.global.bytes_per_s"=2e8}')


def test_a_run_says_where_the_nodes_are_and_its_step_feels_it(tmp_path: Path) -> None:
    path = scenario(tmp_path, 'topology = "topology.conf"\nlist = "toy[00,03,01,05]"')
    told, listed = ran(path, tmp_path / "listed", *NARROW)
    assert "\nNodes: toy[00,03,01,05], 4 nodes in 3 groups, 1 to 2 in each.\n" in told
    assert "toy[00,03,01,05], 4 nodes in 3 groups, 1 to 2 in each" in (tmp_path / "listed/index.html").read_text(
        "utf-8"
    )
    found = json.loads((tmp_path / "listed/findings.json").read_text("utf-8"))
    assert found["setup"]["nodes"]["in_groups"] == {"16": [2, 1, 1]}
    told, usual = ran(scenario(tmp_path, ""), tmp_path / "usual", *NARROW, "--no-page")
    assert "Nodes:" not in told and listed > 1.1 * usual


def test_other_jobs_traffic_slows_a_step_down_for_a_time_or_always(tmp_path: Path) -> None:
    path, steps = scenario(tmp_path, 'placement = "spread"'), []
    for number, busy in enumerate(("[]", "[{factor=0.5,until_s=0.0005}]", "[{factor=0.5}]")):
        told, step_s = ran(
            path, tmp_path / str(number), *NARROW, "--set", f"perturbation.background={busy}", "--no-page"
        )
        steps.append(step_s)
        assert "\nNodes: spread, 4 nodes in 4 groups, 1 in each.\n" in told
    assert steps[0] < steps[1] < steps[2]
