"""The page of a sweep: made from its folder alone, whole, bounded, and one line for what cannot be read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simfrontier.errors import InputError
from simfrontier.experiments import OFF_BY
from simfrontier.report import write_sweep_page
from simfrontier.report.findings.sweep import sweep_findings
from simfrontier.report.findings.sweep_columns import KNOWN, QUANTITIES
from simfrontier.report.sweep import sweep_page
from simfrontier.sweep import read_rows
from tests.invoke import invoke, refusal
from tests.report.sweeps import NIC, made_up, refused, sampled, table, toy_sweep, write
from tests.report.test_page import Page, figures_of

SECTIONS = ("headline", "swept", "best", "parallel", "heat", "front", "reading")


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
    page, rows = page_of_folder(toy), read_rows(toy).to_pylist()
    swept = said_of(page, "swept")
    for words in ("link classes nic", "500 MB/s, 1 GB/s, 4 GB/s", NIC, "micro batch", "1, 2", "overlap", "no, yes"):
        assert words in swept
    assert "run.devices 8, 16 uncertainty.samples 0" in swept
    best = max(rows, key=lambda row: row["tokens_per_s"])
    said = said_of(page, "headline")
    assert said.startswith(f"In short {best['plan']} on 16 devices is fastest at point {best['point']}:")
    assert f"{best['tokens_per_s']:,.0f} tokens per second" in said
    assert f"{1e3 * best['step_time_s']:.3g} ms a step" in said
    assert "12 points" in said and "48 rows" in said
    assert said_of(page, "best").count("link classes nic 4 GB/s, micro batch 2, overlap yes") == 4


def test_charts_are_valid_figures_of_the_rows(toy: Path) -> None:
    from plotly.graph_objects import Figure

    page, rows = page_of_folder(toy), read_rows(toy).to_pylist()
    for figure in figures_of(page):
        Figure(figure)
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


def test_two_axes_that_are_no_grid_have_no_heat_map(tmp_path: Path) -> None:
    assert "fig-heat" not in page_of_folder(write(tmp_path / "of", sampled(30))).data


def test_values_that_are_near_are_cells_of_their_own(tmp_path: Path) -> None:
    pairs = [(a, b) for a in (1.00001e-6, 1.00002e-6) for b in (1, 2)]
    keys = ("machine.overrides.host.hook_s", "training.micro_batch")
    rows = [made_up(at, dict(zip(keys, pair, strict=True))) for at, pair in enumerate(pairs)]
    (cells,) = charts(page_of_folder(write(tmp_path / "of", rows)), "fig-heat")["16 devices"]["data"]
    assert [cell for line in cells["z"] for cell in line] == pytest.approx(
        [rows[at]["tokens_per_s"] for at in (0, 2, 1, 3)], rel=1e-4
    )


def test_coordinates_that_reach_far_are_logarithmic(tmp_path: Path) -> None:
    rows = [made_up(at, {"machine.overrides.host.hook_s": 10.0 ** (at - 6)}) for at in range(4)]
    (lines,) = charts(page_of_folder(write(tmp_path / "of", rows)), "fig-parallel")["by rate"]["data"]
    hook = lines["dimensions"][0]
    assert hook["label"].endswith("host hook") and hook["values"] == pytest.approx([-6.0, -5.0, -4.0, -3.0])
    assert (hook["ticktext"][0], hook["ticktext"][-1]) == ("1\u00a0µs", "1\u00a0ms")


def test_names_that_look_like_html_are_text(tmp_path: Path) -> None:
    evil = '<script>alert("1 & 2")</script>'
    rows = [made_up(0, {evil: evil}, scenario=evil, plan=evil), made_up(1, {evil: "b"}), refused(2, {evil: "c"}, evil)]
    folder = write(tmp_path / "of", rows, title=evil, scenarios={evil: {}}, set={evil: evil}, file=evil)
    page = page_of_folder(folder)
    assert evil not in (folder / "index.html").read_text(encoding="utf-8")
    assert page.section("swept").count(evil) >= 2
    drawn = json.dumps(figures_of(page))
    assert "<script" not in drawn and "&lt;script&gt;" in drawn


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
    assert "(1, 2), x" in said and "9" * 401 not in said


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
    said = said_of(page, "headline")
    assert "is fastest at point 4 ≈ :" in said and "5 of 5 rows were replayed from a simulated step" in said
    assert f"and replays are {OFF_BY}." in said and "Of the 1 row listed as the best, 1 was replayed." in said
    assert "No Pareto front: replayed rows" in page.section("front")
    (lines,) = charts(page, "fig-parallel")["by rate"]["data"]
    assert len(lines["dimensions"]) == 4  # the axis; time, tokens and TFLOPS, which replays have


def test_a_best_row_that_was_simulated_is_said_to_be(tmp_path: Path) -> None:
    page = page_of_folder(write(tmp_path / "of", replays(5, {2: 2e5})))
    said = said_of(page, "headline")
    assert "is fastest at point 2:" in said and "4 of 5 rows were replayed" in said
    assert "Of the 1 row listed as the best, none were replayed." in said
    assert "Rows that were replayed have no memory" in page.section("front")


def test_nothing_is_said_of_replays_where_there_are_none(toy: Path) -> None:
    assert "replayed" not in page_of_folder(toy).words


def test_refused_rows_are_told_with_their_reasons(tmp_path: Path) -> None:
    rows = [made_up(0, {"engine.overlap": True}), refused(1, {"engine.overlap": False}, "does not divide")]
    page = page_of_folder(write(tmp_path / "of", rows))
    assert "does not divide 1 1 1" in page.section("swept") and "1 point as a whole" in page.section("headline")


def test_a_sweep_that_was_refused_as_a_whole_has_a_page(tmp_path: Path) -> None:
    page = page_of_folder(write(tmp_path / "of", [refused(0, {"engine.overlap": True}, "no")]))
    assert "No row has a time: every point was refused" in page.section("headline")
    assert [name for name in SECTIONS if name in page.ids] == ["headline", "swept", "reading"]
    assert list(page.data) == []


def test_the_best_of_several_scenarios_is_named_with_its_own(tmp_path: Path) -> None:
    rows = [made_up(0, {}, tokens_per_s=1e5), made_up(1, {}, scenario="other", tokens_per_s=2e5)]
    page = page_of_folder(write(tmp_path / "of", rows))
    assert "zero3 of other on 16 devices is fastest at point 1:" in said_of(page, "headline")
    assert list(charts(page, "fig-front")) == ["other, 16 devices", "toy, 16 devices"]
    assert "No axis: the scenarios as they are." in page.section("swept")


def test_numbers_that_are_none_are_missing(tmp_path: Path) -> None:
    rows = [made_up(at, {"engine.overlap": at == 0}, step_time_s=float("inf")) for at in (0, 1)]
    page = page_of_folder(write(tmp_path / "of", rows))
    assert "Infinity" not in page.data["fig-parallel"] and "NaN" not in page.data["fig-parallel"]


def test_the_page_of_ten_thousand_rows_is_small_and_says_what_it_draws(tmp_path: Path) -> None:
    folder = write(tmp_path / "of", sampled(2_500, 4))
    began = time.process_time()
    page = page_of_folder(folder)
    assert time.process_time() - began < 20.0
    assert (folder / "index.html").stat().st_size < 3_000_000
    found = sweep_findings(folder)
    assert f"Drawn: {len(found.rows_to_draw()):,} of 10,000 rows" in page.section("parallel")
    assert len(found.rows_to_draw()) < 2_200


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


def test_no_rows_are_one_line(tmp_path: Path) -> None:
    folder = some(tmp_path / "of")
    pq.write_table(table(sampled(3), []), folder / "rows.parquet")
    assert "rows.parquet: has no rows" in said(folder)


def test_a_truncated_file_is_one_line(tmp_path: Path) -> None:
    folder = some(tmp_path / "of")
    part = folder / "rows.parquet"
    part.write_bytes(part.read_bytes()[:-40])
    assert "cannot be read" in said(folder)


def changed(folder: Path, change: Any) -> Path:
    part = folder / "rows.parquet"
    pq.write_table(change(pq.read_table(part, partitioning=None)), part)
    return folder


@pytest.mark.parametrize("name", ["mfu", "point"])
def test_a_missing_column_is_one_line(tmp_path: Path, name: str) -> None:
    assert name in said(changed(some(tmp_path / "of"), lambda rows: rows.drop_columns([name])))


def test_a_column_of_another_type_is_one_line(tmp_path: Path) -> None:
    def put(rows: pa.Table) -> pa.Table:
        return rows.set_column(rows.schema.get_field_index("step_time_s"), "step_time_s", pa.array(["a"] * 3))

    assert '"step_time_s" is not there as double' in said(changed(some(tmp_path / "of"), put))


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


def test_rows_stay_where_their_page_cannot_be_made(tmp_path: Path) -> None:
    folder = toy_sweep(tmp_path)
    (folder / "index.html").mkdir()
    ran = invoke("sweep", tmp_path / "study.toml", "--out", folder, "--jobs", "1")
    assert ran.code == 0 and ran.err.startswith("simfrontier: no page: ") and ran.err.count("\n") == 1
    assert ran.out.endswith("manifest.json\n")
