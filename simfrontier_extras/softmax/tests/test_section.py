"""The section on softmaxes: when it is there, and that its numbers are the study's."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, get_args

import pytest

from simfrontier.answers.study import Study, run_study
from simfrontier.core.workload import CrossEntropy, Softmax
from simfrontier.inputs.scenario import scenario_of
from simfrontier.interfaces.report.phrases import quantity, signed
from simfrontier.interfaces.report.view import StudyView, step_s
from simfrontier_extras.softmax.report_sections import ADDS, StudySoftmaxes, softmax_section, study_softmaxes
from tests.interfaces.report.studies import page, scenario_path, study

WAYS, KERNELS = get_args(CrossEntropy), get_args(Softmax)
BASE: dict[str, Any] = {
    "name": "softmax",
    "title": "softmax",
    "machine": {"name": "frontier"},
    "model": {"name": "tiny", "heads": 16, "hidden": 64, "vocabulary": 4096, "sequence": 256},
    "training": {"micro_batch": 2},
    "run": {"devices": [2, 16], "fidelity": "analytic"},
    "uncertainty": {"samples": 0},
}
CUT: dict[str, Any] = {
    **BASE,
    "plans": {way: {"family": "megatron", "tensor": 2, "cross_entropy": way} for way in WAYS},
    "at": {"16": {"plans": {way: {"tensor": 16} for way in WAYS}}},
}
WHOLE: dict[str, Any] = {
    **BASE,
    "run": {"devices": [2], "fidelity": "analytic"},
    "plans": {
        **{kernel: {"family": "ddp", "softmax": kernel} for kernel in KERNELS},
        "flash": {"family": "ddp", "attention": "fused", "softmax": "two-pass"},
    },
}


@cache
def done(name: str) -> Study:
    return run_study(scenario_of({"cut": CUT, "whole": WHOLE}[name], scenario_path()))


def found(name: str) -> StudySoftmaxes:
    made = study_softmaxes(StudyView(study=done(name)))
    assert made is not None
    return made


def softmax(name: str) -> str:
    """The section of a study."""
    return softmax_section(StudyView(study=done(name)), found(name))


def plain(html: str) -> str:
    html = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.mark.parametrize("name", ["cut", "whole"])
def test_the_section_is_on_the_page(name: str) -> None:
    html = page(done(name), None)
    assert html.count('<section id="softmax"') == 1 and 'href="#softmax"' in html


def test_it_is_not_there_where_no_plan_names_kernel_or_way() -> None:
    (section,) = ADDS
    assert section.found(StudyView(study=study())) is None
    assert 'id="softmax"' not in page(study(), None)


def test_the_table_has_the_studys_numbers() -> None:
    html = softmax("cut")
    words = plain(html)
    for outcome in done("cut").outcomes:
        result = outcome.softmaxes
        assert result is not None and result.method == outcome.plan
        for number in (
            quantity(result.loss_bytes, "bytes"),
            quantity(result.loss_s, "s"),
            quantity(result.calls_s, "s"),
        ):
            assert plain(number) in words, (outcome.plan, outcome.devices)
        assert plain(quantity(step_s(outcome), "s")) in words
        if outcome.plan != "three-all-reduces":
            assert plain(signed(float(outcome.row["speedup"]) - 1)) in words
    # 2 sequences of 256 tokens: 512 rows, 2 KiB for each number of a row
    for message in ("3 all-reduces of 2 KiB", "1 all-reduce of 4 KiB", "1 all-gather of 6 KiB"):
        assert message in words
    assert "Gain of the step over three-all-reduces, by GCDs" in words
