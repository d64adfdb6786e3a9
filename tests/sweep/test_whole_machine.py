"""The studies of the whole machine: their points, and that their smallest run."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from simfrontier.sweep import load_study, read_rows, run_sweep, study_of
from simfrontier.workers import Local
from tests.invoke import ROOT

STUDIES = ROOT / "scenarios" / "studies"
WHOLE = 75_264


@pytest.mark.parametrize(
    ("name", "ways", "sizes"), [("frontier-whole-machine", 5, 12), ("frontier-whole-machine-175b", 3, 5)]
)
def test_a_study_has_every_way_at_every_size_to_the_whole_machine(name: str, ways: int, sizes: int) -> None:
    study = load_study(STUDIES / f"{name}.toml")
    points = list(study.points())
    assert len(points) == study.count == ways * sizes
    assert points[sizes - 1].settings["run.devices"] == [WHOLE]


def test_groups_of_the_grids_divide_every_size() -> None:
    for point in load_study(STUDIES / "frontier-whole-machine-175b.toml").points():
        assert point.settings["run.devices"][0] % 128 == 0


def test_the_smallest_points_run_and_halving_on_nodes_that_are_no_power_of_two_is_a_row_with_its_reason(
    tmp_path: Path,
) -> None:
    """64 GCDs by all five ways, and 3 nodes by halving."""
    path = STUDIES / "frontier-whole-machine.toml"
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    document["set"] |= {"model.num_layers": 2}
    document["axes"][1]["values"] = [[64], [24]]
    outcome = run_sweep(study_of(document, str(path)), tmp_path, Local(jobs=1))
    assert outcome.counts.points == 10
    rows = read_rows(tmp_path).to_pylist()
    ways = {row["axis:library.name"] for row in rows if row["error"] is None and row["devices"] == 64}
    assert ways == {"rccl", "hierarchical-mpi-rccl", "hierarchical-halving-mpi-rccl"}
    reasons = [row["error"] for row in rows if row["error"] is not None]
    assert all("recursive halving: got groups of 3 devices, allowed: powers of two" in reason for reason in reasons)
    refused = [(row["axis:library.name"], row["devices"]) for row in rows if row["error"] is not None]
    assert set(refused) == {("hierarchical-halving-mpi-rccl", 24)}
