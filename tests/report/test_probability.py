"""How sure a ranking is, in words, tables and bands: what is too close to call is called so."""

from __future__ import annotations

import json
import re
from dataclasses import astuple, replace
from functools import cache

import numpy as np
import pytest

from simfrontier.report.findings.headline import headline_of
from simfrontier.report.page import headline
from simfrontier.report.phrases import number
from simfrontier.report.probability import (
    as_percent,
    bias,
    in_samples,
    probability,
    sampled,
    sampled_rate,
    sampled_step,
    share_faster,
    sources,
    verdict,
)
from simfrontier.report.reading import definitions
from simfrontier.report.scaling import rates, scaling, step_times
from simfrontier.report.view import StudyView
from simfrontier.scenario import scenario_of
from simfrontier.study import PlanOutcome, Study, run_study
from tests.report.studies import SCENARIO, scenario_path, study
from tests.report.test_page import Page


def plain(text: str) -> str:
    return re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " ")


def outcome(plan: str, size: int = 8, of: Study | None = None) -> PlanOutcome:
    return next(o for o in (of or study()).outcomes if (o.plan, o.devices) == (plan, size))


def with_samples(samples_s: dict[str, list[float]]) -> StudyView:
    """The study with other samples of its plans on 8 devices."""
    made = tuple(
        replace(o, samples_s=np.array(samples_s[o.plan])) if o.devices == 8 and o.plan in samples_s else o
        for o in study().outcomes
    )
    return StudyView(study=replace(study(), outcomes=made))


@cache
def without_samples() -> StudyView:
    document = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}
    return StudyView(study=run_study(scenario_of(document, scenario_path(), {"uncertainty.samples": 0})))


@cache
def unknown() -> StudyView:
    scenario = study().scenario
    return StudyView(study=run_study(replace(scenario, library=replace(scenario.library, residual=None))))


# ── words ──


@pytest.mark.parametrize(
    ("share", "num_samples", "message"),
    [
        (1.0, 200, "more than 99 % of the samples"),  # 1 - 1/200 is 99.5 %, which 99 % is below
        (0.0, 200, "fewer than 1 % of the samples"),
        (1.0, 20, "more than 95 % of the samples"),
        (0.0, 20, "fewer than 5 % of the samples"),
        (1.0, 100_000, "more than 99 % of the samples"),  # whole numbers only
        (0.97, 200, "97 % of the samples"),
        (0.57, 200, "57 % of the samples"),
        (0.999, 1000, "99 % of the samples"),
        (0.895, 200, "89 % of the samples"),  # less than 90 %, so it must not say 90
        (0.545, 200, "54 % of the samples"),  # and 46, not 46 and 55
        (0.455, 200, "46 % of the samples"),
        (0.001, 1000, "1 % of the samples"),
    ],
)
def test_shares_never_say_more_than_there_is(share: float, num_samples: int, message: str) -> None:
    assert plain(in_samples(share, num_samples)) == message


def test_in_a_table_all_and_none_are_signs() -> None:
    assert [plain(as_percent(share, 200)) for share in (1.0, 0.995, 0.0)] == ["> 99 %", "99 %", "< 1 %"]


@pytest.mark.parametrize(
    ("wins", "message"),
    [
        (90, "ddp is faster than zero3 in 90 % of the samples."),
        (89, "ddp and zero3 are too close to call: ddp is faster in 89 % of the samples."),
    ],
)
def test_nine_samples_of_ten_are_enough_to_call_it(wins: int, message: str) -> None:
    ddp = replace(outcome("ddp"), samples_s=np.where(np.arange(100) < wins, 1.0, 3.0))
    zero3 = replace(outcome("zero3"), samples_s=np.full(100, 2.0))
    assert plain(verdict(ddp, zero3)) == message


