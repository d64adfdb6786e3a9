"""How ranks are laid out, models and batches of a study, its timelines and its pipelines."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod

import pytest

from simfrontier.plan.tensor import AxonnOptions
from simfrontier.report.figures.pipeline import IDLE_NAME, NAMES, lanes, memory_bars
from simfrontier.report.figures.timeline import kind_of
from simfrontier.report.findings.assumptions import assumptions_of
from simfrontier.report.findings.breakdown import breakdown_of
from simfrontier.report.findings.headline import plan_limit
from simfrontier.report.findings.memory import memory_use
from simfrontier.report.findings.pipeline import pipelines_of
from simfrontier.report.findings.ranks import rank_grids, ranks_along
from simfrontier.report.findings.setup import setup_of
from simfrontier.report.findings.study import findings_of
from simfrontier.report.findings.timeline import critical_ranks
from simfrontier.report.page import page
from simfrontier.report.phrases import setting
from simfrontier.report.view import StudyView
from simfrontier.tuning import TriedGrid
from tests.report.studies import piped, sized, study
from tests.report.test_page import Page


def view() -> StudyView:
    done, _, searches = piped()
    return StudyView(study=done, searches=searches)


# ── grids ──


def test_a_grid_multiplies_to_the_devices() -> None:
    seen = view()
    assert ranks_along(seen.cases["pipe", 8]) == {"tensor": 2, "stages": 2, "data": 2}
    assert ranks_along(seen.cases["zero3", 8]) == {"data": 8}
    assert [prod(ranks_along(case).values()) for case in seen.cases.values()] == [size for _, size in seen.cases]


def test_every_plan_and_size_has_its_grid_and_batch() -> None:
    """16 sequences over 2 data-parallel ranks in micro-batches of 2: four of them; over 1 rank eight."""
    found = rank_grids(view())
    assert found.axes == ("X", "Y", "Z", "tensor", "stages")
    pipes = [one for one in found.grids if one.plan == "pipe"]
    batches = [(one.devices, one.ranks["data"], one.micro_batch, one.grad_accum, one.samples) for one in pipes]
    assert batches == [(4, 1, 2, 8, 16), (8, 2, 2, 4, 16)]
    searched = {(one.plan, one.devices): one.num_candidates for one in found.grids if one.is_searched}
    assert searched == {("axonn", 4): 6, ("axonn", 8): 6}


def test_plans_without_grids_and_pipelines_have_no_such_findings() -> None:
    found = findings_of(StudyView(study=study()))
    assert found.ranks is None and found.pipeline is None


def test_candidates_stand_best_first_and_say_why_they_cannot_run() -> None:
    (search,) = [one for one in rank_grids(view()).searches if one.devices == 8]
    assert list(search.candidates[0].options) == ["X", "Y", "Z", "data"] and search.by == ""
    (odd,) = [one for one in search.candidates if one.options["X"] == 3 and one.options["Y"] == 1]
    assert odd.options["data"] is None and odd.samples_per_s is None and "3" in odd.misfit

    def one(rate: float | None, x: int) -> TriedGrid:
        return TriedGrid(options=AxonnOptions(family="axonn", x=x), rate=rate, why="" if rate else "does not fit")

    seen = view()
    tried = {("axonn", 8): (one(None, 1), one(2.0, 2), one(3.0, 4), one(2.0, 8))}
    (made,) = rank_grids(StudyView(study=seen.study, searches=tried)).searches
    assert [each.options["X"] for each in made.candidates] == [4, 2, 8, 1]
    assert [each.misfit for each in made.candidates] == ["", "", "", "does not fit"]


def test_the_taken_grid_is_the_best_that_was_tried() -> None:
    searches = rank_grids(view()).searches
    assert [len(search.candidates) for search in searches] == [6, 6]
    assert [search.taken for search in searches] == [search.candidates[0].options for search in searches]


# ── what was simulated ──


def test_micro_batches_are_known_by_plan() -> None:
    found = setup_of(view())
    assert (found.micro_batch["zero3"], found.grad_accum["zero3"]) == ((1,), (2, 4))
    assert (found.micro_batch["pipe"], found.grad_accum["pipe"]) == ((2,), (4, 8))
    assert not found.per_device and found.samples == {4: 16, 8: 16}
    plain = setup_of(StudyView(study=study()))
    assert plain.per_device and set(plain.micro_batch.values()) == set(plain.grad_accum.values()) == {(1,)}


def test_the_work_is_said_to_be_the_same_only_where_it_is() -> None:
    assert setup_of(StudyView(study=study())).same_work and not setup_of(view()).same_work
    plain, grown = setup_of(StudyView(study=study())), setup_of(StudyView(study=sized()))
    assert list(plain.models) == [8] and list(grown.models) == [2, 8]
    assert [model.num_layers for model in grown.models.values()] == [1, 2]
    assert grown.num_parameters[2] < grown.num_parameters[8]


def test_options_of_the_data_axes_are_plain_values() -> None:
    found = assumptions_of(view())
    data = found.options["pipe"]["data"]
    assert data["family"] == "zero1" and data["gradient_codec"] == "fp16"
    assert setting(data).startswith("zero1 (gradient_codec fp16, ")
    assert {plan for plans in found.engine_of_plans.values() for plan in plans} >= {"axonn"}  # its engine is its own


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "yes"),
        (1024, "1,024"),
        ("fp16", "fp16"),
        (["a", 2], "(a, 2)"),
        ({"family": "zero1"}, "zero1"),
        ({"family": "zero1", "x": False}, "zero1 (x no)"),
        ({"over": ["gcd"], "codec": "int8"}, "(over (gcd), codec int8)"),
    ],
)
def test_settings_are_written_plainly(value: object, message: str) -> None:
    assert setting(value) == message


# ── pipelines ──


def test_the_lanes_hold_every_forward_and_backward_with_its_number() -> None:
    (outcome,) = view().piped
    assert outcome.stages is not None
    drawn = {trace["name"]: trace for trace in lanes(outcome.stages)["data"]}
    assert drawn[IDLE_NAME]["y"] == [0, 1] and len(set(drawn[IDLE_NAME]["x"])) == 1
    for kind in ("forward", "backward"):
        bars = drawn[NAMES[kind]]
        assert sorted(zip(bars["y"], bars["text"], strict=True)) == [(s, str(m)) for s in (0, 1) for m in range(4)]
        assert all("micro-batch" in message and "layer" in message for message in bars["hovertext"])
    assert len(drawn) <= 5


def test_the_bubble_stands_beside_its_closed_form() -> None:
    """Two stages, four micro-batches: (2 - 1) / (4 + 2 - 1) = 20 %."""
    (found,) = pipelines_of(view())
    known = found.stages
    assert (found.plan, len(known.stages), known.num_micro, known.chunks) == ("pipe", 2, 4, 1)
    assert found.closed_form == pytest.approx(0.2)
    assert found.bubble == pytest.approx(sum(one.bubble_s / known.pipeline_s for one in known.stages) / 2)
    for one in known.stages:
        spent_s = one.forward_s + one.backward_s + one.exchange_s + one.bubble_s
        assert 0.9 * known.pipeline_s < spent_s <= known.pipeline_s * (1 + 1e-9)


def test_pipelines_that_do_not_fit_show_their_memory_alone() -> None:
    seen = view()
    made = tuple(replace(o, row={**o.row, "fits": o.plan != "pipe", "note": "too big"}) for o in seen.study.outcomes)
    read = Page(page(replace(seen.study, outcomes=made)))
    assert "fig-stages" not in read.data and list(json.loads(read.data["fig-stage-memory"])) == ["pipe"]


def test_memory_is_stacked_by_stage_up_to_its_peak() -> None:
    (outcome,) = view().piped
    assert outcome.stages is not None
    bars = [trace for trace in memory_bars(outcome.stages, 1e12)["data"] if trace["type"] == "bar"]
    assert "embedding and head" in [trace["name"] for trace in bars]
    for number, stage in enumerate(outcome.stages.stages):
        assert sum(trace["y"][number] for trace in bars) == pytest.approx(stage.peak_bytes)
    capacity = [trace["name"] for trace in memory_bars(outcome.stages, outcome.stages.fullest.peak_bytes)["data"]]
    assert capacity[-1] == "capacity" and len(capacity) == len(bars) + 1


def test_pages_say_which_stage_is_drawn_and_that_idle_is_the_bubble() -> None:
    seen = view()
    (outcome,) = seen.piped
    assert outcome.stages is not None
    (fullest,) = memory_use(seen).fullest_stages
    assert (fullest.plan, fullest.stage, fullest.num_stages) == ("pipe", outcome.stages.fullest.stage, 2)
    assert {one.plan: one.stage for one in critical_ranks(seen)} == {
        "zero3": None,
        "pipe": outcome.stages.critical,
        "axonn": None,
    }
    assert breakdown_of(seen).has_pipelines and not breakdown_of(StudyView(study=study())).has_pipelines
    idle = replace(outcome, exposure=replace(outcome.exposure, idle=1e9))
    assert (plan_limit(idle).part, plan_limit(idle).is_pipeline) == ("idle", True)


def test_short_operations_of_a_long_program_are_joined_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simfrontier.report.figures.timeline.MOST", 10)
    monkeypatch.setattr("simfrontier.report.figures.timeline.SHORT", 1 / 20)
    monkeypatch.setattr("simfrontier.report.study_sections.MOST", 10)
    seen = view()
    read = Page(page(seen.study))
    drawn = json.loads(read.data["fig-timeline"])["pipe"]["data"]
    (pipe,) = [one for one in critical_ranks(seen) if one.plan == "pipe"]
    bars = {trace["name"]: (len(trace["base"]), sum(trace["x"])) for trace in drawn}
    assert sum(num for name, (num, _) in bars.items() if "waiting" not in name) < pipe.num_ops
    spans = next(o.trace for o in seen.drawn if o.plan == "pipe" and o.trace is not None).processes[0].spans
    for name, (_, took) in bars.items():
        if "waiting" not in name:  # no time is lost
            long_s = sum(span.end_s - span.start_s for span in spans if kind_of(span) == name)
            assert took == pytest.approx(long_s, rel=1e-6)
    assert pipe.num_ops > 10 and f"{pipe.num_ops:,} of pipe" in " ".join(read.words.split())
