"""The section on compressed messages: when it is there, and that its numbers are the study's and the file's."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simfrontier.analysis.losses import LossCurves, TrainingRun
from simfrontier.report.compression import compression, compression_rows, gains, trap
from simfrontier.report.compression_figures import APART, WHOLE, GainLossPoint, curves, trade_off
from simfrontier.report.page import page
from simfrontier.report.phrases import number, percent, signed
from simfrontier.report.theme import PlanMark
from simfrontier.report.view import StudyView
from simfrontier.scenario import scenario_of
from simfrontier.study import Study, run_study
from tests.report.studies import scenario_path, study
from tests.report.test_page import Page

SPEEDS = {f"device.codecs.{name}.{way}_bytes_per_s": 25e9 for name in ("zfp", "mpc") for way in ("encode", "decode")}
GRID = {"family": "megatron", "tensor": 2, "pipeline": 2, "data": "zero1", "compress_from": 0}
NAIVE = {**GRID, "compression": "naive-zfp:8"}
HYBRID = {**GRID, "compression": "MZHybrid:8"}
DOCUMENT: dict[str, Any] = {
    "name": "compressed",
    "title": "compressed",
    "machine": {"name": "toy-cluster", "overrides": SPEEDS},
    "library": {"name": "transfers"},
    "model": {"name": "tiny"},
    "training": {"micro_batch": 1, "grad_accum": 4},
    "run": {"devices": [4, 8], "fidelity": "analytic"},
    "plans": {
        "plain": {**GRID, "message_dtype": "fp32"},
        "naive": {**NAIVE, "message_dtype": "fp32"},
        "hybrid": {**HYBRID, "message_dtype": "fp32"},
        "fp16-plain": GRID,
        "fp16-naive": NAIVE,
        "hop": {**NAIVE, "compression": "naive-zfp:16", "compress_per_hop": True},
        "ddp": {},
    },
    "published": {"source": "a made-up table", "ratios": {"plain": 1.0, "naive": 1.225}},
}
# Finals of the baseline: 1.0, 1.2, 1.4, so that the band is ± 0.4.
FINALS = {"none": (1.0, 1.2, 1.4), "naive-zfp:8": (2.0, 2.2, 2.4), "MZHybrid": (1.3, 1.5, 1.7)}


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
def done(memory_bytes: float = 0.0, precision: str = "fp16", plans: tuple[str, ...] = ()) -> Study:
    settings: dict[str, Any] = {"model.precision": precision}
    if memory_bytes:
        settings["machine.overrides.device.hbm_bytes"] = memory_bytes
    return run_study(scenario_of(DOCUMENT, scenario_path(), settings, plans))


def view_of(known: LossCurves | None = None, made: Study | None = None) -> StudyView:
    made = made or done()
    return StudyView(study=replace(made, scenario=replace(made.scenario, losses=known)))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))


def rate(name: str, devices: int = 8) -> float:
    return next(float(o.row["tflops_per_device"]) for o in done().of(name) if o.devices == devices)


def rows(made: str) -> dict[str, list[str]]:
    """The rows of the section's table by plan."""
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", made)]
    return {plain(row[0]).strip(): [plain(cell).strip() for cell in row[1:]] for row in cells}


# ── when it is there ──


def test_a_study_without_compression_has_no_section() -> None:
    assert compression(StudyView(study=study())) == ""
    assert 'id="compression"' not in page(study(), None)
    assert compression(StudyView(study=done(plans=("fp16-plain", "ddp")))) == ""


def test_the_section_follows_the_published_figures() -> None:
    made = page(view_of(losses()).study, None)
    anchors = re.findall(r'<section id="(\w+)">', made)
    assert anchors[anchors.index("published") + 1] == "compression"
    assert '<a href="#compression">Compression</a>' in made


def test_wider_messages_alone_have_a_section() -> None:
    made = compression(StudyView(study=done(plans=("plain", "fp16-plain"))))
    assert "<h2>Compressed messages" in made and "callout" not in made
    assert rows(made)["plain"][5].endswith("200 %")


# ── the callout ──


def test_the_callout_says_what_the_study_and_the_losses_say() -> None:
    view = view_of(losses())
    first, second, *_ = (plain(message) for message in gains(view, compression_rows(view)))

    def gain(name: str, base: str) -> str:
        share = rate(name) / rate(base) - 1
        return plain(f"{name} {'gains' if share > 0 else 'loses'} {percent(abs(share))}")

    assert first == (
        f"With FP32 messages, against plain at 8 {view.devices}: {gain('naive', 'plain')} and leaves the loss band "
        f"(1.0 above the baseline’s loss); {gain('hybrid', 'plain')} and stays in the loss band."
    )
    assert second == (
        f"With FP16 messages, against fp16-plain at 8 {view.devices}: {gain('fp16-naive', 'fp16-plain')} and leaves "
        f"the loss band (1.0 above the baseline’s loss); hop gains nothing (no losses are known of it)."
    )


def test_without_losses_the_callout_tells_speed_alone() -> None:
    view = view_of()
    message = " ".join(gains(view, compression_rows(view)))
    assert "band" not in message and "loss" not in message
    made = plain(compression(view))
    assert "`make losses` trains a small model for real" in made
    assert "fig-trade-off" not in compression(view) and "fig-losses" not in compression(view)


