"""Published shares of the peak: what they are shares of, their ranges, and what is said of them on the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simfrontier.errors import InputError
from simfrontier.experiments import Sensitivity, VariedRates
from simfrontier.report.figures.sensitivity import dots
from simfrontier.report.findings.published import PublishedFigure, published_of, ratio_over_unknown, share_over_unknown
from simfrontier.report.findings.sensitivity import variations_of
from simfrontier.report.page import page
from simfrontier.report.view import StudyView, published_tflops, rate, step_s
from simfrontier.scenario import scenario_of
from simfrontier.study import run_study
from tests.facts import says
from tests.invoke import invoke
from tests.report.studies import PIPED, piped, scenario_path
from tests.report.test_page import Page
from tests.some import some

PEAK = 2e12  # flop/s of a toy device


def varied(peak: float = PEAK, **tflops: float) -> VariedRates:
    """Of a model of 1 GFLOP a token: 1000 tokens/s are 1 TFLOPS."""
    return VariedRates(
        label="a setting",
        key="engine.overlap",
        value="false",
        rates={plan: 1000.0 * rate for plan, rate in tflops.items()},
        tflops=tflops,
        fits=dict.fromkeys(tflops, True),
        peak_flops_per_s=peak,
    )


def sensitivity(default: dict[str, float], *rows: VariedRates, devices: int = 8) -> Sensitivity:
    return Sensitivity(
        devices=devices,
        plans=tuple(default),
        default=replace(varied(**default), label="", key="", value=""),
        varied=rows,
        fidelity="flow",
        required=(),
        strongest="nothing moves",
    )


def view(varied: Sensitivity | None = None) -> StudyView:
    done, _, searches = piped()
    return StudyView(study=done, sensitivity=varied, searches=searches)


def shares(seen: StudyView) -> tuple[PublishedFigure, ...]:
    found = published_of(seen)
    assert found is not None
    return found.shares


def test_a_share_is_the_hardwares_operations_over_the_nominal_peak() -> None:
    """As GPT-NeoX counts them: with activations of all layers recomputed, what the hardware does."""
    seen = view()
    known = {(share.plan, share.devices): share for share in shares(seen)}
    assert set(known) == {("pipe", 8), ("pipe", 4)}
    assert seen.scenario.peak_flops_per_s == PEAK
    for outcome in seen.study.of("pipe"):
        share = known["pipe", outcome.devices]
        assert share.predicted == pytest.approx(published_tflops(outcome) / 2.0, rel=1e-12)
        assert share.predicted == pytest.approx(float(outcome.row["hfu"]), rel=1e-12)
        assert share.predicted > float(outcome.row["mfu"])
        assert share.rate == rate(outcome)
    assert known["pipe", 8].published == 0.025 and known["pipe", 4].published == 0.05


def test_the_range_is_from_the_lowest_to_the_highest_of_default_and_variations() -> None:
    """Of a peak of 2 Tflop/s: 1.0 is 50 %, 0.6 30 %, 1.2 of a machine of 4 Tflop/s 30 %, 1.4 70 %."""
    seen = view(
        sensitivity({"a": 1.0, "b": 1.0}, varied(a=0.6, b=0.5), varied(4e12, a=1.2, b=1.2), varied(a=1.4, b=2.8))
    )
    assert share_over_unknown(seen, "a", 8) == (pytest.approx(0.3), pytest.approx(0.7))
    assert share_over_unknown(seen, "a", 4) is share_over_unknown(seen, "c", 8) is None
    assert share_over_unknown(view(), "a", 8) is None
    assert ratio_over_unknown(seen, "b", "a") == (pytest.approx(0.5 / 0.6), pytest.approx(2.0))
    assert ratio_over_unknown(seen, "c", "a") is ratio_over_unknown(view(), "b", "a") is None


def test_what_does_not_fit_is_no_end_of_a_range() -> None:
    assert share_over_unknown(view(sensitivity({"a": 1.0}, varied(a=float("nan")))), "a", 8) == (0.5, 0.5)
    assert share_over_unknown(view(sensitivity({"a": float("nan")})), "a", 8) is None


def test_each_size_has_its_own_range() -> None:
    small = sensitivity({"a": 1.0}, varied(a=0.2), devices=4)
    both = view(replace(sensitivity({"a": 1.0}, varied(a=1.6)), smaller=(small,)))
    assert share_over_unknown(both, "a", 8) == (0.5, 0.8)
    assert share_over_unknown(both, "a", 4) == (0.1, 0.5)


def test_the_range_of_samples_is_of_their_rates() -> None:
    """Steps of 1/0.95 to 1/0.8 of the median time: shares are 0.95 to 0.8 of the median share."""
    seen = view()
    made = tuple(
        replace(
            o,
            samples_s=np.ones(3),
            row={
                **o.row,
                "step_time_p05_s": step_s(o) / 0.95,
                "step_time_p95_s": step_s(o) / 0.8,
            },  # type: ignore[operator]
        )
        for o in seen.study.outcomes
    )
    for share in some(shares(StudyView(study=replace(seen.study, outcomes=made)))):
        assert share.predicted is not None
        assert share.sampled == (pytest.approx(0.8 * share.predicted), pytest.approx(0.95 * share.predicted))


def test_figures_stand_without_ratios_and_with_what_was_searched_for() -> None:
    done, varied, searches = piped()
    seen = StudyView(study=done, sensitivity=varied, searches=searches)
    found = published_of(seen)
    assert found is not None and found.ratios == ()
    assert (found.peak_flops_per_s, found.varied) == (PEAK, ("sequences per step",))
    assert all(share.unknown is not None and share.sampled is not None for share in found.shares if share.devices == 8)
    words = Page(page(done, varied, searches)).section("published")
    assert says(words, "recomputation included", "2 Tflop/s", "range of sensitivity", "pipe", "8", "2.5")


def test_a_published_plan_or_size_that_cannot_be_is_refused() -> None:
    def of(table: dict[str, Any]) -> str:
        with pytest.raises(InputError) as caught:
            scenario_of({**PIPED, "published": {"source": "x", "percent_of_peak": table}}, scenario_path())
        return str(caught.value)

    assert 'published.percent_of_peak: "pip" is not a plan of this scenario; did you mean' in of({"pip": {"8": 1}})
    assert "published.percent_of_peak" in of({"pipe": {"eight": 1}})


# ── one plan, several sizes ──


def test_the_only_plan_is_compared_by_its_rate() -> None:
    document = {**PIPED, "sensitivity": {**PIPED["sensitivity"], "plans": ["pipe"], "devices": [4, 8]}}
    scenario = scenario_of(document, scenario_path(), plans=("pipe", "zero3"))
    seen = StudyView(study=run_study(scenario))
    small = sensitivity({"pipe": 0.02}, varied(pipe=0.01), devices=4)
    both = replace(sensitivity({"pipe": 0.03}, varied(pipe=0.06)), smaller=(small,))
    found = variations_of(seen, both)
    assert [at.devices for at in found.sizes] == [8, 4] and found.compared == found.plans == ("pipe",)
    at_8, at_4 = found.sizes
    assert at_8.default.compared == {"pipe": 30.0} and [one.compared["pipe"] for one in at_4.varied] == [10.0]
    assert at_8.published == {"pipe": pytest.approx(50.0)}  # 2.5 % of 2 Tflop/s are 0.05 TFLOPS
    drawn = dots(found, at_8, seen.marks, seen.rate_unit)
    assert drawn["layout"]["xaxis"]["title"]["text"] == "tokens/s per GCD"
    assert [trace["x"] for trace in drawn["data"]] == [[30.0, 60.0], [pytest.approx(50.0)]]
    made = Page(page(seen.study, both)).section("sensitivity")
    assert says(made, "On 8", "nothing moves", "on 4", "nothing moves", "60.0", "10.0") and " : " not in made


# ── the terminal ──


def test_the_terminal_prints_a_line_per_published_figure(tmp_path: Path) -> None:
    path = tmp_path / "report-test.toml"
    path.write_text(
        """
