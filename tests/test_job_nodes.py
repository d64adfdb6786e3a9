"""The table `nodes` of a scenario, and other jobs' traffic: what they mean, what a run says, what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from simfrontier.network import groups_of_job
from simfrontier.report.troubles import troubles_in_short
from simfrontier.scenario import load_scenario
from tests.invoke import ROOT, invoke, said_of_file

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
        ('placement = "contiguous"', [0, 0, 0, 0]),
        ('placement = "spread"', [0, 1, 2, 3]),
        ("list = [0, 4, 1, 8]", [0, 1, 0, 2]),
        ('placement = "list"\nlist = [15, 0, 1, 2]', [3, 0, 0, 0]),
        ("list = [15, 0, 1, 2, 3, 4]", [3, 0, 0, 0]),  # a smaller job has the first of the list
        # groups are the leaf switches: of 2, 2, 3 and 1 nodes
        ('topology = "topology.conf"', [0, 0, 1, 1]),
        ('topology = "topology.conf"\nplacement = "spread"', [0, 1, 2, 3]),
        ('topology = "topology.conf"\nlist = "toy[05-07,00]"', [2, 2, 3, 0]),
        ('topology = "topology.conf"\nlist = [7, 6, 5, 0]', [3, 2, 2, 0]),
        # or the switches above them: of 4 and 4 nodes
        ('topology = "topology.conf"\ngroup_level = 1', [0, 0, 0, 0]),
        ('topology = "topology.conf"\ngroup_level = 1\nplacement = "spread"', [0, 0, 1, 1]),
    ],
)
def test_where_the_nodes_are(tmp_path: Path, nodes: str, in_groups: list[int]) -> None:
    assert groups(scenario(tmp_path, nodes)) == in_groups


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ("list = [0, 1, 2]", "nodes.list: at 16 devices: got 3 nodes, allowed: 4 or more (4 devices on each)"),
        ("list = [9]", "nodes.list: at 16 devices: got 1 node, allowed: 4 or more (4 devices on each)"),
        ("list = [0, 1, 2, 1]", "nodes.list: got node 1 twice, allowed: every node once"),
        ("list = [0, 1, 2, 16]", "nodes.list: got node 16, allowed: 0 to 15 (nearest: 15)"),
        (
            'list = "toy[0-3]"',
            'nodes.list: got "toy[0-3]"; names need nodes.topology, which says where they are; allowed: numbers',
        ),
        (
            'placement = "spred"',
            'nodes.placement: got "spred", allowed: "contiguous", "spread", "random" or "list"; did you mean "spread"?',
        ),
        ('placement = "list"', 'nodes.list: missing, needed because nodes.placement is "list"'),
        (
            'placement = "spread"\nlist = [0]',
            'nodes.list: not allowed beside nodes.placement = "spread"; allowed: "list"',
        ),
        ("group_level = 1", "nodes.group_level: of the switches of nodes.topology, which is missing"),
        ('plcement = "spread"', 'nodes.plcement: unknown key; did you mean "placement"?'),
        (
            'topology = "topology.conf"\nlist = "toy[00-02,7]"',
            'nodes.list: "toy7" is no node of topology.conf; did you mean "toy07"?',
        ),
        (
            'topology = "topology.conf"\nlist = "toy[00-02,01]"',
            "nodes.list: got node toy01 twice, allowed: every node once",
        ),
        (
            'topology = "topology.conf"\nlist = "toy[00-02"',
            'nodes.list: got "toy[00-02", allowed: names of nodes as Slurm writes them, e.g. node[001-004,7]',
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, nodes: str, told: str) -> None:
    assert said_of_file(scenario(tmp_path, nodes), tmp_path) == told


def test_a_topology_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    named = 'topology = "topology.conf"'
    file = tmp_path / "topology.conf"
    small = "SwitchName=s0 Nodes=a\nSwitchName=s1 Nodes=b[1-2]\n"
    assert said_of_file(scenario(tmp_path, named, small), tmp_path) == (
        "nodes.topology: at 16 devices: has 3 nodes; 16 devices need 4"
    )
    many = "".join(f"SwitchName=s{i} Nodes=a{i}\n" for i in range(5))
    assert said_of_file(scenario(tmp_path, named, many), tmp_path) == (
        f"nodes.topology: {file} has 5 switches at level 0; toy-cluster has 4 groups"
    )
    five = scenario(tmp_path, named, "SwitchName=s0 Nodes=a\nSwitchName=s1 Nodes=b[1-5]\n")
    assert said_of_file(five, tmp_path) == (
        f'nodes.topology: {file} has 5 nodes below "s1"; groups of toy-cluster have up to 4'
    )
    tree = scenario(tmp_path, named, "SwitchName=s0 Nodes=a[0-2]\nSwitchName=s1 Nodes=b[0-1]\n")
    tree.write_text(tree.read_text(encoding="utf-8").replace("toy-cluster", "toy-tree"), encoding="utf-8")
    assert said_of_file(tree, tmp_path) == (
        f'nodes.topology: {file} has 3 nodes below "s0"; leaves of toy-tree have up to 2'
    )
    whole = "".join(f"SwitchName=s{i} Nodes=s{i}n[0-127]\n" for i in range(74))  # the last group of Frontier is not
    frontier = scenario(tmp_path, named, whole)
    frontier.write_text(frontier.read_text(encoding="utf-8").replace("toy-cluster", "frontier"), encoding="utf-8")
    assert said_of_file(frontier, tmp_path) == f"nodes.topology: {file} has 9472 nodes; frontier has 9408"
    assert said_of_file(scenario(tmp_path, named, "SwitchName=s0 Node=a\n"), tmp_path) == (
        f'nodes.topology: {file}: line 1: "Node": unknown key; did you mean "Nodes"?'
    )
    assert said_of_file(scenario(tmp_path, 'topology = "none.conf"'), tmp_path).startswith(
        "nodes.topology: none.conf: "
    )
    path = scenario(tmp_path, named)
    path.write_text(path.read_text(encoding="utf-8").replace("toy-cluster", "box"), encoding="utf-8")
    assert said_of_file(path, tmp_path, "--devices", "2").startswith("nodes.topology: box has no groups or leaves")


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


def test_routes_say_the_group_of_every_node_that_does_not_lie_in_order(tmp_path: Path) -> None:
    def told(nodes: str, devices: str = "[16]") -> str:
        return invoke("show", scenario(tmp_path, nodes, devices=devices), "--routes").out

    assert "\n  nodes 0 to 3 are in groups 0, 1, 0, 1\n" in told("list = [0, 4, 1, 5]")
    assert "are in groups" not in told("", "[32]")


def test_sizes_have_the_first_nodes_of_a_list(tmp_path: Path) -> None:
    path = scenario(tmp_path, "list = [0, 4, 1, 5]", devices="[8, 16]")
    told, _ = ran(path, tmp_path / "out")
    assert "\nNodes: [0,4,1,5], 4 nodes in 2 groups, 2 in each.\n" in told
    nodes = json.loads((tmp_path / "out/findings.json").read_text("utf-8"))["setup"]["nodes"]
    assert nodes["listed"] == {"8": "[0,4]", "16": "[0,4,1,5]"}
    assert nodes["in_groups"] == {"8": [1, 1], "16": [2, 2]}
    assert "[0,4], 2 nodes in 2 groups, 1 in each" in (tmp_path / "out/index.html").read_text("utf-8")


def test_other_jobs_traffic_slows_a_step_down_for_a_time_or_always(tmp_path: Path) -> None:
    path, steps = scenario(tmp_path, 'placement = "spread"'), []
    for number, busy in enumerate(("[]", "[{factor=0.5,until_s=0.0005}]", "[{factor=0.5}]")):
        told, step_s = ran(
            path, tmp_path / str(number), *NARROW, "--set", f"perturbation.background={busy}", "--no-page"
        )
        steps.append(step_s)
        assert "\nNodes: spread, 4 nodes in 4 groups, 1 in each.\n" in told
    assert steps[0] < steps[1] < steps[2]


def test_other_jobs_traffic_in_words(tmp_path: Path) -> None:
    path = scenario(tmp_path, "")
    wrong = load_scenario(path, {"perturbation.background": [{"factor": 0.7}]}).file.perturbation
    assert troubles_in_short(wrong, "GCD") == "global links beside other jobs at 70 %"
    assert said_of_file(path, tmp_path, "--set", "perturbation.background=[{factor=1.5}]").startswith(
        "perturbation.background[0].factor: got 1.5, allowed: "
    )


def test_rings_over_48_nodes_of_frontier_feel_no_placement(tmp_path: Path) -> None:
    """As docs/how-to/nodes.md says."""
    path, usual = ROOT / "scenarios" / "frontier-20b.toml", ("--plans", "zero-topo", "--devices", "384", "--no-page")
    ends = set()
    for placement, words in (
        ("contiguous", ""),
        ("spread", "Nodes: spread, 48 nodes in 48 groups, 1 in each."),
        ("random", "Nodes: random (seed 1), 48 nodes in 36 groups, 1 to 3 in each."),
    ):
        told, step_s = ran(path, tmp_path / placement, *usual, "--set", f"nodes.placement={placement}")
        assert words in told
        ends.add(step_s)
    assert len(ends) == 1


def test_frontier_takes_any_placement_at_its_full_size() -> None:
    path = ROOT / "scenarios" / "frontier-20b.toml"
    for placement in ("spread", "random"):
        machine = load_scenario(path, {"nodes.placement": placement}, ("zero3",), (75_264,)).machine
        assert sorted(set(groups_of_job(machine, 9_408).tolist())) == list(range(74))
