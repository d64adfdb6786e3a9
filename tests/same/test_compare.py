"""Two folders of outputs: equal ones say nothing, and every kind of difference is one line that names what differs."""

import gzip
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from tests.same.collect import SECONDS, TIMELINES
from tests.same.compare import differences
from tests.same.job import ROOT, path_of
from tests.same.jobs import JOBS, STEPS


def fill(folder: Path, *, step_s: str = "1.5", fits: str = "true", text: str = "all well", time_s: float = 2.0) -> Path:
    files = folder / "main job" / "files"
    files.mkdir(parents=True)
    (files / "results.csv").write_text(f"plan,step_time_s\nzero3,1.0\nddp,{step_s}\n")
    (files / "manifest.json").write_text(f'{{"rows": [{{"fits": {fits}}}]}}')
    (folder / "main job" / "stdout").write_text(f"a table\n{text}\n")
    np.savez(folder / TIMELINES, toy=np.array([[0.0, time_s]]))
    (folder / SECONDS).write_text("{}")
    return folder


def test_equal_outputs_have_no_difference(tmp_path: Path) -> None:
    assert differences(fill(tmp_path / "before"), fill(tmp_path / "after")) == []


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"step_s": "1.6"}, "main job/files/results.csv: row 2, step_time_s: 1.5, now 1.6"),
        ({"fits": "1"}, "main job/files/manifest.json: .rows[0].fits: True, now 1"),
        ({"text": "all ill"}, "main job/stdout: line 2: 'all well', now 'all ill'"),
        ({"time_s": float(np.nextafter(2.0, 3.0))}, "timeline of toy: 1 times differ, by 4.44e-16 s at most"),
    ],
)
def test_a_difference_is_one_line_that_names_it(tmp_path: Path, changed: dict[str, str], line: str) -> None:
    assert differences(fill(tmp_path / "before"), fill(tmp_path / "after", **changed)) == [line]  # type: ignore[arg-type]


def test_a_file_of_one_side_is_named(tmp_path: Path) -> None:
    before, after = fill(tmp_path / "before"), fill(tmp_path / "after")
    (before / "main job" / "files" / "results.csv").unlink()
    (after / "main job" / "stdout").unlink()
    assert differences(before, after) == ["main job/files/results.csv: only after", "main job/stdout: only before"]


PAGE = """<h2>In short</h2><p>Two <b>plans</b>.</p><table><tr><th>plan</th><td>{cell}</td></tr></table>
<button data-show="8" aria-pressed="true">8</button><svg><line x1="{x}"/></svg>
<script id="fig-rate">{chart}</script>"""


def packed(text: str) -> str:
    return b64encode(gzip.compress(text.encode())).decode()


def pages(tmp_path: Path, after: str) -> list[str]:
    """The differences between a page and another."""
    before = PAGE.format(cell="1.00", x=3, chart='{"8": {"data": [1.5]}}')
    for side, text in (("before", before), ("after", after)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "index.html").write_text(text)
    return differences(tmp_path / "before", tmp_path / "after")


def test_pages_are_the_same_that_show_the_same_in_other_html(tmp_path: Path) -> None:
    chart = packed('{"8":{"data":[1.5]}}')
    after = PAGE.format(cell="\n<b>1.00</b>", x=3, chart=chart).replace("Two <b>plans</b>", "Two\nplans")
    assert pages(tmp_path, f"<style>p {{}}</style>{after}<script id='library'>x</script>") == []


@pytest.mark.parametrize(
    ("cell", "x", "number", "line"),
    [
        ("1.01", 3, 1.5, "index.html: .words[5]: 1.00, now 1.01"),
        ("1.00", 4, 1.5, "index.html: .drawn[0]: ('line', [('x1', '3')]), now ('line', [('x1', '4')])"),
        ("1.00", 3, 1.6, "index.html: .charts.fig-rate.8.data[0]: 1.5, now 1.6"),
    ],
)
def test_what_a_page_shows_otherwise_is_named(tmp_path: Path, cell: str, x: int, number: float, line: str) -> None:
    chart = packed(f'{{"8": {{"data": [{number}]}}}}')
    assert pages(tmp_path, PAGE.format(cell=cell, x=x, chart=chart)) == [line]


def test_cpu_seconds_are_not_held_against_each_other(tmp_path: Path) -> None:
    before, after = fill(tmp_path / "before"), fill(tmp_path / "after")
    (after / SECONDS).write_text('{"main job": 99.0}')
    assert differences(before, after) == []


def test_names_of_jobs_and_steps_are_distinct() -> None:
    assert len({job.name for job in JOBS}) == len(JOBS)
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_scenarios_of_jobs_and_steps_are_there() -> None:
    named = {path_of(step.scenario) for step in STEPS}
    named |= {word for job in JOBS for word in job.arguments if word.endswith(".toml")}
    assert sorted(name for name in named if not (ROOT / name).is_file()) == []