def test_the_median_with_its_band_stands_beside_the_typical_step() -> None:
    row = {"step_time_s": 2.0, "tflops_per_device": 60.0, "step_time_p05_s": 2.2, "step_time_p50_s": 2.4}
    zero3 = replace(outcome("zero3"), row={**outcome("zero3").row, **row, "step_time_p95_s": 2.5})
    scenario = study().scenario
    # rates are as the inverse of times: 60 * 2.0 / 2.4 = 50, from 60 * 2.0 / 2.5 = 48 to 60 * 2.0 / 2.2 = 54.5
    assert sampled_rate(scenario, zero3) == "median of the samples: 50.0 (48.0 to 54.5)"
    device = replace(scenario.machine.device, speed_sd=0.017)
    slow = replace(scenario, machine=replace(scenario.machine, device=device))
    assert sampled_rate(slow, zero3) == "with the slowest of 8: 50.0 (48.0 to 54.5)"
    assert plain(sampled_step(slow, zero3)) == "with the slowest of 8: 2.40 s (2.20 s to 2.50 s)"
    assert (
        sampled_rate(slow, replace(zero3, samples_s=None)) == sampled_step(slow, replace(zero3, samples_s=None)) == ""
    )
    view = StudyView(study=replace(study(), scenario=slow))
    found = headline_of(view)
    assert found.devices_differ and not headline_of(StudyView(study=study())).devices_differ
    assert found.best is not None and found.best.sampled_tflops is not None
    low, median, high = astuple(found.best.sampled_tflops)
    assert low < median < high
    median_words = f"where all are typical (with the slowest of 8: {number(median)})"
    assert median_words in plain(headline(view))


def test_a_ranking_that_samples_do_not_agree_on_is_too_close_to_call() -> None:
    fastest, second, slowest = sorted(study().outcomes[1::2], key=lambda o: float(o.row["step_time_s"]))
    assert fastest.devices == 8
    view = with_samples(
        {fastest.plan: [1.0, 1.0, 2.0, 1.0], second.plan: [2.0, 2.0, 1.0, 2.0], slowest.plan: [3.0] * 4}
    )
    found = headline_of(view)
    assert found.best is not None and found.best.plan == fastest.plan
    assert found.too_close == (second.plan,)
    assert (found.ahead[0].plan, found.ahead[0].faster_share, found.ahead[0].num_samples) == (second.plan, 0.75, 4)
    message = plain(headline(view))
    assert f"{fastest.plan} and {second.plan} are too close to call; {fastest.plan} leads: " in message
    assert "predicted to be the fastest" not in message
    assert f"{fastest.plan} and {second.plan} are too close to call" in plain(probability(view))
    assert f"{second.plan} is faster than {slowest.plan} in more than 75 % of the samples." in plain(probability(view))


def test_a_ranking_that_samples_agree_on_says_so() -> None:
    fastest, second, slowest = sorted(study().outcomes[1::2], key=lambda o: float(o.row["step_time_s"]))
    view = with_samples({fastest.plan: [1.0] * 4, second.plan: [2.0] * 4, slowest.plan: [3.0] * 4})
    found = headline_of(view)
    assert found.too_close == () and [one.faster_share for one in found.ahead] == [1.0, 1.0]
    message = plain(headline(view))
    assert f"{fastest.plan} is predicted to be the fastest: " in message
    assert f"; {fastest.plan} is faster than {second.plan} in more than 75 % of the samples." in message


def test_the_bias_of_the_slowest_device_is_said_in_plain_words() -> None:
    zero3 = outcome("zero3")
    view = StudyView(study=study())
    device = replace(view.scenario.machine.device, speed_sd=0.017)
    machine = replace(view.scenario.machine, device=device)
    slow = StudyView(study=replace(study(), scenario=replace(view.scenario, machine=machine)))
    slower = replace(zero3, samples_s=float(zero3.row["step_time_s"]) * np.linspace(1.1, 1.2, 101))
    message = plain(bias(slow, slower))
    assert "a step waits for the slowest of all 8 GCDs" in message and "not only less certain" in message
    assert message.endswith("; the typical step lies below that range.")
    around = replace(zero3, samples_s=float(zero3.row["step_time_s"]) * np.linspace(0.9, 1.1, 101))
    assert "the typical step lies" not in bias(slow, around)
    assert "a step waits for the slowest" not in bias(view, around)  # its machine does not say how far devices differ


def test_where_devices_are_not_known_to_differ_none_is_typical_or_the_slowest() -> None:
    view = StudyView(study=study())
    device = replace(view.scenario.machine.device, speed_sd=0.017)
    scenario = replace(view.scenario, machine=replace(view.scenario.machine, device=device))
    for seen, message in ((view, False), (StudyView(study=replace(study(), scenario=scenario)), True)):
        for words in (plain(headline(seen)), plain(scaling(seen)), definitions(seen)["step_time_s"]):
            assert bool(re.search("typical|slowest device", words)) == message
    assert "typical" not in plain(probability(view))


