"""How sure a ranking is, as shares, bands and bars: what is too close to call is called so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import astuple, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from simfrontier.accuracy import mean_step_error
from simfrontier.analysis import spread_of
from simfrontier.collectives import Residual
from simfrontier.machine import Device
from simfrontier.report.figures.scaling import rates, step_times
from simfrontier.report.findings.headline import headline_of
from simfrontier.report.findings.ranking import Ranking, ranking_of
from simfrontier.report.findings.samples import Sampled, sampled_rate, sampled_share, sampled_step_s
from simfrontier.report.findings.scaling import scaling_of
from simfrontier.report.findings.study import findings_of
from simfrontier.report.page import page, section, study_page
from simfrontier.report.phrases import as_percent, in_samples, number, percent
from simfrontier.report.render import environment
from simfrontier.report.summary import verdict
from simfrontier.report.theme import Figure
from simfrontier.report.view import StudyView, nominal_step_s, rate, step_s
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.study import PlanOutcome, Study, run_study
from tests.facts import says
from tests.report.studies import SCENARIO, scenario_path, study
from tests.report.test_page import Page
from tests.some import some


def plain(text: str) -> str:
    return re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " ")


def device(speed_sd: float) -> Device:
    return replace(study().scenario.machine.device, speed_sd=speed_sd)


def slow_devices() -> StudyView:
    """The study on a machine whose devices are known to differ in speed."""
    scenario = study().scenario
    machine = replace(scenario.machine, device=device(0.017))
    return StudyView(study=replace(study(), scenario=replace(scenario, machine=machine)))


def headline(view: StudyView) -> str:
    """The sentence that answers."""
    return plain(verdict(headline_of(view)))


def ranking_words(found: Ranking, view: StudyView) -> str:
    """The section on the ranking in words."""
    return plain(section("probability", replace(findings_of(view), probability=found), view))


def outcome(plan: str, size: int = 8, of: Study | None = None) -> PlanOutcome:
    return next(o for o in (of or study()).outcomes if (o.plan, o.devices) == (plan, size))


def middle_of(samples_s: list[float]) -> dict[str, float]:
    low, median, high = np.quantile(samples_s, (0.05, 0.5, 0.95)).tolist()
    return {"step_time_p05_s": low, "step_time_p50_s": median, "step_time_p95_s": high}


def with_samples(samples_s: dict[str, list[float]]) -> StudyView:
    """The study with other samples of its plans on 8 devices."""

    def changed(o: PlanOutcome, samples: list[float]) -> PlanOutcome:
        middle = middle_of(samples)
        median_s = middle["step_time_p50_s"]
        row = {"step_time_s": median_s, "tokens_per_s_per_device": rate(o) * step_s(o) / median_s}
        return replace(o, samples_s=np.array(samples), row={**o.row, **middle, **row})

    made = tuple(
        changed(o, samples_s[o.plan]) if o.devices == 8 and o.plan in samples_s else o for o in study().outcomes
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


@pytest.mark.parametrize(("wins", "is_sure"), [(90, True), (89, False)])
def test_nine_samples_of_ten_are_enough_to_call_it(wins: int, is_sure: bool) -> None:
    ddp = np.where(np.arange(100) < wins, 1.0, 3.0).tolist()
    view = with_samples({"ddp": ddp, "zero3": [2.0] * 100, "zeropp": [9.0] * 100})
    found = ranking_of(view)
    assert found.ranked[8][0] == "ddp" and found.pairs[8]["ddp"]["zero3"].faster_share == wins / 100
    words = ranking_words(found, view)
    assert (f"≈ {wins} %" in " ".join(words.split())) is not is_sure
    assert says(words, "faster on 8 than", "ddp", f"{wins} %")
    assert headline_of(view).too_close == (() if is_sure else ("zero3",))


def test_the_median_with_its_band_stands_beside_the_nominal_step() -> None:
    row = {"step_time_s": 2.4, "tokens_per_s_per_device": 50.0, "step_time_p05_s": 2.2, "step_time_p50_s": 2.4}
    zero3 = replace(outcome("zero3"), row={**outcome("zero3").row, **row, "step_time_p95_s": 2.5})
    assert sampled_step_s(zero3) == Sampled(low=2.2, median=2.4, high=2.5)
    # rates are as the inverse of times: 50, from 50 * 2.4 / 2.5 = 48 to 50 * 2.4 / 2.2 = 54.5
    sampled = sampled_rate(zero3)
    assert sampled is not None and astuple(sampled) == pytest.approx((48.0, 50.0, 120 / 2.2))
    assert sampled_step_s(replace(zero3, samples_s=None)) is sampled_rate(replace(zero3, samples_s=None)) is None
    found = headline_of(slow_devices())
    assert found.devices_differ and not headline_of(StudyView(study=study())).devices_differ
    assert found.best is not None and found.best.sampled_rate is not None
    low, median, high = astuple(found.best.sampled_rate)
    assert low < median < high
    assert found.best.rate == pytest.approx(median, rel=1e-12) != found.best.nominal_rate
    assert says(headline(slow_devices()), number(median), "90 % interval", f"{number(low)} to {number(high)}")


def test_a_ranking_that_samples_do_not_agree_on_is_too_close_to_call() -> None:
    fastest, second, slowest = study().outcomes[1::2]
    assert fastest.devices == 8
    view = with_samples(
        {fastest.plan: [1.0, 1.0, 2.0, 1.0], second.plan: [2.0, 2.0, 1.0, 2.0], slowest.plan: [3.0] * 4}
    )
    found = headline_of(view)
    assert found.best is not None and found.best.plan == fastest.plan
    assert found.too_close == (second.plan,)
    assert (found.ahead[0].plan, found.ahead[0].faster_share, found.ahead[0].num_samples) == (second.plan, 0.75, 4)
    assert says(headline(view), fastest.plan, second.plan, "too close to call")
    ranking = ranking_of(view)
    assert ranking.ranked[8] == (fastest.plan, second.plan, slowest.plan) and ranking.num_samples == 4
    assert {plan: pair.faster_share for plan, pair in ranking.pairs[8][fastest.plan].items()} == {
        second.plan: 0.75,
        slowest.plan: 1.0,
    }


@pytest.mark.parametrize(("more", "is_near"), [(0.9, True), (1.1, False)])
def test_a_lead_below_the_models_own_error_is_too_close_to_call_though_all_samples_agree(
    more: float, is_near: bool
) -> None:
    """Samples err in the same way for all plans, so that they agree on any difference."""
    lead = more * mean_step_error()
    fast = np.linspace(1.0, 1.5, 100)
    view = with_samples({"ddp": fast.tolist(), "zero3": (fast * (1 + lead)).tolist(), "zeropp": [9.0] * 100})
    found = headline_of(view)
    assert found.best is not None and found.best.plan == "ddp"
    assert (found.ahead[0].plan, found.ahead[0].faster_share) == ("zero3", 1.0)
    assert found.ahead[0].lead == pytest.approx(lead, rel=1e-9)
    assert found.too_close == (("zero3",) if is_near else ())
    assert says(headline(view), "ddp and zero3", "too close to call") == is_near
    assert says(headline(view), "within the model’s own error of a step", plain(percent(mean_step_error()))) == is_near
    assert says(headline(view), "ddp", "faster in more than 99 % of the samples") != is_near
    words = ranking_words(ranking_of(view), view)
    assert ("≈ &gt; 99 %" in " ".join(words.split())) == is_near


def test_a_ranking_that_samples_agree_on_says_so() -> None:
    fastest, second, slowest = study().outcomes[1::2]
    view = with_samples({fastest.plan: [1.0] * 4, second.plan: [2.0] * 4, slowest.plan: [3.0] * 4})
    found = headline_of(view)
    assert found.too_close == () and [one.faster_share for one in found.ahead] == [1.0, 1.0]
    assert says(headline(view), fastest.plan, "fastest", second.plan, "more than 75 % of the samples")


def test_the_example_of_what_errors_do_is_the_fastest_plan_at_the_largest_size() -> None:
    found = ranking_of(StudyView(study=study()))
    assert (found.example, found.example_devices) == (found.ranked[8][0], 8)
    row = outcome(found.example).row
    assert found.example_nominal_s == row["step_time_nominal_s"] and found.example_sampled_s == sampled_step_s(
        outcome(found.example)
    )
    words = ranking_words(found, slow_devices())
    assert says(words, found.example, found.example_devices, "nominal step", "median", "90 % interval")


def test_where_devices_are_not_known_to_differ_none_is_the_slowest() -> None:
    for view, differ in ((StudyView(study=study()), False), (slow_devices(), True)):
        found = findings_of(view)
        assert bool(re.search("the slowest GCD", study_page(found, view))) == differ


def listed_errors(scenario: Scenario) -> str:
    spread = spread_of(scenario.machine, scenario.library)
    return plain(
        str(environment(None).get_template("errors.html.j2").module.errors(spread, scenario.library.title, "GCD"))
    )


def test_what_is_sampled_and_what_is_not_known_are_listed() -> None:
    scenario = study().scenario
    residual, found = scenario.library.residual, ranking_of(StudyView(study=study())).errors
    assert residual is not None and found.law == residual and found.speed_sd == found.matmul_sd == 0.0
    words = listed_errors(scenario)
    assert says(
        words, plain(percent(residual.model_sd)), "error of the model of", plain(percent(residual.run_sd)), "run-to-run"
    )
    assert says(words, "Unknown", "speed between GCDs", "model of matrix products")
    known = replace(scenario, machine=replace(scenario.machine, device=device(0.017)))
    assert says(listed_errors(known), "1.7 %", "speed between GCDs", "Unknown")


def test_kinds_that_err_otherwise_than_the_rest_are_named() -> None:
    scenario = study().scenario
    law = Residual(model_sd=0.1, run_sd=0.0, small_sd=0.3, small_bytes=65536, all_reduce_sd=0.2, all_gather_sd=0.1)
    words = listed_errors(replace(scenario, library=replace(scenario.library, residual=law)))
    assert says(words, "10.0 %", "64 KiB", "30.0 %", "all-reduces", "20.0 %") and "all-gathers" not in words


@pytest.mark.parametrize(
    ("view", "any_fits", "num_samples"),
    [(without_samples, True, 0), (unknown, True, 200), (lambda: StudyView(study=study(1e3)), False, 200)],
)
def test_where_there_are_no_error_bars_the_findings_say_why(
    view: Callable[[], StudyView], any_fits: bool, num_samples: int
) -> None:
    found = ranking_of(view())
    assert (found.ranked, found.any_fits, found.num_samples) == ({}, any_fits, num_samples)
    assert found.example_nominal_s is None and found.example_sampled_s is None
    assert sampled_share(*view().study.outcomes[:2], 1.0) is None
    drawn = json.loads(Page(study_page(findings_of(view()), view())).data.get("fig-rate", "{}"))
    traces = [trace for figure in drawn.values() for trace in figure["data"]]
    assert not any("error_y" in trace or "fill" in trace for trace in traces)


# ── tables and charts ──


def test_every_pair_is_compared_twice_and_both_make_all() -> None:
    found = ranking_of(StudyView(study=study()))
    assert [len(plans) for plans in found.ranked.values()] == [3, 3]
    for pairs in found.pairs.values():
        both = [(pairs[a][b], pairs[b][a]) for a in pairs for b in pairs[a]]
        assert len(both) == 6
        for one, other in both:
            assert one.faster_share is not None and other.faster_share is not None
            assert one.faster_share + other.faster_share == pytest.approx(1.0)
            assert one.ratio.median * other.ratio.median == pytest.approx(1.0, rel=1e-3)
            assert one.too_close == other.too_close


def test_a_plan_that_does_not_fit_is_compared_with_none() -> None:
    found = ranking_of(StudyView(study=study(2e6)))
    assert set(found.ranked[8]) == {"zero3", "zeropp"} == set(found.pairs[8])


def drawn_of(figure: Figure, plan: str) -> dict[str, dict[str, Any]]:
    """The traces of a plan, which a click on its name hides together."""
    traces = [trace for trace in figure["data"] if trace["legendgroup"] == plan]
    kinds = {"line": "mode", "band": "fill", "nominal": "hovertext"}
    found = {
        kind: next(t for t in traces if key in t and (kind != "line" or "+" in t["mode"]))
        for kind, key in kinds.items()
    }
    assert len(traces) == 3 and [t["name"] for t in traces] == [plan] * 3
    assert [kind for kind in found if found[kind].get("showlegend", True)] == ["line"]
    return found


def test_lines_run_through_medians_inside_their_band_and_nominal_steps_are_faint_marks() -> None:
    view = StudyView(study=study())
    for plan in some(view.plans):
        found = scaling_of(view), view.marks, view.device
        for figure, is_rate in ((rates(*found, view.rate_unit), True), (step_times(*found), False)):
            drawn = drawn_of(figure, plan)
            band = drawn["band"]["y"]
            for place, size in enumerate((2, 8)):
                row = outcome(plan, size).row
                work = float(row["tokens_per_s_per_device"]) * float(row["step_time_s"])
                seconds = [float(row[f"step_time_{end}_s"]) for end in ("p05", "p50", "p95")]
                low, middle, high = sorted(work / s for s in seconds) if is_rate else seconds
                assert drawn["line"]["y"][place] == pytest.approx(middle, rel=1e-12)
                # The outline goes along the low ends and comes back along the high ones.
                assert (band[place], band[-1 - place]) == pytest.approx((low, high), rel=1e-12)
                nominal_s = nominal_step_s(outcome(plan, size))
                assert drawn["nominal"]["y"][place] == pytest.approx(work / nominal_s if is_rate else nominal_s)
            assert drawn["nominal"]["marker"]["color"].startswith("rgba(")


def test_of_a_single_size_the_band_is_a_bar() -> None:
    view = StudyView(study=study(devices=(8,)))
    figure = rates(scaling_of(view), view.marks, "GCD", view.rate_unit)
    for plan in view.plans:
        (bar,) = [trace for trace in figure["data"] if trace["legendgroup"] == plan and "error_y" in trace]
        row = outcome(plan).row
        work = float(row["tokens_per_s_per_device"]) * float(row["step_time_s"])
        assert bar["y"][0] + bar["error_y"]["array"][0] == pytest.approx(work / float(row["step_time_p05_s"]))
        assert bar["y"][0] - bar["error_y"]["arrayminus"][0] == pytest.approx(work / float(row["step_time_p95_s"]))


def test_the_chart_of_rates_has_step_times_behind_a_button() -> None:
    drawn = json.loads(Page(page(study())).data["fig-rate"])
    assert list(drawn) == ["tokens/s per GCD", "step time"]
