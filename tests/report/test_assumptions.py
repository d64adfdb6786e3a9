"""The section of what a prediction rests on: fitted numbers with the intervals that hold them."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.machine import Provenance
from simfrontier.report.assumptions import assumptions
from simfrontier.report.view import StudyView
from tests.report.studies import study


def section(interval: tuple[float, float] | None, key: str, value: float, unit: str) -> str:
    """Of a study whose library is one fitted number."""
    number = Provenance(key=key, value=value, unit=unit, kind="fitted", source="a fit", interval=interval)
    scenario = study().scenario
    library = replace(scenario.library, sources=(number,))
    made = assumptions(StudyView(study=replace(study(), scenario=replace(scenario, library=library))))
    return made.replace("\u00a0", " ")


def test_a_fitted_number_has_its_interval_below_it_in_its_own_unit() -> None:
    assert "<td>0.864<small>0.834 to 0.896</small></td>" in section((0.834, 0.896), "shares.nic", 0.864, "")
    hop = section((165.8e-6, 177.1e-6), "ring.hop_between_nodes_s", 171.4e-6, "s")
    assert "<td>171.4 µs<small>165.8 µs to 177.1 µs</small></td>" in hop


def test_a_fitted_number_without_an_interval_stands_alone() -> None:
    assert "<td>0.864</td>" in section(None, "shares.nic", 0.864, "")
