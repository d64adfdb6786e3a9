"""How ranks are laid out, batches and models in words, and the section of pipelines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from simfrontier.plan.tensor import AxonnOptions
from simfrontier.report.assumptions import assumptions
from simfrontier.report.batches import batch, models, training, work
from simfrontier.report.findings.breakdown import breakdown_of
from simfrontier.report.findings.headline import plan_limit
from simfrontier.report.findings.memory import memory_use
from simfrontier.report.pipeline import IDLE_NAME, NAMES, lanes, memory_bars, pipeline
from simfrontier.report.ranks import grid, ordered, ranks, sizes
from simfrontier.report.timeline import timeline
from simfrontier.report.view import StudyView
from simfrontier.tuning import TriedGrid
from tests.report.studies import piped, sized, study
from tests.report.test_page import Page
from tests.report.test_published import plain, row


def view() -> StudyView:
    done, _, searches = piped()
    return StudyView(study=done, searches=searches)


# ── grids ──


def test_a_grid_multiplies_to_the_devices() -> None:
    seen = view()
    assert sizes(seen.cases["pipe", 8]) == {"X": 1, "Y": 1, "Z": 1, "tensor": 2, "stages": 2, "data": 2}
    assert grid(seen.cases["pipe", 8]) == "tensor 2 × stages 2 × data 2"
    assert grid(seen.cases["zero3", 8]) == "data 8"
    for (_, size), case in seen.cases.items():
        product = 1
        for count in sizes(case).values():
            product *= count
        assert product == size


def test_the_table_has_the_grid_and_the_batch_of_every_plan_and_size() -> None:
    """16 sequences over 2 data-parallel ranks in micro-batches of 2: four of them; over 1 rank eight."""
    made = ranks(view())
    assert row(made, 0)[-5:] == ["data", "micro-batch", "micro-batches", "sequences per step", "found by"]
    pipes = [row(made, number) for number in range(1, 7) if row(made, number)[0] == "pipe"]
    assert [cells[1] for cells in pipes] == ["4", "8"]
    assert [cells[-5:] for cells in pipes] == [["1", "2", "8", "16", "given"], ["2", "2", "4", "16", "given"]]
    assert "search of 6 candidates" in plain(made)


def test_plans_without_grids_need_no_such_section() -> None:
    assert ranks(StudyView(study=study())) == "" == pipeline(StudyView(study=study()))


def test_candidates_stand_best_first_and_say_why_they_cannot_run() -> None:
    made = plain(ranks(view()))
    assert "axonn on 8 GCDs: the 6 candidates of its search, best first" in made
    assert "X Y Z data sequences/s against the best" in made
    assert "3 1 1 – – x = 3 does not divide" in made or "3 1 1 – – grid x 3 = 3 ranks does not divide" in made
    assert "best" in made

    def one(rate: float | None, x: int) -> TriedGrid:
        return TriedGrid(options=AxonnOptions(family="axonn", x=x), rate=rate, why="" if rate else "does not fit")

    tried = [one(None, 1), one(2.0, 2), one(3.0, 4), one(2.0, 8)]
    assert [each.options.x for each in ordered(tried)] == [4, 2, 8, 1]  # type: ignore[attr-defined]


def test_the_taken_candidate_is_the_best_that_was_tried() -> None:
    seen = view()
    for (plan, size), tried in seen.searches.items():
        assert len(tried) == 6
        assert seen.scenario.resolved_options[plan, size] == ordered(tried)[0].options


# ── words ──


def test_micro_batches_are_said_by_plan_where_they_differ() -> None:
    seen = view()
    message = training(seen)
    assert message.startswith("micro-batch per data-parallel rank × micro-batches of a step: zero3 1 × 2 to 4; ")
    assert "pipe 2 × 4 to 8; axonn " in message
    assert batch(seen) == "steps of 16 sequences"
    assert training(StudyView(study=study())) == "micro-batch 1 per GCD, accumulation 1"


def test_the_work_is_said_to_be_the_same_only_where_it_is() -> None:
    assert work(StudyView(study=study())) == "The same work per GCD at every size."
    assert work(view()) == "Steps of 16 sequences at every size."
    grown = StudyView(study=sized())
    assert models(grown).startswith("tiny (") and " on 2 and tiny (" in models(grown) and models(grown).endswith("GCDs")
    assert work(grown).startswith("The model grows with the machine: tiny (")
    assert "model on 2 GCDs" in plain(assumptions(grown)) and "model on 8 GCDs" in plain(assumptions(grown))


def test_options_of_the_data_axes_are_readable() -> None:
    made = plain(assumptions(view()))
    assert "data zero1 (gradient_codec fp16" in made and "family=" not in made and "Options(" not in made
    assert "micro-batch per data-parallel rank" in made
    assert "; axonn: " in made  # its engine is its own


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
    made = pipeline(view())
    (outcome,) = view().piped
    assert outcome.stages is not None
    cells = row(made, 1)
    assert cells[:4] == ["pipe", "2", "4", "1"] and cells[5] == "20.0 %"
    assert float(cells[4].removesuffix(" %")) == pytest.approx(100 * outcome.stages.bubble, abs=0.05)
    assert [row(made, number)[0].split(" critical")[0] for number in (3, 4)] == ["stage 0", "stage 1"]


def test_pipelines_that_do_not_fit_show_their_memory_alone() -> None:
    seen = view()
    made = tuple(replace(o, row={**o.row, "fits": o.plan != "pipe", "note": "too big"}) for o in seen.study.outcomes)
    message = pipeline(StudyView(study=replace(seen.study, outcomes=made)))
    assert "No pipeline fits on 8 GCDs." in message and "fig-stages" not in message and "fig-stage-memory" in message


def test_memory_is_stacked_by_stage_up_to_its_peak() -> None:
    (outcome,) = view().piped
    assert outcome.stages is not None
    bars = [trace for trace in memory_bars(outcome.stages, 1e12)["data"] if trace["type"] == "bar"]
    assert "embedding and head" in [trace["name"] for trace in bars]
    for number, stage in enumerate(outcome.stages.stages):
        assert sum(trace["y"][number] for trace in bars) * 1e6 == pytest.approx(stage.peak_bytes)
    capacity = [trace["name"] for trace in memory_bars(outcome.stages, outcome.stages.fullest.peak_bytes)["data"]]
    assert capacity[-1] == "capacity" and len(capacity) == len(bars) + 1


def test_pages_say_which_stage_is_drawn_and_that_idle_is_the_bubble() -> None:
    seen = view()
    (outcome,) = seen.piped
    assert outcome.stages is not None
    (fullest,) = memory_use(seen).fullest_stages
    assert (fullest.plan, fullest.stage, fullest.num_stages) == ("pipe", outcome.stages.fullest.stage, 2)
    assert f", stage {outcome.stages.critical}" in plain(timeline(seen))
    assert breakdown_of(seen).has_pipelines and not breakdown_of(StudyView(study=study())).has_pipelines
    idle = replace(outcome, exposure=replace(outcome.exposure, idle=1e9))
    assert (plan_limit(idle).part, plan_limit(idle).is_pipeline) == ("idle", True)


def test_a_long_program_is_drawn_in_part_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simfrontier.report.timeline.MOST", 10)
    made = timeline(view())
    assert "The first 10 operations are drawn, of " in made and " of pipe" in made
    data = json.loads(Page(made).data["fig-timeline"])
    assert sum(len(t["base"]) for t in data["pipe"]["data"] if "waiting" not in t["name"]) == 10
