"""The studies of the whole machine: their points, and that their smallest run."""

from __future__ import annotations

import pytest

from simfrontier.answers.sweep import load_study
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
