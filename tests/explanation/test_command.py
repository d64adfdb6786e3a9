"""`simfrontier explain`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from simfrontier.explanation import explain
from simfrontier.report.explanation import explanation_page
from simfrontier.report.findings.explanation import shown_differences, shown_parts
from simfrontier.report.phrases import options
from simfrontier.scenario import load_scenario
from tests.explanation.toys import of_grids, of_toy
from tests.invoke import TOY, Ran, invoke, refusal
from tests.report.test_page import Page

QUICK = ("--fidelity", "analytic", "--devices", "8")


@cache
def printed() -> Ran:
    return invoke("explain", TOY, "--plan", "zero3", "--against", "zero-topo", *QUICK)


def document(*more: str | Path) -> dict[str, Any]:
    ran = invoke("explain", TOY, *QUICK, "--json", *more)
    assert (ran.code, ran.err) == (0, "")
    known: dict[str, Any] = json.loads(ran.out)
    return known


# ── for a person ──


def test_the_terminal_has_the_parts_the_changes_and_the_difference() -> None:
    ran = printed()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Tiny GPT on a toy cluster (analytic). A nominal step of zero3 on 8 GCDs takes ")
    for heading in ("Where a step of zero3 goes", "Possible improvements, each simulated", "zero3 against zero-topo"):
        assert heading in ran.out
    assert "What would help most: " in ran.out
    assert "Less than 0.1 % either way: " in ran.out
    assert re.search(r"^zero3 is \S+ m?s faster than zero-topo: ", ran.out, re.M)
    assert "--set machine.overrides.link_classes.nic.bytes_per_s=2000000000.0" in ran.out
    assert "\u00a0" not in ran.out


def test_without_what_if_nothing_is_tried() -> None:
    ran = invoke("explain", TOY, "--no-what-if", *QUICK)
    assert ran.code == 0
    assert "Where a step of " in ran.out and "help" not in ran.out and "--set" not in ran.out


def test_what_a_search_has_found_is_said(tmp_path: Path) -> None:
    search = 'plans.zero3={ family = "megatron", search = { values = { tensor = [1, 2] } } }'
    ran = invoke("explain", TOY, "--plan", "zero3", "--set", search, "--no-what-if", *QUICK)
    assert ran.code == 0, ran.err
    assert (
        'Found by its search and kept in all changes: --set \'plans.zero3={ family = "megatron", tensor = ' in ran.out
    )


def test_parts_until_99_per_cent_and_the_rest_sum_to_the_step() -> None:
    for result in (of_toy("zero3"), of_grids("pipe")):
        shown = shown_parts(result.time.parts)
        assert fsum(part.seconds for part in shown) == pytest.approx(result.step_s, rel=1e-9)
        assert fsum(part.seconds for part in shown if part.words != "other") >= 0.99 * result.step_s
    other = of_toy("zero3").against
    assert other is not None
    rows = shown_differences(other.differences)
    change = of_toy("zero3").step_s - other.step_s
    assert fsum(each.seconds for each in rows) == pytest.approx(change, rel=1e-9)


def test_settings_can_be_pasted_into_a_shell() -> None:
    assert options(("a.b=1.0", 'c={ d = "e" }')) == "--set a.b=1.0 --set 'c={ d = \"e\" }'"


# ── for a program ──


def test_json_has_everything() -> None:
    known = document("--plan", "zero3", "--against", "zero-topo")
    assert (known["plan"], known["devices"], known["fidelity"]) == ("zero3", 8, "analytic")
    assert fsum(part["seconds"] for part in known["parts"]) == pytest.approx(known["step_s"], rel=1e-9)
    links = known["links"]
    assert (links[0]["start_s"], links[-1]["end_s"]) == (0.0, known["step_s"])
    assert {"name", "kind", "axes", "level", "lane", "call", "layer", "micro", "role"} <= {*links[0]}
    saved = [change["saved_s"] for change in known["changes"]]
    assert saved == sorted(saved, reverse=True) and len(saved) > 8
    other = known["against"]
    difference = fsum(each["seconds"] for each in other["differences"])
    assert difference == pytest.approx(known["step_s"] - other["step_s"], rel=1e-9)


def test_a_change_can_be_repeated_with_what_it_says(tmp_path: Path) -> None:
    best = document("--plan", "zero3")["changes"][0]
    given = [word for setting in best["settings"] for word in ("--set", setting)]
    quick = ("--fidelity", "analytic", "--plans", "zero3", "--devices", "8", "--no-page", "--no-sensitivity", "--json")
    ran = invoke("run", TOY, "--out", tmp_path / "again", *quick, *given)
    assert json.loads(ran.out)[0]["step_time_nominal_s"] == best["step_s"]


def test_settings_and_links_hold() -> None:
    known = document("--no-what-if", "--set", "training.micro_batch=2")
    assert (known["given"], known["samples"], known["changes"]) == (["training.micro_batch = 2"], 16, [])


def test_without_a_plan_all_are_compared_with_the_next_best() -> None:
    known = document("--no-what-if")
    steps = [each["step_s"] for each in known["ranking"]]
    assert (len(steps), steps) == (8, sorted(steps))
    assert (known["plan"], known["against"]) == (known["ranking"][0]["plan"], known["ranking"][0]["next"])
    for each, after in pairwise(known["ranking"]):
        assert each["next"]["plan"] == after["plan"] and each["next"]["parts"] == after["parts"]
        difference = fsum(part["seconds"] for part in each["next"]["differences"])
        assert difference == pytest.approx(each["step_s"] - after["step_s"], abs=1e-9 * each["step_s"])
    assert known["ranking"][-1]["next"] is None and known["left_out"] == {}
    ran = invoke("explain", TOY, "--no-what-if", *QUICK)
    assert "The 8 plans, each against the next best" in ran.out
    for each in known["ranking"][:-1]:
        assert ran.out.count(f"{each['plan']} is {each['next']['sentence']}.\n") == 1


def test_plans_that_do_not_fit_are_named_and_left_out() -> None:
    small = ("--set", "machine.overrides.device.hbm_bytes=7e5", "--no-what-if", *QUICK)
    ran = invoke("explain", TOY, *small)
    assert ran.code == 0, ran.err
    assert re.search(r"^Not compared: ddp \(does not fit into memory: needs .* of 700 kB \(.*\)\)\.$", ran.out, re.M)


# ── the page ──


def figures(page: str) -> dict[str, Any]:
    return {name: next(iter(json.loads(text).values())) for name, text in Page(page).data.items()}


def test_the_page_has_its_charts_and_the_same_text_again() -> None:
    result = of_toy("zero3")
    page = explanation_page(result)
    assert page == explanation_page(result)
    drawn = figures(page)
    assert {*drawn} == {"fig-parts", "fig-strip", "fig-changes", "fig-both", "fig-waterfall"}
    bars = drawn["fig-parts"]["data"]
    assert fsum(bar["x"][0] for bar in bars) == pytest.approx(result.step_s, rel=1e-8)
    strip = drawn["fig-strip"]["data"]
    for column in zip(*(trace["y"] for trace in strip), strict=True):
        assert sum(column) == pytest.approx(1.0, abs=2e-3)  # at any time the path is in something
    changes = drawn["fig-changes"]["data"]
    assert sum(len(trace["y"]) for trace in changes) == len(result.changes)
    fall = drawn["fig-waterfall"]["data"][0]
    assert fsum(fall["x"][:-1]) == pytest.approx(fall["x"][-1], rel=1e-7)  # the last fall ends at the step
    for change in result.changes:
        assert change.label.replace("'", "&#x27;") in page


def test_without_another_plan_or_changes_the_page_is_shorter() -> None:
    from dataclasses import replace

    page = explanation_page(replace(of_toy("zero3"), changes=(), against=None))
    assert 'id="ranking"' not in page
    assert {*figures(page)} == {"fig-parts", "fig-strip"}
    assert 'id="help"' not in page and 'id="difference"' not in page


def test_the_page_has_all_plans_in_order() -> None:
    result = explain(load_scenario(TOY), devices=8, fidelity="analytic", what_if=False)
    page = explanation_page(result)
    ranking = page[page.index('id="ranking"') :]
    places = [ranking.index(f'<th scope="row">{each.plan}</th>') for each in result.ranking]
    assert len(places) == 8 and places == sorted(places)
    for each in result.ranking[:-1]:
        assert each.next is not None and f"<p>{each.plan} is {each.next.sentence}.</p>" in ranking


def test_names_are_escaped() -> None:
    from dataclasses import replace

    page = explanation_page(replace(of_toy("zero3"), title="<b>mine</b>", given=("a = <i>",)))
    assert "<b>mine</b>" not in page and "<i>" not in page


def test_out_is_written_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "page"
    ran = invoke("explain", TOY, "--no-what-if", *QUICK, "--out", out)
    assert ran.code == 0 and ran.out.endswith(f"Written: {out / 'index.html'} (open it in a browser)\n")
    assert [file.name for file in out.iterdir()] == ["index.html"]


# ── bad input ──


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--plan", "zero4"), f'{TOY}: plans: got "zero4"; did you mean "zero3"?'),
        (("--plan", "zero3", "--against", "hdsp"), f'{TOY}: plans: got "hdsp"; did you mean "hsdp"?'),
        (("--against", "hdsp"), f'{TOY}: plans: got "hdsp"; did you mean "hsdp"?'),
        (
            ("--plan", "zero3", "--against", "zero3"),
            "against: got 'zero3', the plan that is explained; allowed: another one",
        ),
        (("--plan", "zero3,ddp"), "--plan: got 'zero3,ddp'; allowed: the name of one plan"),
        (("--plan", ""), "--plan: got ''; allowed: the name of one plan"),
        (("--plan", "zero3", "--against", ""), "--against: got ''; allowed: the name of one plan"),
        (
            ("--devices", "-8"),
            "--devices: got '-8'; allowed: numbers of devices separated by commas, e.g. 8,64,384",
        ),
        (("--fidelity", "flows"), "--fidelity: got 'flows'; did you mean \"flow\"?"),
        (("--set", "engine"), "--set 'engine': write key=value, e.g. training.micro_batch=4"),
        (("--set", "engine.overlapp=true"), f'{TOY}: engine.overlapp: unknown key; did you mean "overlap"?'),
    ],
)
def test_a_mistake_is_one_line(more: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert refusal("explain", TOY, *more, "--out", tmp_path / "out") == message
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    message = refusal("explain", TOY, *QUICK, "--out", tmp_path / "file")
    assert message.startswith(f"--out {tmp_path / 'file'}: cannot be written: ")


def test_a_plan_that_does_not_fit_ends_with_1(tmp_path: Path) -> None:
    small = ("--set", "machine.overrides.device.hbm_bytes=2e5")
    ran = invoke("explain", TOY, "--plan", "ddp", *small, *QUICK, "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert ran.err.startswith(f"simfrontier: {TOY}: plans.ddp: at 8 devices: does not fit into memory: needs ")
    assert not (tmp_path / "out").exists()
