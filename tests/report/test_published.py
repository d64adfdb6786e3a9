"""The prediction beside published figures: what is compared, with which error bars, and what is not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from simfrontier.report.assumptions import fitted_elsewhere
from simfrontier.report.page import page
from simfrontier.report.published import comparable, given, published, ratio_bands
from simfrontier.report.sensitivity import dots, named
from simfrontier.report.view import StudyView
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.sensitivity import VariedRates
from simfrontier.study import run_study
from tests.report.studies import SCENARIO, full, scenario_path, study

PLAIN = {key: value for key, value in SCENARIO.items() if key != "sensitivity"}


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))


def view_of(plans: tuple[str, ...] = (), devices: tuple[int, ...] = (), **settings: Any) -> StudyView:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return StudyView(study=run_study(scenario_of(PLAIN, scenario_path(), named, plans, devices)))


def row(page: str, number: int) -> list[str]:
    """The cells of a row of the section's tables."""
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    return [plain(cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", rows[number])]


# ── what was run ──


def test_a_plan_that_was_not_run_is_not_said_to_be_too_big() -> None:
    made = published(view_of(plans=("zero3",)), None)
    assert row(made, 2) == ["ddp", "4.000", "not run", "–", "not run"]
    assert row(made, 4) == ["ddp", "to 8", "0.900", "not run", "–"]
    assert "because ddp was not run." in plain(made) and "does not fit" not in made


def test_a_ratio_to_a_plan_that_was_not_run_is_not_given() -> None:
    cells = row(published(view_of(plans=("ddp",)), None), 2)
    assert cells[:4] == ["ddp", "4.000", "–", "–"] and float(cells[4]) > 0.0


def test_a_plan_that_does_not_fit_says_so() -> None:
    made = published(StudyView(study=study(2e6)), None)
    assert row(made, 2) == ["ddp", "4.000", "does not fit", "–", "does not fit"]
    assert row(made, 4) == ["ddp", "to 8", "0.900", "does not fit", "–"]


def test_an_efficiency_needs_two_sizes() -> None:
    cells = row(published(StudyView(study=study()), None), 4)
    assert cells[1] == "2 to 8" and float(cells[3]) > 0.0
    assert row(published(view_of(devices=(8,)), None), 4) == ["ddp", "8 to 8", "0.900", "not run", "–"]


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
    low, high = ratio_bands(view, 8, "zero3")["ddp"]
    np.testing.assert_allclose((low, high), (0.905, 0.995), rtol=1e-12)
    assert "(nine samples of ten: 0.905 to 0.995), " in plain(published(view, None))
    assert row(published(view, None), 2)[2].endswith("0.905 to 0.995")


def test_without_samples_there_is_no_band() -> None:
    view = view_of(uncertainty__samples=0)
    assert ratio_bands(view, 8, "zero3") == {}
    assert "samples" not in published(view, None)


# ── settings and machines ──


def test_what_was_set_is_named_unless_it_leaves_rates_as_they_are() -> None:
    assert given(view_of(uncertainty__samples=0)) == given(StudyView(study=study())) == []
    view = StudyView(study=replace(study(), fidelity="analytic"))
    assert given(view) == ["fidelity = analytic"]
    assert "predicted with fidelity = analytic set" in published(view, None)


def test_another_machine_is_not_judged_by_the_published_figures() -> None:
    view = StudyView(study=study(machine="toy-quad", devices=(2, 4)))
    assert comparable(view.scenario) is None
    made = published(view, None)
    assert "These figures are of the machine that the scenario file names; the prediction is for toy-quad" in made
    assert "findings" not in made and re.search(r"\d\s% (above|below)|equal within", plain(made)) is None
    done, varied = full()
    elsewhere = StudyView(study=replace(done, scenario=view.scenario))
    assert "published" not in str(dots(elsewhere, varied)) and "published" in str(dots(StudyView(study=done), varied))


def test_the_machine_that_the_file_names_is_no_other_one_when_it_is_set() -> None:
    """What is set to what the file says already changes nothing, so nothing is said of it."""
    view = view_of(machine__name="toy-cluster", run__devices=[2, 8], training__micro_batch=2)
    assert view.scenario.settings == ("training.micro_batch = 2",)
    assert comparable(view.scenario) is not None and "findings" in published(view, None)


def scenario(machine: str, **more: Any) -> Scenario:
    return scenario_of({**PLAIN, "machine": {"name": machine}, **more}, scenario_path())


def test_a_library_that_was_fitted_elsewhere_says_so() -> None:
    message = "nccl was fitted on perlmutter; nothing holds it on frontier"
    assert fitted_elsewhere(scenario("frontier", library={"name": "nccl"})) == message
    both = "cray-mpich was fitted on frontier and perlmutter; nothing holds it on lumi-g"
    assert fitted_elsewhere(scenario("lumi-g", library={"name": "cray-mpich"})) == both
    assert fitted_elsewhere(scenario("frontier")) == fitted_elsewhere(scenario("toy-cluster")) == ""
    assert fitted_elsewhere(scenario("frontier", library={"name": "gloo"})) == ""  # does not say where
    done = run_study(scenario("frontier", library={"name": "nccl"}, run={"devices": [8]}))
    assert f"GCDs. {message}.</p>" in page(done, None)


# ── values of variations ──


def test_varied_values_have_the_unit_of_their_key() -> None:
    def one(key: str, label: str, value: str) -> VariedRates:
        return VariedRates(label=label, key=key, value=value, rates={}, fits={}, peak_flops_per_s=1e12)

    hop = "library.overrides.ring.hop_between_nodes_s"
    assert named(one(hop, "hop latency, s", "0.000342")) == ("hop latency", "342\u00a0µs")
    assert named(one("engine.overlap", "overlap", "false")) == ("overlap", "false")
    assert named(one("training.micro_batch", "micro-batch, s", "4")) == ("micro-batch, s", "4")