def test_what_is_sampled_and_what_is_not_known_are_listed() -> None:
    residual = study().scenario.library.residual
    assert residual is not None and study().scenario.machine.device.speed_sd == 0.0
    parts = [plain(sentence) for sentence in sources(StudyView(study=study()))]
    assert parts[0].startswith(f"{100 * residual.model_sd:.1f} %: the law of ")
    assert parts[1] == f"{100 * residual.run_sd:.1f} %: single calls from run to run, an error for each."
    wider = replace(residual, small_bytes=4 * 2**20, small_sd=0.2)
    scenario = replace(study().scenario, library=replace(study().scenario.library, residual=wider))
    assert "messages below 4 MiB 20.0 %" in plain(next(sources(StudyView(study=replace(study(), scenario=scenario)))))
    assert parts[2] == "Not known, and so not sampled: speed between GCDs and the law of matrix products."


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (without_samples, "the scenario asks for no samples (uncertainty.samples = 0)"),
        (unknown, "neither the machine’s file (device.speed_sd, device.matmul_sd) nor the library’s (residual) says"),
        (lambda: StudyView(study=study(1e3)), "No plan fits on 2 and 8 GCDs, so there is nothing to compare."),
    ],
)
def test_where_there_are_no_error_bars_the_page_says_why(view: object, message: str) -> None:
    seen = view()  # type: ignore[operator]
    assert message in plain(probability(seen)) and "<table" not in probability(seen)
    for section in (headline(seen), scaling(seen)):
        assert "sample" not in section and '"toself"' not in section
    assert share_faster(*seen.study.outcomes[:2]) is None


# ── tables and charts ──


def test_the_table_of_pairs_has_every_pair_twice_and_both_make_all() -> None:
    view = StudyView(study=study())
    ranked = sampled(view, 8)
    assert len(ranked) == 3
    for a in ranked:
        for b in ranked:
            one, other = share_faster(a, b), share_faster(b, a)
            assert one is not None and other is not None and one + other == pytest.approx(1.0)
    assert probability(view).count('<th scope="row">') == 2 * 3  # on 8 devices and on 2
    assert re.findall(r'data-show="(\d+)" aria-pressed="(\w+)"', probability(view)) == [("8", "true"), ("2", "false")]


def test_a_plan_that_does_not_fit_is_compared_with_none() -> None:
    view = StudyView(study=study(2e6))
    assert [o.plan for o in sampled(view, 8)] == ["zero3", "zeropp"]
    assert "ddp" not in plain(probability(view))


def test_bars_hold_nine_samples_of_ten_around_their_median_and_go_away_with_their_line() -> None:
    view = StudyView(study=study())
    for plan in view.plans:
        for figure, is_rate in ((rates(view), True), (step_times(view), False)):
            line, bars = (trace for trace in figure["data"] if trace["name"] == plan)
            assert bars["mode"] == "markers" and "error_y" not in line
            assert bars["legendgroup"] == line["legendgroup"] == plan and bars["showlegend"] is False
            for place, size in enumerate((2, 8)):
                row = outcome(plan, size).row
                work = float(row["tflops_per_device"]) * float(row["step_time_s"])
                seconds = [float(row[f"step_time_{end}_s"]) for end in ("p05", "p50", "p95")]
                low, middle, high = sorted(work / s for s in seconds) if is_rate else seconds
                assert line["y"][place] == pytest.approx(row["tflops_per_device" if is_rate else "step_time_s"])
                assert bars["y"][place] == pytest.approx(middle, rel=1e-12)
                error = bars["error_y"]
                assert error["array"][place] == pytest.approx(high - middle, rel=1e-9)
                assert error["arrayminus"][place] == pytest.approx(middle - low, rel=1e-9)


def test_bars_of_one_size_stand_side_by_side_nearer_to_it_than_to_another() -> None:
    view = StudyView(study=study())
    bars = [trace for trace in rates(view)["data"] if "error_y" in trace]
    for place, size in enumerate((2, 8)):
        stands = [trace["x"][place] for trace in bars]
        assert stands == sorted(set(stands)) and len(stands) == 3
        assert stands[1] == pytest.approx(size)
        assert all(1 / 2 < stand / size < 2 for stand in stands)


def test_a_single_size_has_bars_side_by_side() -> None:
    bars = [trace for trace in rates(StudyView(study=study(devices=(8,))))["data"] if "error_y" in trace]
    assert len({trace["x"][0] for trace in bars}) == 3


def test_the_chart_of_rates_has_step_times_behind_a_button() -> None:
    drawn = json.loads(Page(scaling(StudyView(study=study()))).data["fig-rate"])
    assert list(drawn) == ["TFLOPS per GCD", "step time"]
