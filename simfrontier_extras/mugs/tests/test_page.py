"""What a step gathers of all samples for later steps: its calls, the time that ranks wait for them, and the section."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from simfrontier.answers.step import Gathers
from simfrontier.answers.study import Study, run_study
from simfrontier.inputs.scenario import scenario_of
from simfrontier.interfaces.report.view import StudyView
from simfrontier_extras.mugs.report_sections import NAMES, queues_section, study_gathers
from tests.interfaces.report.studies import page

DOCUMENT: dict[str, Any] = {
    "name": "mugs",
    "title": "mugs",
    "machine": {"name": "toy-cluster"},
    "library": {"name": "transfers"},
    "model": {"name": "tiny-mugs", "precision": "fp32", "checkpointing": "none"},
    "training": {"micro_batch": 2},
    "run": {"devices": [4, 8], "fidelity": "analytic"},
    "plans": {"blocking": {"family": "ddp"}, "overlapped": {"family": "ddp", "overlap_statistics": True}},
}


@cache
def simulated() -> Study:
    return run_study(scenario_of(DOCUMENT, "made up"))


def of(plan: str, devices: int = 8) -> Gathers:
    (result,) = [o.gathers for o in simulated().of(plan) if o.devices == devices]
    assert result is not None
    return result


def test_calls_by_hand() -> None:
    """2 images on each of 8 ranks, 8 features in a key, 16 in a row, 12 prototypes, 4 bytes: keys 2 × 8 × 4 = 64, of
    which a rank sends 7 × 64 = 448; the centre's sum 12 × 4 = 48, twice 7/8 of it 84; rows 2 × 16 × 4 = 128 and
    7 × 128 = 896; a flag is a byte."""
    results = [(call.value, call.kind, call.rank_bytes, call.sent_bytes) for call in of("blocking").calls]
    keys = [(f"teacher/{head}.key.{view}", "all_gather", 64, 448) for head in ("instance", "group") for view in (0, 1)]
    assert results == [
        *keys,
        ("cluster.sum", "all_reduce", 48, 84),
        ("student/row", "all_gather", 128, 896),
        ("flags", "all_gather", 2, 14),
        ("teacher/row", "all_gather", 128, 896),
    ]
    assert [call.value for call in of("overlapped").calls] == [call[0] for call in results]


def test_a_rank_waits_for_blocking_calls_only() -> None:
    assert of("overlapped").held_s == 0
    held = of("blocking").held_s
    assert held == pytest.approx(sum(call.seconds for call in of("blocking").calls)) and held > 0
    assert of("blocking", 4).held_s < held  # fewer ranks, fewer steps of a ring
    step = {plan: float(simulated().of(plan)[-1].row["step_time_s"]) for plan in ("blocking", "overlapped")}
    assert 0 < step["blocking"] - step["overlapped"] <= held * (1 + 1e-9)


def test_the_section_names_every_call() -> None:
    view = StudyView(study=simulated())
    found = study_gathers(view)
    assert found is not None
    message = queues_section(view, found)
    for name in NAMES.values():
        assert name in message
    assert "In overlapped they overlap with the step" in message
    assert 'id="gathers"' in page(simulated(), None)