name = "report-test"
title = "Shares"
machine.name = "toy-cluster"
model.name = "tiny"
run.devices = [2, 8]
plans.zero3 = {}
plans.ddp = {}
published.source = "made up"
published.ratios = { zero3 = 1.0, ddp = 4.0 }
published.percent_of_peak = { ddp = { "8" = 2.5, "4" = 3 } }

[sensitivity]
devices = 8
plans = ["zero3", "ddp"]
vary = [{ key = "training.micro_batch", label = "micro-batch", values = [2] }]
"""
    )
    done = invoke("run", path, "--out", tmp_path / "out", "--set", "uncertainty.samples=0")
    assert (done.code, done.err) == (0, "")
    lines = done.out.replace("\u00a0", " ").splitlines()
    (share,) = [line for line in lines if line.startswith("ddp on 8: published 2.5 % of the peak, predicted ")]
    assert share.endswith(" % over unknown settings")
    assert "ddp on 4: published 3 % of the peak, not run" in lines
    (ratio,) = [line for line in lines if "ddp : zero3 is" in line]
    assert says(ratio, "default prediction", "over unknown settings", "below", "the published 4")


def test_a_scenario_whose_plans_are_all_run_lacks_none(tmp_path: Path) -> None:
    """Nothing is said of variations where a scenario has none; it is where plans that it compares were left out."""
    text = """
name = "few"
title = "Few"
machine.name = "toy-cluster"
model.name = "tiny"
run.devices = [2]
plans.zero3 = {}
plans.ddp = {}
published.source = "made up"
published.ratios = { zero3 = 1.0, ddp = 4.0 }
"""
    path = tmp_path / "few.toml"
    path.write_text(text)
    message = "Sensitivity is left out"
    assert message not in invoke("run", path, "--out", tmp_path / "out").out
    assert message in invoke("run", path, "--plans", "zero3", "--out", tmp_path / "out").out
