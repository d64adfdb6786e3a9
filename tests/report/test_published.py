"""The prediction beside published figures: what is compared, with which error bars, and what is not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfrontier.experiments import VariedRates
from simfrontier.report.figures.sensitivity import dots
from simfrontier.report.findings.published import Published, published_of
from simfrontier.report.findings.sensitivity import setting_of, variations_of
from simfrontier.report.findings.setup import fitted_elsewhere
from simfrontier.report.page import page
from simfrontier.report.view import StudyView, comparable, published_tflops, rate
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.study import run_study
from tests.facts import says
from tests.report.studies import SCENARIO, full, scenario_path, study
from tests.report.test_page import Page

PLAIN = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))


def view_of(plans: tuple[str, ...] = (), devices: tuple[int, ...] = (), **settings: Any) -> StudyView:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return StudyView(study=run_study(scenario_of(PLAIN, scenario_path(), named, plans, devices)))


def found_in(view: StudyView) -> Published:
    found = published_of(view)
    assert found is not None
    return found


def words(view: StudyView) -> str:
    """The section in words."""
    return plain(Page(page(view.study, view.sensitivity, view.searches)).section("published"))


# ── what was run ──


def test_a_plan_that_was_not_run_is_not_said_to_be_too_big() -> None:
    found = found_in(view_of(plans=("zero3",)))
    (_, ddp), (efficiency,) = found.ratios, found.efficiencies
    assert (ddp.plan, ddp.published, ddp.predicted, ddp.state) == ("ddp", 4.0, None, "not run")
    assert (efficiency.first, efficiency.devices, efficiency.state) == (None, 8, "not run")
    assert [one.rate is None for one in found.ratios] == [False, True]


def test_a_ratio_to_a_plan_that_was_not_run_is_not_given() -> None:
    found = found_in(view_of(plans=("ddp",)))
    assert [(one.plan, one.predicted, one.state) for one in found.ratios] == [
        ("zero3", None, "not run"),
        ("ddp", None, ""),
    ]
    assert found.ratios[1].rate == rate(view_of(plans=("ddp",)).drawn[0])
    assert says(words(view_of(plans=("ddp",))), "zero3", "not run", "ddp", "4.000")


def test_a_plan_that_does_not_fit_says_so() -> None:
    found = found_in(StudyView(study=study(2e6)))
    assert [(one.plan, one.predicted, one.state) for one in found.ratios] == [
        ("zero3", 1.0, ""),
        ("ddp", None, "does not fit"),
    ]
    assert [one.state for one in found.efficiencies] == ["does not fit"]


def test_an_efficiency_needs_two_sizes() -> None:
    (two,) = found_in(StudyView(study=study())).efficiencies
    rates = {o.devices: published_tflops(o) for o in study().outcomes if o.plan == "ddp"}
    assert (two.first, two.devices, two.state) == (2, 8, "") and two.predicted == rates[8] / rates[2]
    (one,) = found_in(view_of(devices=(8,))).efficiencies
    assert (one.first, one.devices, one.predicted, one.state) == (8, 8, None, "not run")


def test_a_ratio_is_of_the_rates_at_the_largest_size() -> None:
    found = found_in(StudyView(study=study()))
    outcomes = {o.plan: o for o in study().outcomes if o.devices == 8}
    assert [one.rate for one in found.ratios] == [rate(outcomes["zero3"]), rate(outcomes["ddp"])]
    ratio = rate(outcomes["ddp"]) / rate(outcomes["zero3"])
    assert [one.predicted for one in found.ratios] == [1.0, pytest.approx(ratio, rel=1e-12)]
    for one in found.ratios[1:]:
        assert one.sampled is not None and one.predicted is not None
        assert one.sampled[0] <= one.predicted <= one.sampled[1]


def test_a_ratio_without_samples_is_of_nominal_steps() -> None:
    view = view_of(uncertainty__samples=0)
    steps = {o.plan: float(o.row["step_time_nominal_s"]) for o in view.drawn}
    assert found_in(view).ratios[1].predicted == pytest.approx(steps["zero3"] / steps["ddp"], rel=1e-12)


# ── error bars ──


def test_the_band_of_a_ratio_is_of_paired_samples() -> None:
    view = StudyView(study=study())
    ratio = np.linspace(0.9, 1.0, 101)  # quantiles at 5 and 95 %: 0.905 and 0.995
    shared = np.random.default_rng(0).uniform(1.0, 9.0, 101)  # the same for both, so that it cancels
    samples = {"zero3": shared, "ddp": shared / ratio, "zeropp": shared}
    made = tuple(
        replace(o, samples_s=samples[o.plan]) if o.devices == 8 and o.plan in samples else o
        for o in view.study.outcomes
    )
    view = StudyView(study=replace(view.study, outcomes=made))
    zero3, ddp = found_in(view).ratios
    assert zero3.sampled is None and ddp.sampled == pytest.approx((0.905, 0.995), rel=1e-12)
    assert says(words(view), "ddp", "4.000", "0.905 to 0.995")


def test_without_samples_there_is_no_band() -> None:
    assert [one.sampled for one in found_in(view_of(uncertainty__samples=0)).ratios] == [None, None]


# ── settings and machines ──


def test_what_was_set_is_named_unless_it_leaves_rates_as_they_are() -> None:
    assert view_of(uncertainty__samples=0).changed_settings == StudyView(study=study()).changed_settings == ()
    view = StudyView(study=replace(study(), fidelity="analytic"))
    assert view.changed_settings == ("fidelity = analytic",) == found_in(view).changed_settings
    assert says(words(view), "with fidelity = analytic")


def test_another_machine_is_not_judged_by_the_published_figures() -> None:
    view = StudyView(study=study(machine="toy-quad", devices=(2, 4)))
    assert comparable(view.scenario) is None and not found_in(view).judged
    assert says(words(view), "predicted for toy-quad")
    assert re.search(r"\d\s% (above|below)|equal within", words(view)) is None
    done, varied = full()
    elsewhere = StudyView(study=replace(done, scenario=view.scenario))
    for seen, published in ((elsewhere, {}), (StudyView(study=done), {"zero3": 1.0, "ddp": 4.0})):
        found = variations_of(seen, varied)
        assert found.sizes[0].published == published
        stars = [
            t
            for t in dots(found, found.sizes[0], seen.marks, "tokens/s per GCD")["data"]
            if t["marker"]["symbol"] == "star"
        ]
        assert [t["x"] for t in stars] == ([[4.0]] if published else [])


def test_the_machine_that_the_file_names_is_no_other_one_when_it_is_set() -> None:
    """What is set to what the file says already changes nothing, so nothing is said of it."""
    view = view_of(machine__name="toy-cluster", run__devices=[2, 8], training__micro_batch=2)
    assert view.scenario.settings == ("training.micro_batch = 2",)
    assert comparable(view.scenario) is not None and found_in(view).judged


def scenario(machine: str, **more: Any) -> Scenario:
    return scenario_of({**PLAIN, "machine": {"name": machine}, **more}, scenario_path())


def test_a_library_that_was_fitted_elsewhere_says_so() -> None:
    assert fitted_elsewhere(scenario("frontier", library={"name": "nccl"})) == ("perlmutter",)
    assert fitted_elsewhere(scenario("lumi-g", library={"name": "cray-mpich"})) == ("frontier", "perlmutter")
    assert fitted_elsewhere(scenario("frontier")) == fitted_elsewhere(scenario("toy-cluster")) == ()
    assert fitted_elsewhere(scenario("frontier", library={"name": "gloo"})) == ()  # does not say where
    done = run_study(scenario("frontier", library={"name": "nccl"}, run={"devices": [8]}))
    assert says(Page(page(done)).words, "nccl", "perlmutter", "frontier")


# ── values of variations ──


def test_varied_values_have_the_unit_of_their_key() -> None:
    def one(key: str, label: str, value: str) -> VariedRates:
        return VariedRates(label=label, key=key, value=value, rates={}, tflops={}, fits={}, peak_flops_per_s=1e12)

    hop = "library.overrides.ring.hop_between_nodes_s"
    assert setting_of(one(hop, "hop latency, s", "0.000342")) == ("hop latency", "342\u00a0µs")
    assert setting_of(one("engine.overlap", "overlap", "false")) == ("overlap", "false")
    assert setting_of(one("training.micro_batch", "micro-batch, s", "4")) == ("micro-batch, s", "4")
