"""The page of a sweep: made from its folder alone, whole and bounded; its best rows, Pareto front and goal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from simfrontier.answers.sweep import goal_answer, load_study, read_goal, read_rows, run_sweep, write_goal
from simfrontier.base.workers import Local
from simfrontier.interfaces.report.sweep import MEMORY, RATE, pareto_front, sweep_findings
from simfrontier.interfaces.report.sweep_page import goal_figure, write_sweep_page
from tests.interfaces.report.sweeps import (
    NIC,
    SCENARIO,
    STUDY,
    goal,
    indices,
    made_up,
    refused,
    sampled,
    toy_sweep,
    write,
)
from tests.interfaces.report.test_page import Page
from tests.invoke import invoke


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_sweep(tmp_path_factory.mktemp("toy"))


def page_of_folder(folder: Path) -> Page:
    write_sweep_page(folder)
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def said_of(page: Page, section: str) -> str:
    return page.section(section).replace("\u00a0", " ")


def charts(page: Page, name: str) -> dict[str, Any]:
    """Figures of a chart by their variants."""
    found: dict[str, Any] = json.loads(page.data[name])
    return found


def test_the_page_says_what_was_swept_and_what_is_best(toy: Path) -> None:
    page, rows = page_of_folder(toy), read_rows(toy).to_pylist()
    swept = said_of(page, "swept")
    for words in ("500 MB/s, 1 GB/s, 4 GB/s", NIC, "1, 2", "no, yes", "run.devices 8, 16 uncertainty.samples 0"):
        assert words in swept
    best = max(rows, key=lambda row: row["tokens_per_s"])
    said = said_of(page, "headline")
    assert said.startswith(f"In short {best['plan']} on 16 devices is fastest at point {best['point']}:")
    assert f"{best['tokens_per_s']:,.0f} tokens per second" in said
    assert f"{1e3 * best['step_time_s']:.3g} ms a step" in said and "12 points" in said and "48 rows" in said


def test_charts_are_of_the_rows(toy: Path) -> None:
    page, rows = page_of_folder(toy), read_rows(toy).to_pylist()
    ways = charts(page, "fig-parallel")
    assert list(ways) == ["by rate", "by plan"]
    (lines,) = ways["by rate"]["data"]
    assert len(lines["dimensions"]) == 3 + 2 + 5  # axes, plan and devices, results
    assert {len(each["values"]) for each in (*lines["dimensions"], {"values": lines["line"]["color"]})} == {len(rows)}
    (cells,) = charts(page, "fig-heat")["16 devices"]["data"]
    mine = [
        row["tokens_per_s"]
        for row in rows
        if row["devices"] == 16 and row[f"axis:{NIC}"] == 1e9 and row["axis:training.micro_batch"] == 2
    ]
    assert cells["z"][1][1] == pytest.approx(max(mine), rel=1e-4)
    traces = {trace["name"]: trace for trace in charts(page, "fig-front")["16 devices"]["data"]}
    assert len(traces["zero3"]["x"]) == len(traces["zero1"]["x"]) == 12
    assert max(traces["Pareto front"]["y"]) == pytest.approx(max(row["tokens_per_s"] for row in rows), rel=1e-4)
    assert traces["zero1"]["hovertext"][0].startswith("<b>point 0</b><br>link classes nic 500\u00a0MB/s<br>")


def test_the_verb_writes_the_page_and_makes_it_anew_from_the_folder_alone(tmp_path: Path) -> None:
    study = toy_sweep(tmp_path).parent / "study.toml"
    ran = invoke("sweep", study, "--out", tmp_path / "out", "--jobs", "1")
    assert ran.code == 0 and ran.out.endswith("manifest.json, index.html (open it in a browser)\n")
    page = tmp_path / "out" / "index.html"
    before = page.read_bytes()
    page.unlink()
    study.unlink()
    (tmp_path / "toy.toml").unlink()
    ran = invoke("sweep", tmp_path / "out", "--page")
    assert ran.out == f"Written: {page} (open it in a browser)\n" and page.read_bytes() == before


def front_of(rows: list[tuple[int, int]]) -> list[int]:
    """The places of the rows (memory, rate) on the front."""
    return pareto_front(pd.DataFrame(rows, columns=[MEMORY, RATE])).index.tolist()


def test_the_front_of_six_rows() -> None:
    """0 (1, 1): nothing takes as little. 1 (2, 3): faster than 0. 2 (2, 2): row 1 is faster for the same memory.
    3 (3, 3): row 1 is as fast with less. 4 (4, 5): the fastest. 5: as row 0, which is the first of both."""
    assert front_of([(1, 1), (2, 3), (2, 2), (3, 3), (4, 5), (1, 1)]) == [0, 1, 4]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30))
def test_no_row_is_better_than_one_of_the_front_and_one_is_no_worse_than_any_other(rows: list[tuple[int, int]]) -> None:
    front = [rows[at] for at in front_of(rows)]
    assert front == sorted(set(front))
    assert not any(a <= c and b >= d and (a, b) != (c, d) for a, b in rows for c, d in front)
    assert all(any(a <= c and b >= d for a, b in front) for c, d in rows)


def test_what_does_not_fit_is_neither_best_nor_on_the_front(tmp_path: Path) -> None:
    settings = [{"training.micro_batch": value} for value in (1, 2, 4)]
    rows = [made_up(0, settings[0], **{RATE: 10.0}), made_up(1, settings[1], fits=False, step_time_s=None)]
    rows += [refused(2, settings[2], "no such mesh"), made_up(2, settings[2], plan="zero1", **{RATE: 5.0})]
    found = sweep_findings(write(tmp_path / "of", rows))
    assert found.best["point"].tolist() == [0, 2]
    assert set(found.fronts["toy", 16]["point"]) <= {0, 2}
    assert (found.num_points, found.num_unfit, found.num_refused) == (3, 1, 0)
    assert found.refused == ({"reason": "no such mesh", "num_rows": 1, "points": (2,)},)


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


def test_unknowns_are_told_with_shares_and_what_to_measure_next(tmp_path: Path) -> None:
    folder = swept(tmp_path / "of", goal("samples", indices=indices({B: 0.75, A: 0.19})))
    said = section(folder)
    assert "Measure host number b next: by itself it explains 75 % of the variance (65 to 85 %)" in said
    assert "the standard deviation falls from 2 s to 1 s on average" in said  # 2 s times the root of 0.25
    traces = drawn(folder)
    first = traces["by itself"]
    assert first["y"] == ["host number b", "host number a"] and first["x"] == pytest.approx([75.0, 19.0])
    assert first["error_x"]["array"] == pytest.approx([10.0, 10.0])
    assert traces["with all others known"]["x"] == pytest.approx([80.0, 24.0])
    assert B in first["hovertext"][0]


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
