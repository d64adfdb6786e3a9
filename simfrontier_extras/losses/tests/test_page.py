"""The section on losses: when it is there, and that its numbers are the study's and the file's."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simfrontier.report import StudyView, findings_of, write_findings
from simfrontier.report.page import page
from simfrontier.report.theme import PlanMark
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.study import Study, run_study
from simfrontier_extras.losses.curves import LossCurves, TrainingRun
from simfrontier_extras.losses.figures import APART, WHOLE, GainLossPoint, curves, trade_off
from simfrontier_extras.losses.findings import Fastest, PlanLoss, StudyLosses, study_losses
from simfrontier_extras.losses.page import losses_section
from simfrontier_extras.losses.scenario_keys import LossesKeys, losses_of
from tests.report.test_page import Page

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
    runs = tuple(
        TrainingRun(plan=text, compression=text, seed=seed, losses=(4.0, final))
        for text, values in finals.items()
        for seed, final in enumerate(values)
    )
    return LossCurves(runs=runs, steps=(0, 1), baseline="none", last=1, source="three seeds of a toy")


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


def test_without_a_file_of_losses_there_is_no_section() -> None:
    assert 'id="losses"' not in page(done(), None)


def test_without_compression_there_is_nothing_to_say() -> None:
    document = {**DOCUMENT, "plans": {"plain": DOCUMENT["plans"]["plain"], "ddp": {}}}
    document["published"] = {"source": "a made-up table"}
    assert study_losses(StudyView(study=run_study(scenario_of(document, "s.toml"))), losses()) is None


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


@pytest.mark.parametrize(("plan", "words"), [("naive", "does not"), ("hop", "is not known")])
def test_a_faster_plan_leaves_the_band_or_has_no_known_loss(plan: str, words: str) -> None:
    faster = replace(found(), fastest=Fastest(plan=plan, rate=1e9))
    assert f"; {plan}, whose loss {words}, is" in plain(losses_section(view_of(), faster))


def test_the_page_says_who_leaves_the_band() -> None:
    made = section()
    ends = final_losses(made)
    assert (ends["naive"], ends["hybrid"], ends["hop"]) == ("+1.00 outside it", "+0.300 in the band", "–")
    assert "naive-zfp:8 leaves the band (1.0 above the baseline’s loss)" in plain(made)
    assert "MZHybrid:8 stays in the band" in plain(made)
    assert "three seeds of a toy." in plain(made)


def test_one_seed_gives_distances_and_no_verdict() -> None:
    one = replace(losses(), runs=tuple(run for run in losses().runs if run.seed == 0))
    assert found(one).half_band is found(one).fastest_in_band is of("naive", found(one)).stays is None
    made = plain(section(one))
    assert "naive-zfp:8 ends 1.0 above the baseline’s loss" in made and "there is no band" in made
    assert final_losses(section(one))["naive"] == "+1.00"


def test_a_policy_that_diverges_says_so() -> None:
    known = losses(**DIVERGED)
    hop = of("hop", found(known))
    assert (hop.diverged, hop.distance) == (True, None)
    made = section(known)
    assert final_losses(made)["hop"] == "diverged" and "naive-zfp:16 per hop diverges" in plain(made)
    assert "Not drawn (no finite speed or loss): hop." in plain(made)


def test_findings_are_finite_numbers(tmp_path: Path) -> None:
    view = view_of(losses(**DIVERGED))
    write_findings(findings_of(view), view, tmp_path / "findings.json")
    read = json.loads((tmp_path / "findings.json").read_text(encoding="utf-8"))["losses"]
    assert [one["plan"] for one in read["plans"]] == ["naive", "hybrid", "fp16-naive", "hop"]
    assert read["plans"][-1]["diverged"] is True


def test_plans_that_do_not_fit_are_not_drawn() -> None:
    made = section(made=done(1e4))
    assert "fig-trade-off" not in made and "fig-losses" in made
    assert "speed or loss): naive, hybrid, fp16-naive and hop." in plain(made)


# ── figures ──


def test_figures_are_json_that_a_page_can_read() -> None:
    made = section(losses(**{"naive-zfp:16_per_hop": (1.0, math.inf, math.nan)}))
    for name in ("fig-trade-off", "fig-losses"):
        assert json.loads(Page(made).data[name])


def point(plan: str, distance: float, gain: float, of: str = "FP32") -> GainLossPoint:
    return GainLossPoint(
        plan=plan, of=of, distance=distance, gain=gain, mark=PlanMark(colour="#000000", symbol="circle")
    )


def drawn(points: list[GainLossPoint], half: float | None = 0.1, **published: float) -> dict[str, Any]:
    return trade_off(points, published, half)


def test_speed_is_drawn_over_the_distance() -> None:
    figure = drawn([point("a", 0.5, 0.25), point("b", 0.0, 0.1, "FP16")], a=0.2)
    line, origin, wide, narrow = figure["data"]
    assert (line["y"], line["text"][1].replace("\u00a0", " ")) == ([20.0, 20.0], "published, a: +20.0 %")
    assert (origin["x"], origin["y"]) == ([0.0], [0.0])
    assert (wide["name"], wide["x"], wide["y"], wide["text"]) == ("FP32 messages", [0.5], [25.0], ["a"])
    assert (narrow["name"], narrow["x"], narrow["y"]) == ("FP16 messages", [0.0], [10.0])
    assert wide["marker"]["symbol"] != narrow["marker"]["symbol"]
    (band,) = figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (-0.1, 0.1)


def test_far_distances_make_the_axis_logarithmic_beyond_the_band() -> None:
    figure = drawn([point("a", 100.0, 0.25), point("b", 0.1, 0.1)])
    near, far = figure["data"][1]["x"]
    assert (near, far) == pytest.approx((math.asinh(1.0), math.asinh(1000.0)))
    assert figure["layout"]["xaxis"]["ticktext"] == ["−0.1", "0", "+0.1", "+1", "+10", "+100"]


def test_without_a_band_nothing_is_shaded() -> None:
    assert drawn([point("a", 0.0, 0.1)], None)["layout"]["shapes"] == []


def test_names_of_near_points_stand_around_them() -> None:
    near = [point(name, 0.01 * i, 0.2 + 0.001 * i) for i, name in enumerate("abc")]
    figure = drawn([*near, point("far", 1.0, 0.1)], 0.5)
    trace = figure["data"][1]
    assert dict(zip(trace["text"], trace["textposition"], strict=True)) == {
        "c": "top center",
        "a": "bottom center",
        "b": "middle right",
        "far": "top center",
    }


def test_curves_have_the_band_and_leave_out_what_diverged() -> None:
    known = losses(**{"naive-mpc": (math.nan, 1.0, 1.0)})
    made = curves(known, dict.fromkeys(known.policies, "#123456"))
    low, high, base, *others = made[WHOLE]["data"]
    assert (low["y"], high["y"], base["y"]) == ([4.0, 0.8], [4.0, 1.6], [4.0, 1.2])
    assert {trace["name"]: trace["y"] for trace in others} == {
        "naive-zfp:8": [4.0, 2.2],
        "MZHybrid": [4.0, 1.5],
        "naive-mpc": [4.0, None],
    }
    assert {trace["name"]: trace["y"] for trace in made[APART]["data"][3:]}["naive-zfp:8"] == [0.0, 1.0]


def test_a_curve_that_grows_far_does_not_flatten_the_others() -> None:
    known = losses(**{"naive-mpc": (1e6, 1e6, 1e6)})
    made = curves(known, dict.fromkeys(known.policies, "#123456"))[WHOLE]
    assert made["layout"]["yaxis"]["range"][1] < 5.0


def test_the_page_of_a_file_is_that_of_its_losses(tmp_path: Path) -> None:
    """The whole way, from a file beside the scenario."""
    text = ["plan,compression,seed,step,loss"]
    text += [f"{r.plan},{r.compression},{r.seed},{s},{x}" for r in losses().runs for s, x in enumerate(r.losses)]
    (tmp_path / "losses.csv").write_text("\n".join(text), encoding="utf-8")
    table = {"file": "losses.csv", "source": "three seeds of a toy", "last": 1}
    scenario = scenario_of({**DOCUMENT, "losses": table}, str(tmp_path / "s.toml"))
    view = StudyView(study=replace(done(), scenario=scenario))
    read = losses_of(scenario)
    assert read == losses() and (said := study_losses(view, read)) == found()
    assert losses_section(view, said) == section()
