"""The goal on the page of a sweep: of searches, samples and unknowns, and one line for a goal.json that is damaged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simfrontier.report import write_sweep_page
from simfrontier.report.findings.sweep import sweep_findings
from simfrontier.report.sweep import goal_figure
from simfrontier.sweep import goal_answer, load_study, read_goal, run_sweep, write_goal
from simfrontier.workers import Local
from tests.invoke import invoke
from tests.report.sweeps import NIC, SCENARIO, STUDY, goal, indices, sampled, write
from tests.report.test_page import Page

A, B, C = (f"machine.overrides.host.number_{axis}_s" for axis in "abc")


def swept(folder: Path, document: Any) -> Path:
    """A data set of three points with this goal.json."""
    write(folder, sampled(3))
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "goal.json").write_text(text, encoding="utf-8")
    return folder


def section(folder: Path) -> str:
    write_sweep_page(folder)
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    return page.section("goal").replace("\u00a0", " ")


def drawn(folder: Path) -> dict[str, Any]:
    """Traces of the chart of the goal by their names."""
    figure = goal_figure(sweep_findings(folder).goal)
    assert figure is not None
    return {trace["name"]: trace for trace in figure["data"]}


def test_without_a_goal_there_is_no_section(tmp_path: Path) -> None:
    write_sweep_page(write(tmp_path / "of", sampled(3)))
    text = (tmp_path / "of" / "index.html").read_text(encoding="utf-8")
    assert 'id="goal"' not in text and "#goal" not in text


def test_a_search_tells_its_best_point_and_its_settings(tmp_path: Path) -> None:
    """3, 2 and 4 s: the second point is the best, by a third."""
    said = section(swept(tmp_path / "of", goal("search")))
    assert said.startswith("The goal The least of time of a step of zero3 is 2 s, at point 1, with host number a ")
    assert re.search(r"0 3 s – host number a .* 1 2 s 33 % host number a ", said)


def test_a_search_is_drawn_as_marks_and_steps(tmp_path: Path) -> None:
    folder = swept(tmp_path / "of", goal("search", (3.0, None, 2.0)))
    traces = drawn(folder)
    assert (traces["a point"]["x"], traces["a point"]["y"]) == ([0, 2], [3.0, 2.0])
    steps = traces["the best so far"]
    assert (steps["x"], steps["y"], steps["line"]["shape"]) == ([0, 2], [3.0, 2.0], "hv")
    assert (traces["the best"]["x"], traces["the best"]["y"]) == ([2], [2.0])
    assert "2 of 3 points have the goal" in section(folder)


def test_samples_are_told_by_mean_and_deviation(tmp_path: Path) -> None:
    """2, 4 and 6 s: 4 s on average, with the root of 8/3 s."""
    folder = swept(tmp_path / "of", goal("samples", (4.0, 2.0, 6.0)))
    assert "Over 3 samples, time of a step of zero3 is 4 s on average, with a standard deviation of 1.63 s" in section(
        folder
    )
    traces = drawn(folder)
    assert traces["samples"]["x"] == [4.0, 2.0, 6.0]


def test_unknowns_are_told_with_shares_and_what_to_measure_next(tmp_path: Path) -> None:
    folder = swept(tmp_path / "of", goal("samples", indices=indices({B: 0.75, A: 0.19})))
    said = section(folder)
    assert "Measure host number b next: by itself it explains 75 % of the variance (65 to 85 %)" in said
    assert "the standard deviation falls from 2 s to 1 s on average" in said  # 2 s times the root of 0.25
    assert "Next comes host number a, with 19 %" in said and "(16 of 32 rounds)" in said
    assert f"host number b 75.0 % (65.0 to 85.0 %) 80.0 % (70.0 to 90.0 %) 1 s {B}" in said
    traces = drawn(folder)
    first = traces["by itself"]
    assert first["y"] == ["host number b", "host number a"] and first["x"] == pytest.approx([75.0, 19.0])
    assert first["error_x"]["array"] == pytest.approx([10.0, 10.0])
    assert traces["with all others known"]["x"] == pytest.approx([80.0, 24.0])
    assert B in first["hovertext"][0]


def test_why_there_are_no_indices_is_told(tmp_path: Path) -> None:
    assert "No indices: too few rounds." in section(swept(tmp_path / "of", goal("samples", why_not="too few rounds")))


def test_a_goal_that_no_point_has_is_told(tmp_path: Path) -> None:
    said = section(swept(tmp_path / "of", goal("search", (None, None, None))))
    assert said.startswith("The goal No point has the goal, time of a step of zero3")


def left_out(folder: Path) -> str:
    """The line on what is left out of the page, which is written all the same and says so as well."""
    line = write_sweep_page(folder)
    assert "\n" not in line and line.startswith(f"{folder / 'goal.json'}: ")
    assert line.endswith(": left out of the page; running the sweep again rewrites it")
    said = section(folder)
    assert "It is left out here; running the sweep again rewrites it." in said and str(folder) not in said
    return line


def test_a_goal_of_other_points_is_left_out_and_said_so(tmp_path: Path) -> None:
    for number, other in enumerate((goal(values=(1.0, 2.0)), goal(points_sha256="ab"))):
        folder = swept(tmp_path / str(number), other)
        assert "is of other points than the data set" in left_out(folder)
        assert section(folder).startswith("The goal goal.json is of other points than the data set. It is left out")


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("", "line 1 column 1: not JSON"),
        ("[]", "got [], allowed: a table { words, column"),
        ("{}", "words: missing"),
        ('{"kind": NaN}', "not a goal of a sweep"),
        (goal(best="2 s"), 'best: got "2 s", allowed: a number'),
        (goal(best_point=-1), "best_point: got -1, allowed: at least 0"),
        (goal(kind="searched"), 'kind: got "searched", allowed: "search", "samples" or "grid"; did you mean "search"?'),
        (goal(mean=1e40), "mean: got 1e+40, allowed: at most 1e+30"),
        (goal(colum="step_time_s"), 'colum: unknown key; did you mean "column"?'),
        (goal(indices=indices({A: 0.5, "a.b": 0.1})), 'indices: got the unknown "a.b"; allowed: each axis'),
        (goal(indices=indices({A: 0.5}) | {"sd": "x"}), 'indices.sd: got "x", allowed: a number'),
    ],
)
def test_a_damaged_goal_is_left_out_and_one_line_says_so(tmp_path: Path, document: Any, told: str) -> None:
    folder = swept(tmp_path / "of", document)
    assert told in left_out(folder)
    assert sweep_findings(folder).num_points == 3


def test_the_verb_makes_the_page_without_a_damaged_goal(tmp_path: Path) -> None:
    folder = swept(tmp_path / "of", "{")
    ran = invoke("sweep", folder, "--page")
    assert ran.code == 0 and ran.out == f"Written: {folder / 'index.html'} (open it in a browser)\n"
    assert ran.err.startswith(f"simfrontier: {folder / 'goal.json'}: cannot be read: ") and ran.err.count("\n") == 1


def test_names_that_look_like_html_are_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    folder = swept(tmp_path / "of", goal(words=f"step_time_s of {evil}", why_not=evil))
    assert evil in section(folder)
    assert evil not in (folder / "index.html").read_text(encoding="utf-8")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(SCENARIO, encoding="utf-8")
    text = STUDY.partition("[[axes]]")[0] + (
        f'[goal]\ncolumn = "tokens_per_s"\n[sampling]\nmethod = "saltelli"\ncount = 8\n'
        f'[[axes]]\nkey = "{NIC}"\nbetween = [5e8, 4e9]\n[[axes]]\nkey = "engine.overlap"\namong = [true, false]\n'
    )
    (tmp_path / "study.toml").write_text(text.replace("[8, 16]", "[8]"), encoding="utf-8")
    study = load_study(tmp_path / "study.toml")
    outcome = run_sweep(study, tmp_path / "out", Local(jobs=1))
    answer = goal_answer(study, tmp_path / "out", outcome.counts.points)
    write_goal(answer, tmp_path / "out")
    assert answer is not None and answer.indices is not None
    assert read_goal(tmp_path / "out") == answer
    assert section(tmp_path / "out").startswith("The goal Measure ")
    write_goal(None, tmp_path / "out")
    assert read_goal(tmp_path / "out") is None


def test_shares_below_nothing_are_no_minus_nothing(tmp_path: Path) -> None:
    said = section(swept(tmp_path / "of", goal("samples", indices=indices({A: -0.0004}))))
    assert "host number a 0.0 % (-10.0 to 10.0 %)" in said
