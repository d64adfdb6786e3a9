"""A machine's file of one's own where a name of the catalog may stand: calibrate, validate, topology, training runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.accuracy import is_of_runs, read_runs
from simfrontier.accuracy.published_runs.job import job_of
from simfrontier.machine import load_machine
from simfrontier.measured import CallRow
from tests.accuracy.published_runs.rows import run
from tests.invoke import invoke, refusal
from tests.measured.tables import nccl_log, shipped, write_calls
from tests.topology.samples import frontier

OWN = """\
name = "ours"
title = "ours"
base = "frontier"
[link_classes.nic]
bytes_per_s = { value = 50e9, kind = "quoted", source = "toy" }
"""
LOG = nccl_log({1048576 * size: 50.0 + 20.0 * size for size in (1, 2, 4)}, hosts=2, per_host=8)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "ours.toml"
    path.write_text(OWN)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "all_gather_perf.log"
    path.write_text(LOG)
    return path


def table(folder: Path, machine: str) -> Path:
    """Shipped times of Frontier as those of another machine."""
    rows = [row for row in shipped("rccl_frontier", CallRow) if row.collective == "all_gather" and row.devices <= 64]
    path = write_calls(folder / "calls.csv", rows)
    path.write_text(path.read_text().replace("\nfrontier,", f"\n{machine},"))
    return path


def test_tables_of_a_log_are_placed_on_the_machine(own: Path, log: Path, tmp_path: Path) -> None:
    """16 ranks on 2 nodes fill 8 packages of two GCDs."""
    ran = invoke("calibrate", log, "--machine", own, "--out", tmp_path / "out.toml", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [(call["ranks"], call["packages"]) for call in json.loads(ran.out)["calls"]] == [(16, 8)]


@pytest.mark.parametrize("mode", ["--tables", "--fit"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "ours.toml: cannot read this machine file: No such file or directory"),
        ('base = "frontier"\nnum_nodes = 3\n', "ours.toml: num_nodes: "),
    ],
)
def test_a_file_that_is_no_machine_is_refused(
    tmp_path: Path, log: Path, mode: str, text: str | None, said: str
) -> None:
    path = tmp_path / "ours.toml"
    if text is not None:
        path.write_text(text)
    given = ("--machine", path, "--library", "rccl")
    for got in (
        refusal("calibrate", log, mode, *given, "--out", tmp_path / "out.toml"),
        refusal("validate", log, *given),
        refusal("calibrate", table(tmp_path, "ours.toml"), mode, "--out", tmp_path / "out.toml"),
    ):
        assert said in got


@pytest.mark.parametrize("mode", ["--tables", "--fit"])
def test_a_column_of_a_table_names_a_file_beside_it(own: Path, tmp_path: Path, mode: str) -> None:
    path = table(tmp_path, own.name)
    ran = invoke("calibrate", path, mode, "--out", tmp_path / "out.toml", "--json")
    assert (ran.code, ran.err) == (0, "")
    ran = invoke("validate", path, "--json")
    rows = json.loads(ran.out)["rows"]
    assert rows and {row["machine"] for row in rows} == {str(own)}
    assert all(row["predicted_s"] for row in rows)


def test_a_log_is_compared_with_the_machines_own_numbers(own: Path, log: Path) -> None:
    """NICs of twice the speed: a call over two nodes is predicted to be shorter than on Frontier."""
    predicted = []
    for machine in ("frontier", own):
        ran = invoke("validate", log, "--machine", machine, "--library", "rccl", "--json")
        predicted.append([row["predicted_s"] for row in json.loads(ran.out)["rows"]])
    assert all(ours < theirs for theirs, ours in zip(*predicted, strict=True))


def test_a_changed_file_is_read_again(own: Path, log: Path) -> None:
    given = ("validate", log, "--machine", own, "--library", "rccl", "--json")
    before = json.loads(invoke(*given).out)["rows"]
    own.write_text(OWN.replace("50e9", "12.5e9"))
    after = json.loads(invoke(*given).out)["rows"]
    assert all(a["predicted_s"] > b["predicted_s"] for a, b in zip(after, before, strict=True))


def test_topology_puts_a_node_on_it(own: Path, tmp_path: Path) -> None:
    xml = tmp_path / "node.xml"
    xml.write_text(frontier())
    ran = invoke("topology", xml, "--base", own, "--out", tmp_path / "mine.toml")
    assert (ran.code, ran.err) == (0, "")
    made, ours, base = (load_machine(str(name)) for name in (tmp_path / "mine.toml", own, "frontier"))
    assert (made.num_nodes, made.device) == (ours.num_nodes, ours.device)
    assert [(link.name, link.link_class) for link in made.node.links] == [
        (link.name, link.link_class) for link in base.node.links
    ]
    message = refusal("topology", xml, "--base", tmp_path / "no.toml", "--out", tmp_path / "mine.toml")
    assert message == f"{tmp_path}/no.toml: cannot read this machine file: No such file or directory"


def test_a_training_run_may_be_of_it(own: Path, tmp_path: Path) -> None:
    made = job_of(run(machine=str(own)))
    assert made.scenario.machine.name == "ours"
    path = tmp_path / "runs.csv"
    cells = run(machine=own.name).cells
    path.write_text(",".join(cells) + "\n" + ",".join(cells.values()) + "\n")
    assert is_of_runs(path)
    assert [each["machine"] for each in read_runs(path)] == [str(own)]