def test_one_seed_gives_distances_and_no_verdict() -> None:
    one = replace(losses(), runs=tuple(run for run in losses().runs if run.seed == 0))
    view = view_of(one)
    assert (
        "naive gains" in (message := plain(" ".join(gains(view, compression_rows(view))))) or "naive loses" in message
    )
    assert "and ends 1.0 above the baseline’s loss" in message and "band" not in message
    assert "there is no band" in (made := plain(compression(view)))
    assert rows(compression(view))["naive"][-1] == "+1.00" and "in the band" not in made


def test_a_policy_that_diverges_says_so() -> None:
    view = view_of(replace(losses(), runs=losses(**{"naive-zfp:16_per_hop": (1.0, math.nan, 1.0)}).runs))
    assert plain(" ".join(gains(view, compression_rows(view)))).endswith(" and diverges.")
    made = compression(view)
    assert rows(made)["hop"][-1] == "diverged"
    assert "Not drawn, because its speed or its final loss is not known or not finite: hop." in plain(made)


def test_a_plan_without_a_baseline_says_so() -> None:
    view = StudyView(study=done(plans=("fp16-naive", "plain")))
    assert list(gains(view, compression_rows(view))) == [
        "fp16-naive has nothing to be held against: no plan sends FP16 messages uncompressed."
    ]


def test_plans_that_do_not_fit_are_told() -> None:
    view = view_of(losses(), done(1e4))
    assert all(one.gain is None for one in compression_rows(view))
    assert next(gains(view, compression_rows(view))) == (
        "naive has nothing to be held against: there is no size at which both it and plain fit."
    )
    made = compression(view)
    assert rows(made)["naive"][-2] == "does not fit" and "fig-trade-off" not in made and "fig-losses" in made


def test_the_gain_is_at_the_largest_size_that_fits() -> None:
    made = done()
    small = tuple(
        replace(o, row={**o.row, "fits": False}) if (o.plan, o.devices) == ("naive", 8) else o for o in made.outcomes
    )
    view = StudyView(study=replace(made, outcomes=small))
    naive = next(one for one in compression_rows(view) if one.plan == "naive")
    assert (naive.size, naive.gain) == (4, rate("naive", 4) / rate("plain", 4) - 1)
    assert "at 4" in rows(compression(view))["naive"][-1]


def test_an_fp32_model_has_one_type_of_messages() -> None:
    view = StudyView(study=done(precision="fp32"))
    assert {one.of for one in compression_rows(view)} == {"FP32"}
    assert {one.plan: one.baseline for one in compression_rows(view)} == {
        **dict.fromkeys(("plain", "naive", "hybrid"), "plain"),
        "fp16-plain": "fp16-plain",
        **dict.fromkeys(("fp16-naive", "hop"), "plain"),
    }
    assert list(trap(view, compression_rows(view), {})) == []


# ── the table ──


def test_the_table_has_codecs_bytes_and_gains() -> None:
    view = view_of(losses())
    result = rows(compression(view))
    assert set(result) == {"plan", "plain", "naive", "hybrid", "fp16-plain", "fp16-naive", "hop"}
    assert [result[plan][0] for plan in ("plain", "naive", "hop")] == [
        "plain FP32 messages",
        "zfp:8 FP32 messages",
        "zfp:16 FP16 messages, per hop",
    ]
    assert result["hybrid"][0] == "dp: zfp:8 tp, pp, zero: mpc:fp32 FP32 messages"
    share = rate("naive") / rate("plain") - 1
    assert result["naive"][-3:] == ["62.5 %", plain(f"{signed(share)} published +22.5 %"), "+1.00 outside it"]
    assert result["hybrid"][-1] == "+0.300 in the band" and result["plain"][-3:] == ["–", "–", "–"]
    assert result["fp16-plain"][1].endswith(" 100 %") and result["plain"][1].endswith(" 200 %")


def test_another_machine_has_no_published_gain() -> None:
    made = done()
    elsewhere = replace(made.scenario, settings=("machine.name = toy-cluster",))
    assert "published" not in compression(StudyView(study=replace(made, scenario=elsewhere)))


def test_16_bits_are_a_trap() -> None:
    view = view_of(losses())
    made = plain(compression(view))
    assert "coded they have 8 with zfp:8 (50.0 %) and 16 with zfp:16 (100 %)." in made
    same = [rate("naive") / rate("plain") - 1, rate("fp16-naive") / rate("fp16-plain") - 1]
    assert plain(f"naive-zfp:8 {signed(same[1])} on FP16 and {signed(same[0])} on FP32.") in made
    best = max(("plain", "hybrid"), key=rate)  # naive leaves the band
    ahead = rate("fp16-plain") / rate(best) - 1
    assert plain(f"{percent(abs(ahead))} {'above' if ahead > 0 else 'below'} {best} ({number(rate(best))})") in made
    assert "the fastest of the plans with FP32 messages whose loss stays in the band." in made


# ── figures ──


def test_figures_are_json_that_a_page_can_read() -> None:
    made = compression(view_of(losses(**{"naive-zfp:16_per_hop": (1.0, math.inf, math.nan)})))
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
    assert compression(view) == compression(view_of(losses()))
    assert "Losses: three seeds of a toy." in compression(view)
