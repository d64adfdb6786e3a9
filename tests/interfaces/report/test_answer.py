"""The answer of a comparison: its numbers follow from each other, and Python's summary has those of the table."""

from __future__ import annotations

import pytest

import simfrontier as sf
from simfrontier.interfaces.report.answer import SUMMARY, answer_table
from simfrontier.interfaces.report.phrases import number, percent
from simfrontier.interfaces.report.view import StudyView
from tests.interfaces.report.studies import study


@pytest.mark.parametrize(
    ("plans", "grid"),
    [
        ("zero3", "dp 8"),
        ("tp 2 pp 2", "tp 2 pp 2 dp 2"),
        ("tp 2 ulysses 2", "tp 2 cp 2 dp 2"),
        ("tp 2 pp 2 vp 2", "tp 2 pp 2 vp 2 dp 2"),
    ],
)
def test_the_grid_is_in_the_words_in_which_it_is_asked_for(plans: str, grid: str) -> None:
    settings = {"training.batch": 8, "model.attention": "fused"}
    table = sf.compare("toy-cluster", "tiny", f"{plans};", devices=8, settings=settings).summary()
    assert list(table["grid"]) == [grid]


def test_the_summary_has_the_cells_of_the_table_and_they_agree() -> None:
    view = StudyView(study=study())
    found = sf.Comparison(view=view)
    summary, shown = found.summary(), answer_table(view).rows
    assert tuple(summary.columns) == SUMMARY and len(summary) == len(view.study.outcomes)
    largest = summary[summary["devices"] == view.largest]
    rate = largest["tokens_per_s_per_device"]
    assert [cells[3] for cells in shown] == [number(each) for each in rate]
    assert [cells[7] for cells in shown] == [percent(each) for each in largest["mfu"]]
    assert (largest["tokens_per_s_per_device_low"] < rate).all() and (
        rate < largest["tokens_per_s_per_device_high"]
    ).all()

    tokens = view.shapes[view.largest].sequence * view.samples_of(view.drawn[0])
    assert list(rate * view.largest * largest["step_time_s"]) == pytest.approx([tokens] * len(rate))
    peak = view.scenario.peak_flops_per_s
    assert list(largest["tflops_per_device"] * 1e12 / largest["mfu"]) == pytest.approx([peak] * len(rate))
