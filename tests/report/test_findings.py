"""Findings of a study: the numbers of results.csv by name, and the charts and tables that are made from them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from simfrontier.report import write_findings
from simfrontier.report.figures.breakdown import PARTS, step_bars
from simfrontier.report.figures.traffic import traffic_bars
from simfrontier.report.findings.breakdown import breakdown_of
from simfrontier.report.findings.headline import headline_of, plan_limit
from simfrontier.report.findings.memory import memory_use
from simfrontier.report.findings.study import findings_of
from simfrontier.report.findings.traffic import traffic_of
from simfrontier.report.page import SECTIONS, page
from simfrontier.report.view import StudyView, rate
from tests.report.studies import full, piped, study
from tests.report.test_page import Page
from tests.some import some

LITTLE = 2e6  # bytes of memory in which ddp does not fit


def test_the_parts_of_each_nominal_step_sum_to_it() -> None:
    found = breakdown_of(StudyView(study=study()))
    steps = [step for size in found.steps for step in found.steps[size]]
    assert len(steps) == 6  # three plans at two sizes
    for step in steps:
        assert step.parts_s is not None and step.nominal_step_s is not None and step.bound_s is not None
        assert sum(step.parts_s.values()) == pytest.approx(step.nominal_step_s, rel=1e-9)
        assert step.bound_s <= step.nominal_step_s * (1 + 1e-9)


def test_a_plan_that_does_not_fit_has_no_times_but_its_peak() -> None:
    view = StudyView(study=study(LITTLE))
    (ddp,) = [step for step in breakdown_of(view).steps[8] if step.plan == "ddp"]
    assert (ddp.fits, ddp.nominal_step_s, ddp.bound_s, ddp.parts_s) == (False, None, None, None)
    (peak,) = [peak for peak in memory_use(view).peaks if peak.plan == "ddp"]
    assert not peak.fits and peak.peak_bytes > LITTLE
    (sent,) = [plan for plan in traffic_of(view).plans if plan.plan == "ddp"]
    assert sent.links is None


def test_the_headline_has_the_plans_in_the_order_of_their_rates() -> None:
    found = headline_of(StudyView(study=study()))
    rates = {o.plan: rate(o) for o in study().outcomes if o.devices == 8}
    best, *others = sorted(rates, key=lambda plan: -rates[plan])
    assert found.best is not None and found.best.plan == best and found.best.rate == rates[best]
    assert [one.plan for one in found.ahead] == others
    assert [1 + one.lead for one in found.ahead] == pytest.approx([rates[best] / rates[plan] for plan in others])
    assert [one.plan for one in found.limits] == others


def test_what_limits_a_plan_is_its_largest_part_beside_compute() -> None:
    zero3 = next(o for o in study().outcomes if o.plan == "zero3" and o.devices == 8)
    limit = plan_limit(zero3)
    assert zero3.exposure.inter_node > zero3.exposure.intra_node
    assert (limit.part, limit.part_s, limit.misfit) == ("inter_node", zero3.exposure.inter_node, "")


def test_a_plan_that_does_not_fit_has_the_reason_and_no_part() -> None:
    limit = plan_limit(next(o for o in study(LITTLE).outcomes if o.plan == "ddp"))
    assert limit.misfit.startswith("needs 2.22 MB of 2 MB") and limit.nominal_step_s is None and limit.part == ""


def test_nothing_is_best_where_nothing_fits() -> None:
    found = headline_of(StudyView(study=study(1e3)))
    assert found.best is None and found.ahead == () and len(found.limits) == found.num_plans == 3


def test_the_peak_is_the_sum_of_what_is_held() -> None:
    for peak in some(memory_use(StudyView(study=study())).peaks):
        assert sum(peak.held_bytes.values()) == peak.peak_bytes


def test_bars_stack_the_parts_of_a_step() -> None:
    steps = breakdown_of(StudyView(study=study())).steps[8]
    *parts, bound = step_bars(steps)["data"]
    assert [trace["name"] for trace in parts] == [part.name for part in PARTS.values()]
    drawn_s = [sum(trace["x"][row] for trace in parts) for row in range(len(steps))]
    assert drawn_s == pytest.approx([step.nominal_step_s or 0.0 for step in steps])
    assert bound["x"] == pytest.approx([step.bound_s or 0.0 for step in steps])


def test_bytes_are_drawn_per_device_and_tabled_for_the_machine() -> None:
    found = traffic_of(StudyView(study=study()))
    drawn = [sum(trace["x"][row] for trace in traffic_bars(found)["data"]) for row in range(len(found.plans))]
    in_all = [sum(plan.sent_bytes.values()) for plan in found.plans]
    ratios = [whole / one for whole, one in zip(in_all, drawn, strict=True)]
    # 8 devices, and the unit of the chart: 8e3 bytes for kB or 8e6 for MB, the same for all plans.
    assert ratios == pytest.approx([ratios[0]] * len(ratios))


@pytest.mark.parametrize("memory_bytes", [0.0, LITTLE, 1e3])
def test_findings_are_read_back_from_json_as_they_were(tmp_path: Path, memory_bytes: float) -> None:
    done = study(memory_bytes)
    view = StudyView(study=done)
    found = findings_of(view)
    write_findings(found, view, tmp_path / "findings.json")
    read = json.loads((tmp_path / "findings.json").read_text())
    told = {name: section for name, section in asdict(found).items() if name != "slowdown"}
    assert read == json.loads(json.dumps(told, allow_nan=False))
    empty = {"ranks", "sensitivity", "environment", "pipeline"}
    assert {name for name, section in read.items() if section is None} == empty
    assert set(read) == {*SECTIONS, "setup"} - {"compression", "links", "slowdown"}  # links: with traffic
    steps = {
        (step["plan"], int(size)): step["nominal_step_s"] for size, row in read["time"]["steps"].items() for step in row
    }
    assert steps == {
        (o.plan, o.devices): o.row["step_time_nominal_s"] if o.row["fits"] else None for o in done.outcomes
    }


def test_sections_that_few_studies_have_are_read_back_too(tmp_path: Path) -> None:
    done, varied, searches = piped()
    view = StudyView(study=done, sensitivity=varied, searches=searches)
    write_findings(findings_of(view), view, tmp_path / "findings.json")
    read = json.loads((tmp_path / "findings.json").read_text())
    assert [one["plan"] for one in read["pipeline"]] == ["pipe"]
    assert [len(search["candidates"]) for search in read["ranks"]["searches"]] == [6, 6]
    assert read["sensitivity"]["plans"] == ["zero3", "pipe"]
    assert [share["published"] for share in read["published"]["shares"]] == [0.025, 0.05]


def test_the_page_has_a_chart_of_each_size_and_plan() -> None:
    done, varied = full()
    data = {name: json.loads(text) for name, text in Page(page(done, varied)).data.items()}
    assert list(data["fig-time"]) == ["8", "2"]
    assert list(data["fig-memory"]) == ["zero3", "ddp", "zeropp"]
    assert list(data["fig-bytes"]) == ["bytes"]
