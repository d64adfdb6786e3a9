"""The page of a sweep: made from its folder alone, whole, bounded, and one line for what cannot be read."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simfrontier.errors import InputError
from simfrontier.limits import Limit
from simfrontier.report import write_sweep_page
from simfrontier.report.findings import sweep_rows
from simfrontier.report.findings.sweep import column_quantities, sweep_findings
from simfrontier.report.findings.sweep_columns import KNOWN, QUANTITIES, Quantity
from simfrontier.report.sweep import settings, sweep_page, told_apart, told_value
from simfrontier.sweep import OFF_BY
from tests.invoke import invoke, refusal
from tests.report.sweeps import NIC, made_up, refused, sampled, table, toy_sweep, write
from tests.report.test_page import Page

SECTIONS = ("headline", "swept", "best", "parallel", "heat", "front", "points", "reading")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_sweep(tmp_path_factory.mktemp("toy"))


def page_of_folder(folder: Path) -> Page:
    write_sweep_page(folder)
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def data_of(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.data["rows"])
    return found


def test_the_page_has_every_section_and_needs_no_network(toy: Path) -> None:
    page = page_of_folder(toy)
    text = (toy / "index.html").read_text(encoding="utf-8")
    for name in SECTIONS:
        assert f'<section id="{name}">' in text and f'href="#{name}"' in text
    assert len(page.ids) == len(set(page.ids))
    assert all(each.startswith(("#", "data:,")) for each in page.loaded)
    assert "http" not in text[: text.index("</main>")]
    assert page.library.startswith("/**") and "plotly" in page.library[:200]


def test_the_same_folder_gives_the_same_page(toy: Path) -> None:
    assert sweep_page(sweep_findings(toy)) == sweep_page(sweep_findings(toy))


def test_the_page_says_what_was_swept_and_what_is_best(toy: Path) -> None:
    page = page_of_folder(toy)
    swept = page.section("swept").replace("\u00a0", " ")
    for words in ("link classes nic", "500 MB/s, 1 GB/s, 4 GB/s", NIC, "micro batch", "1, 2", "overlap", "no, yes"):
        assert words in swept
    assert page.section("headline").startswith("In short zero1 on 16 devices is fastest at point 11")
    assert "12 points" in page.section("headline") and "48 rows" in page.section("headline")
    best = page.section("best").replace("\u00a0", " ")
    assert best.count("link classes nic 4 GB/s, micro batch 2, overlap yes") == 4  # of each plan on each size


def test_the_page_holds_every_row_with_six_digits(toy: Path) -> None:
    data, rows = data_of(page_of_folder(toy)), pq.read_table(toy / "rows.parquet")
    assert len(data["pointOf"]) == rows.num_rows == 48 and data["numbers"] == list(range(12))
    columns = data["columns"]
    for name in ("step_time_s", "peak_memory_bytes", "tokens_per_s", "devices"):
        assert columns[name]["values"] == pytest.approx(rows.column(name).to_pylist(), rel=5e-6)
    assert columns[f"axis:{NIC}"]["values"] == rows.column(f"axis:{NIC}").to_pylist()  # settings are whole
    plan = columns["plan"]
    assert [plan["texts"][place] for place in plan["places"]] == rows.column("plan").to_pylist()
    digests = dict.fromkeys(rows.column("digest").to_pylist())
    assert data["digests"] == [digest[:16] for digest in digests]
    assert not any(each["isLog"] for each in columns.values())
    assert data["settings"] == ["run.devices=[8, 16]", "uncertainty.samples=0"] and data["paths"] == {"toy": "toy.toml"}


def test_names_that_look_like_html_are_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    rows = [made_up(0, {evil: evil}, scenario=evil, plan=evil), made_up(1, {evil: "b"}), refused(2, {evil: "c"}, evil)]
    folder = write(tmp_path / "of", rows, title=evil, scenarios={evil: {}}, set={evil: evil}, file=evil)
    write_sweep_page(folder)
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert evil not in text and "alert(1)" in text
    assert Page(text).section("swept").count(evil) >= 2


def test_what_is_set_at_every_point_is_told(tmp_path: Path) -> None:
    fixed = {
        "run.devices": [8, 16],
        "machine.overrides.host.hook_s": 2e-6,
        "engine.overlap": False,
        "library.name": "rccl",
    }
    page = page_of_folder(write(tmp_path / "of", sampled(3), set=fixed))
    said = page.section("swept").replace("\u00a0", " ").partition("Set at every point")[2]
    assert (
        "devices 8, 16 " in said
        and "host hook 2 µs a number of the machine's file machine.overrides.host.hook_s" in said
    )
    assert "overlap no " in said and "library name rccl the collective library" in said
    assert "`" not in page.section("swept")  # of sentences: what stands between backticks is code
    assert "Set at every point" not in page_of_folder(write(tmp_path / "none", sampled(3))).section("swept")


def test_settings_of_any_kind_are_harmless(tmp_path: Path) -> None:
    strange = {
        "a": None,
        "b": {"c": [1]},
        "d": [[1, 2], "x"],
        "e": 10**40,
        "f": [],
        "": 1,
        "run.devices": "9" * 5_000,
    }
    said = page_of_folder(write(tmp_path / "of", sampled(3), set=strange)).section("swept")
    assert '{"c": [1]}' in said and "[1, 2], x" in said and "1" + "0" * 40 in said and "9" * 4_097 not in said


def test_a_recipe_has_no_setting_of_another_plan(tmp_path: Path) -> None:
    keys = ("plans.zero3.publish", "plans.zero1.publish", "plans.*.micro_batch", "at.16.plans.zero1.codec")
    rows = [made_up(point, dict.fromkeys(keys, point), plan=plan) for point in (0, 1) for plan in ("zero3", "zero1")]
    found = sweep_findings(write(tmp_path / "of", rows))
    quantities, best = column_quantities(found), {found.text("plan", row): row for row in found.best}
    told = {plan: " ".join(settings(found, quantities, row)) for plan, row in best.items()}
    assert "zero3 publish" in told["zero3"] and "zero1" not in told["zero3"] and "micro batch" in told["zero3"]
    assert "zero1 publish" in told["zero1"] and "zero1 codec" in told["zero1"] and "zero3" not in told["zero1"]


def replays(count: int, simulated: dict[int, float] | None = None) -> list[Any]:
    """Points of which all but some, with these tokens per second, were replayed; the later the faster."""
    empty = {name: None for name in KNOWN if QUANTITIES.get(name) and QUANTITIES[name].unit in ("s", "bytes")}
    rows = []
    for point in range(count):
        cells: dict[str, Any] = {"tokens_per_s": 1e5 + point, "step_time_s": 1.0}
        cells = empty | cells | {"fidelity": "replay"}
        if simulated and point in simulated:
            cells = {"tokens_per_s": simulated[point]}
        rows.append(made_up(point, {"engine.overlap": point % 2 == 0}, **cells))
    return rows


def test_replayed_rows_are_counted_with_the_error_of_replays(tmp_path: Path) -> None:
    page = page_of_folder(write(tmp_path / "of", replays(5)))
    said = page.section("headline").replace("\u00a0", " ")
    assert "is fastest at point 4 ≈ :" in said and "5 of 5 rows were replayed from a simulated step" in said
    assert f"and replays are {OFF_BY}." in said
    assert "The fastest row, too, was replayed: the command in the report of point 4 ≈ simulates it exactly." in said
    assert "zero3 16 4 ≈ " in page.section("best").replace("\u00a0", " ")
    assert "None of memory and tokens per second: the rows were replayed" in page.section("front")
    assert data_of(page)["table"]["columns"] == [
        "axis:engine.overlap",
        *("step_time_s", "tokens_per_s", "tflops_per_device", "fits"),
    ]


def test_a_best_row_that_was_simulated_is_said_to_be(tmp_path: Path) -> None:
    page = page_of_folder(write(tmp_path / "of", replays(5, {2: 2e5})))
    said = page.section("headline")
    assert "is fastest at point 2 :" in said and "4 of 5 rows were replayed" in said
    assert "What is listed as the best was simulated exactly." in said
    assert "they are in no front of it" in page.section("front")


def test_nothing_is_said_of_replays_where_there_are_none(toy: Path) -> None:
    assert "replayed" not in page_of_folder(toy).words


def test_axes_that_are_logarithmic_are_known_from_the_study(tmp_path: Path) -> None:
    folder = write(tmp_path / "of", sampled(3))
    a, b, c = (f"machine.overrides.host.number_{axis}_s" for axis in "abc")
    ways = (
        'between = [1.0, 2.0]\nscale = "log"',
        "log_range = { from = 1, to = 2, count = 3 }",
        'samples = { distribution = "uniform" }',
    )
    axes = "".join(f'[[axes]]\nkey = "{key}"\n{way}\n' for key, way in zip((a, b, c), ways, strict=True))
    (folder / "study.toml").write_text(f'scenarios = ["toy.toml"]\n{axes}', encoding="utf-8")
    assert {axis.key: axis.is_log for axis in sweep_findings(folder).axes} == {a: True, b: True, c: False}
    (folder / "study.toml").write_text("axes = [1, {key = 2, scale = 3}]", encoding="utf-8")
    assert not any(axis.is_log for axis in sweep_findings(folder).axes)


@pytest.mark.parametrize(
    ("values", "unit", "words"),
    [
        ((1.0e-6, 2.5e-6), "s", ["1 µs", "2.50 µs"]),
        ((1.0001e-6, 1.0002e-6), "s", ["1.0001 µs", "1.0002 µs"]),
        ((0.12345, 0.12346), "share", ["12.345 %", "12.346 %"]),
        ((1_000_001.0, 1_000_002.0), "number", ["1,000,001", "1,000,002"]),
        ((3.0, 3.0), "number", ["3", "3"]),
        (("a", "b"), "text", ["a", "b"]),
    ],
)
def test_values_have_as_many_digits_as_tell_them_apart(values: Any, unit: Any, words: list[str]) -> None:
    told = told_apart(values, Quantity(words="", unit=unit))
    assert [each.replace("\u00a0", " ") for each in told] == words


def test_refused_rows_are_told_with_their_reasons(tmp_path: Path) -> None:
    rows = [made_up(0, {"engine.overlap": True}), refused(1, {"engine.overlap": False}, "does not divide")]
    page = page_of_folder(write(tmp_path / "of", rows))
    assert "does not divide 1 1 1" in page.section("swept") and "1 point as a whole" in page.section("headline")


def test_a_sweep_that_was_refused_as_a_whole_has_a_page(tmp_path: Path) -> None:
    page = page_of_folder(write(tmp_path / "of", [refused(0, {"engine.overlap": True}, "no")]))
    assert "No row has a time: every point was refused" in page.section("headline")
    assert "parallel" not in page.ids and "points" in page.ids


def test_a_large_sweep_is_thinned_and_says_so(tmp_path: Path) -> None:
    folder = write(tmp_path / "of", sampled(300, 2), 3)
    found = sweep_findings(folder, most_rows=100)
    page = Page(sweep_page(found))
    data = data_of(page)
    assert data["thinned"] and len(data["pointOf"]) == len(found.point_of) <= 100
    said = f"This page holds {len(found.numbers)} of 300 points, {len(found.point_of)} of 600 rows"
    assert said in page.section("headline")
    best = data["within"]["place"].count(1)
    assert best == 2 and set(data["within"]["among"]) == {300}


def test_the_page_of_many_rows_is_bounded(tmp_path: Path) -> None:
    """200 rows add some 30 kB to plotly.js, 20,000 rows of made-up digits, which no packing shortens, 3.7 MB."""
    small, large = write(tmp_path / "small", sampled(50, 4)), write(tmp_path / "large", sampled(5_000, 4))
    write_sweep_page(small)
    began = time.process_time()
    write_sweep_page(large)
    assert time.process_time() - began < 20.0
    sizes = [(folder / "index.html").stat().st_size for folder in (small, large)]
    assert sizes[0] < 2.2e6 and sizes[1] - sizes[0] < 4.5e6


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (4.74, "s", "4.74 s"),
        (0.132, "share", "13.2 %"),
        (4096.0, "count", "4,096"),
        (871234.5, "number", "871,200"),
        (1e6, "number", "1,000,000"),
        (0.01405, "number", "0.0140"),
        (5e8, "bytes/s", "500 MB/s"),
        (12.0, "1/s", "12 1/s"),
        (float("nan"), "s", "–"),
        ("", "text", "–"),
    ],
)
def test_values_in_words(value: float | str, unit: Any, words: str) -> None:
    assert told_value(value, Quantity(words="", unit=unit)).replace("\u00a0", " ") == words


# ── what cannot be read ──


def said(folder: Path) -> str:
    """The one line about a folder; no page is left."""
    with pytest.raises(InputError) as caught:
        write_sweep_page(folder)
    assert "\n" not in str(caught.value) and not (folder / "index.html").exists()
    return str(caught.value)


def some(folder: Path) -> Path:
    return write(folder, sampled(3))


def test_a_folder_that_is_no_data_set_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "of").mkdir()
    assert said(tmp_path / "of").startswith(f"{tmp_path / 'of'}: no data set of a sweep")
    assert "no data set of a sweep" in said(tmp_path / "nowhere")


def test_another_commands_folder_is_one_line(tmp_path: Path) -> None:
    folder = some(tmp_path / "of")
    (folder / "manifest.json").write_text('{"scenario": "toy"}', encoding="utf-8")
    assert "holds results of another command" in said(folder)


def test_no_parts_are_one_line(tmp_path: Path) -> None:
    folder = some(tmp_path / "of")
    (folder / "rows.parquet").unlink()
    assert "rows.parquet: has no rows; allowed: a data set" in said(folder)


def test_no_rows_are_one_line(tmp_path: Path) -> None:
    folder = some(tmp_path / "of")
    pq.write_table(table(sampled(3), []), folder / "rows.parquet")
    assert "rows.parquet: has no rows" in said(folder)


@pytest.mark.parametrize("keep", [0, 3, 40, 0.5, 0.99])
def test_a_truncated_file_is_one_line(tmp_path: Path, keep: float) -> None:
    folder = some(tmp_path / "of")
    part = folder / "rows.parquet"
    content = part.read_bytes()
    part.write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    assert re.search(r"rows\.parquet: cannot be read: .*; allowed: a data set", said(folder))


def test_damaged_pages_are_one_line(tmp_path: Path) -> None:
    folder = some(tmp_path / "of")
    part = folder / "rows.parquet"
    content = bytearray(part.read_bytes())
    content[4:400] = bytes(396)
    part.write_bytes(bytes(content))
    assert "cannot be read" in said(folder)


def changed(folder: Path, change: Any) -> Path:
    part = folder / "rows.parquet"
    pq.write_table(change(pq.read_table(part, partitioning=None)), part)
    return folder


def test_an_unknown_column_is_one_line_with_the_nearest(tmp_path: Path) -> None:
    def add(rows: pa.Table) -> pa.Table:
        return rows.append_column("step_time_ms", pa.array([1.0] * len(rows)))

    assert 'got the column "step_time_ms"; did you mean "step_time_s"? (another version' in said(
        changed(some(tmp_path / "of"), add)
    )


def test_a_missing_column_is_one_line(tmp_path: Path) -> None:
    folder = changed(some(tmp_path / "of"), lambda rows: rows.drop_columns(["mfu"]))
    assert "rows.parquet: mfu: no such column" in said(folder)


@pytest.mark.parametrize(
    ("name", "cells", "allowed"),
    [
        ("step_time_s", ["a"] * 3, "numbers"),
        ("plan", [1, 2, 3], "texts"),
        ("fits", [1.0] * 3, "true or false"),
        ("step_time_s", [[1.0]] * 3, "numbers"),
    ],
)
def test_a_column_of_another_type_is_one_line(tmp_path: Path, name: str, cells: list[Any], allowed: str) -> None:
    def put(rows: pa.Table) -> pa.Table:
        return rows.set_column(rows.schema.get_field_index(name), name, pa.array(cells))

    assert f"allowed: {allowed}" in said(changed(some(tmp_path / "of"), put))


def test_too_many_rows_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_rows, "SWEEP_ROWS", Limit(most=2, what="rows of a sweep", why="a test"))
    monkeypatch.setattr(sweep_rows, "_read", None)
    assert "3 rows of a sweep; allowed: up to 2" in said(some(tmp_path / "of"))


def test_numbers_that_are_none_and_control_characters_are_harmless(tmp_path: Path) -> None:
    rows = [made_up(0, {"engine.overlap": True}, step_time_s=float("inf"), mfu=float("nan"), mesh="a\x1b[31mb\x07")]
    data = data_of(page_of_folder(write(tmp_path / "of", rows)))
    assert data["columns"]["step_time_s"]["values"] == [None] and data["columns"]["mesh"]["texts"] == ["ab"]


def test_a_page_that_cannot_be_written_leaves_the_one_before(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sweep_page(toy)
    before = (toy / "index.html").read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="No space left"):
        write_sweep_page(toy)
    assert (toy / "index.html").read_bytes() == before


# ── the verb ──


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


def test_a_page_of_no_data_set_is_refused_in_one_line(tmp_path: Path) -> None:
    assert refusal("sweep", tmp_path, "--page").startswith(f"{tmp_path}: no data set of a sweep")
    assert "--page: goes with no other option" in refusal("sweep", tmp_path, "--page", "--jobs", "2")


def test_rows_stay_where_their_page_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = toy_sweep(tmp_path)
    monkeypatch.setattr(sweep_rows, "SWEEP_ROWS", Limit(most=2, what="rows of a sweep", why="a test"))
    ran = invoke("sweep", tmp_path / "study.toml", "--out", folder, "--jobs", "1")
    assert ran.code == 0 and ran.err.startswith("simfrontier: no page: ") and ran.err.count("\n") == 1
    assert ran.out.endswith("manifest.json\n")
