"""The section on compressed messages: when it is there, and that its numbers are the study's."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from simfrontier.report.findings.compression import compressed_plans
from simfrontier.report.findings.study import findings_of
from simfrontier.report.page import page, section
from simfrontier.report.phrases import percent, signed
from simfrontier.report.view import StudyView
from simfrontier.scenario import scenario_of
from simfrontier.study import Study, run_study
from tests.report.studies import scenario_path, study

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
    "stack": "none",
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


@cache
def done(memory_bytes: float = 0.0, precision: str = "fp16", plans: tuple[str, ...] = ()) -> Study:
    settings: dict[str, Any] = {"model.precision": precision}
    if memory_bytes:
        settings["machine.overrides.device.hbm_bytes"] = memory_bytes
    return run_study(scenario_of(DOCUMENT, scenario_path(), settings, plans))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))


def rate(name: str, devices: int = 8) -> float:
    return next(float(o.row["tokens_per_s_per_device"]) for o in done().of(name) if o.devices == devices)


def compression(view: StudyView) -> str:
    """The section as HTML."""
    return section("compression", findings_of(view), view)


def callouts(view: StudyView) -> list[str]:
    return [plain(text).strip() for text in re.findall(r'<p class="callout">(.*?)</p>', compression(view), re.S)]


def rows(made: str) -> dict[str, list[str]]:
    """The rows of the section's table by plan."""
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", made, re.S)]
    return {plain(row[0]).strip(): [plain(cell).strip() for cell in row[1:]] for row in cells}


# ── when it is there ──


def test_a_study_without_compression_has_no_section() -> None:
    assert compression(StudyView(study=study())) == ""
    assert 'id="compression"' not in page(study(), None)
    assert compression(StudyView(study=done(plans=("fp16-plain", "ddp")))) == ""


def test_the_section_follows_the_published_figures() -> None:
    made = page(done(), None)
    anchors = re.findall(r'<section id="(\w+)">', made)
    assert anchors[anchors.index("published") + 1] == "compression"
    assert '<a href="#compression">Compression</a>' in made


def test_wider_messages_alone_have_a_section() -> None:
    made = compression(StudyView(study=done(plans=("plain", "fp16-plain"))))
    assert "<h2>Compression" in made and "callout" not in made
    assert rows(made)["plain"][5].endswith("200 %")


# ── the callout ──


def test_the_callout_says_what_the_study_says() -> None:
    view = StudyView(study=done())
    first, second, *_ = callouts(view)

    def gain(name: str, base: str) -> str:
        share = rate(name) / rate(base) - 1
        return plain(f"{name} {'gains' if share > 0 else 'loses'} {percent(abs(share))}")

    assert first == (
        f"With FP32 messages, relative to plain at 8 {view.devices}: {gain('naive', 'plain')}; "
        f"{gain('hybrid', 'plain')}."
    )
    assert second == (
        f"With FP16 messages, relative to fp16-plain at 8 {view.devices}: {gain('fp16-naive', 'fp16-plain')}; "
        "hop gains nothing."
    )


def test_a_plan_without_a_baseline_says_so() -> None:
    view = StudyView(study=done(plans=("fp16-naive", "plain")))
    assert callouts(view) == ["fp16-naive has no baseline: no plan sends FP16 messages uncompressed."]


def test_plans_that_do_not_fit_are_told() -> None:
    view = StudyView(study=done(1e4))
    assert all(one.gain is None for one in compressed_plans(view))
    assert callouts(view)[0] == "naive has no baseline: at no size do both it and plain fit."
    made = compression(view)
    assert rows(made)["naive"][-1] == "does not fit"


def test_the_gain_is_at_the_largest_size_that_fits() -> None:
    made = done()
    small = tuple(
        replace(o, row={**o.row, "fits": False}) if (o.plan, o.devices) == ("naive", 8) else o for o in made.outcomes
    )
    view = StudyView(study=replace(made, outcomes=small))
    naive = next(one for one in compressed_plans(view) if one.plan == "naive")
    assert (naive.gain_devices, naive.gain) == (4, rate("naive", 4) / rate("plain", 4) - 1)
    assert "at 4" in rows(compression(view))["naive"][-1]


def test_an_fp32_model_has_one_type_of_messages() -> None:
    view = StudyView(study=done(precision="fp32"))
    assert {one.message_type for one in compressed_plans(view)} == {"FP32"}
    assert {one.plan: one.baseline for one in compressed_plans(view)} == {
        **dict.fromkeys(("plain", "naive", "hybrid"), "plain"),
        "fp16-plain": "fp16-plain",
        **dict.fromkeys(("fp16-naive", "hop"), "plain"),
    }


# ── the table ──


def test_the_table_has_codecs_bytes_and_gains() -> None:
    view = StudyView(study=done())
    result = rows(compression(view))
    assert set(result) == {"plan", "plain", "naive", "hybrid", "fp16-plain", "fp16-naive", "hop"}
    assert [result[plan][0] for plan in ("plain", "naive", "hop")] == [
        "plain FP32 messages",
        "zfp:8 FP32 messages",
        "zfp:16 FP16 messages, per hop",
    ]
    assert result["hybrid"][0] == "dp: zfp:8 tp, pp, zero: mpc:fp32 FP32 messages"
    share = rate("naive") / rate("plain") - 1
    assert result["naive"][-2:] == ["62.5 %", plain(f"{signed(share)} published +22.5 %")]
    assert result["plain"][-2:] == ["–", "–"]
    assert result["fp16-plain"][1].endswith(" 100 %") and result["plain"][1].endswith(" 200 %")


def test_another_machine_has_no_published_gain() -> None:
    made = done()
    elsewhere = replace(made.scenario, settings=("machine.name = toy-cluster",))
    assert "published" not in compression(StudyView(study=replace(made, scenario=elsewhere)))
