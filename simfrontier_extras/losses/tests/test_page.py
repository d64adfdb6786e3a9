"""The section on losses: when it is there, and that its numbers are the study's and the file's."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd
import pytest

from simfrontier.answers.study import Study, run_study
from simfrontier.inputs.scenario import Scenario, scenario_of
from simfrontier.interfaces.report.view import StudyView
from simfrontier_extras.losses.curves import LossCurves, policy_of
from simfrontier_extras.losses.report_sections import PlanLoss, StudyLosses, losses_section, study_losses
from simfrontier_extras.losses.scenario_keys import LossesKeys
from tests.interfaces.report.studies import page

SPEEDS = {f"device.codecs.{name}.{way}_bytes_per_s": 25e9 for name in ("zfp", "mpc") for way in ("encode", "decode")}
GRID = {"family": "megatron", "tensor": 2, "pipeline": 2, "data": "zero1", "compress_from": 0}
NAIVE = {**GRID, "compression": "naive-zfp:8"}
DOCUMENT: dict[str, Any] = {
    "name": "compressed",
    "title": "compressed",
    "machine": {"name": "toy-cluster", "overrides": SPEEDS},
    "library": {"name": "transfers"},
    "model": {"name": "tiny"},
    "stack": "none",
    "training": {"micro_batch": 1, "grad_accum": 4},
    "run": {"devices": [4, 8], "fidelity": "analytic"},
    "plans": {
        "plain": {**GRID, "message_dtype": "fp32"},
        "naive": {**NAIVE, "message_dtype": "fp32"},
        "hybrid": {**GRID, "compression": "MZHybrid:8", "message_dtype": "fp32"},
        "fp16-plain": GRID,
        "fp16-naive": NAIVE,
        "hop": {**NAIVE, "compression": "naive-zfp:16", "compress_per_hop": True},
        "ddp": {},
    },
    "published": {"source": "a made-up table", "ratios": {"plain": 1.0, "naive": 1.225}},
}
# Finals of the baseline: 1.0, 1.2, 1.4, so that the band is ± 0.4.
FINALS = {"none": (1.0, 1.2, 1.4), "naive-zfp:8": (2.0, 2.2, 2.4), "MZHybrid": (1.3, 1.5, 1.7)}
DIVERGED = {"naive-zfp:16_per_hop": (1.0, math.nan, 1.0)}


def losses(**more: tuple[float, ...]) -> LossCurves:
    """Two equal steps of three seeds, of which the last is the final loss."""
    finals = {**FINALS, **{name.replace("_", " "): values for name, values in more.items()}}
    runs = {
        (policy_of(text), seed): [4.0, final] for text, values in finals.items() for seed, final in enumerate(values)
    }
    texts = dict(zip(finals, finals, strict=True))
    return LossCurves(table=pd.DataFrame(runs), texts=texts, baseline="none", last=1, source="three seeds of a toy")


@cache
def done(memory_bytes: float = 0.0) -> Study:
    settings = {"machine.overrides.device.hbm_bytes": memory_bytes} if memory_bytes else {}
    return run_study(scenario_of(DOCUMENT, "s.toml", settings))


def with_losses(scenario: Scenario, known: LossCurves | None) -> Scenario:
    return replace(scenario, contents={**scenario.contents, LossesKeys: known})


def view_of(known: LossCurves | None = None, made: Study | None = None) -> StudyView:
    made = made or done()
    return StudyView(study=replace(made, scenario=with_losses(made.scenario, known or losses())))


def found(known: LossCurves | None = None, made: Study | None = None) -> StudyLosses:
    view = view_of(known, made)
    result = study_losses(view, known or losses())
    assert result is not None
    return result


def of(plan: str, result: StudyLosses) -> PlanLoss:
    return next(one for one in result.plans if one.plan == plan)


def section(known: LossCurves | None = None, made: Study | None = None) -> str:
    return losses_section(view_of(known, made), found(known, made))


def rate(name: str, devices: int = 8) -> float:
    return next(float(o.row["tokens_per_s_per_device"]) for o in done().of(name) if o.devices == devices)


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))


def final_losses(made: str) -> dict[str, str]:
    """The last column of the section's table by plan."""
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", made)]
    return {plain(row[0]).strip(): plain(row[-1]).strip() for row in cells}


# ── when it is there ──


def test_the_section_follows_that_on_compression() -> None:
    made = page(view_of().study, None)
    anchors = re.findall(r'<section id="(\w+)">', made)
    assert anchors[anchors.index("compression") + 1] == "losses"
    assert '<a href="#losses">Losses</a>' in made


# ── what it says ──


def test_each_plan_has_its_gain_and_the_end_of_its_policy() -> None:
    result = found()
    assert [one.plan for one in result.plans] == ["naive", "hybrid", "fp16-naive", "hop"]
    naive, hybrid, narrow, hop = result.plans
    assert (naive.distance, naive.stays, naive.published_gain) == (pytest.approx(1.0), False, pytest.approx(0.225))
    assert naive.gain == rate("naive") / rate("plain") - 1 and naive.gain_devices == 8
    assert (hybrid.distance, hybrid.stays) == (pytest.approx(0.3), True)
    assert narrow.distance == naive.distance and narrow.message_type == "FP16"
    assert (hop.distance, hop.stays, hop.diverged) == (None, None, False)
    assert result.band == pytest.approx((0.8, 1.6)) and result.half_band == pytest.approx(0.4)


def test_the_fastest_in_the_band_is_not_one_that_leaves_it() -> None:
    result = found()
    assert result.fastest is not None and result.fastest_in_band is not None
    every = ("plain", "naive", "hybrid", "fp16-plain", "fp16-naive", "hop")
    assert result.fastest.rate == max(map(rate, every))
    assert result.fastest_in_band.rate == max(map(rate, ("plain", "hybrid", "fp16-plain")))


def test_a_policy_that_diverges_says_so() -> None:
    known = losses(**DIVERGED)
    hop = of("hop", found(known))
    assert (hop.diverged, hop.distance) == (True, None)
    made = section(known)
    assert final_losses(made)["hop"] == "diverged" and "naive-zfp:16 per hop diverges" in plain(made)
    assert "Not drawn (no finite speed or loss): hop." in plain(made)
