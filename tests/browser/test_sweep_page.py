"""The page of a sweep in a real browser: what is chosen, sorted, brushed and opened, and that its numbers are ours."""

from __future__ import annotations

import csv
import math
import random
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from simfrontier.report import write_sweep_page
from simfrontier.report.findings.pareto import front_of
from simfrontier.report.findings.sweep import sweep_findings
from simfrontier.report.findings.sweep_columns import QUANTITIES, Quantity
from simfrontier.report.phrases import signed
from simfrontier.report.sweep import told_value
from simfrontier.sweep import OFF_BY
from tests.browser.chromium import browser, complaints_of
from tests.invoke import invoke
from tests.report.sweeps import NIC, made_up, refused, sampled, toy_sweep, write

READY = "document.body.dataset.ready !== undefined"
SLOW = 60_000  # ms: charts of a machine without a GPU, which others use as well


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def toy(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = toy_sweep(tmp_path_factory.mktemp("toy"))
    write_sweep_page(folder)
    return folder


@pytest.fixture(scope="module")
def drawn(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 points at random places with two plans, and one that was refused."""
    rows = sampled(200, 2)
    rows.append(refused(200, {key[5:]: 0.5 for key in rows[0] if key.startswith("axis:")}, "too <narrow>"))
    folder = write(tmp_path_factory.mktemp("drawn") / "of", rows)
    write_sweep_page(folder)
    return folder


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A window; at the end nothing may have been complained of."""
    opened = chromium.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(SLOW)
    complaints = complaints_of(opened)
    yield opened
    opened.close()
    assert [each for each in complaints if "GPU stall" not in each] == []  # said where there is no GPU


def show(page: Any, folder: Path, name: str = "") -> None:
    page.goto(f"{(folder / 'index.html').as_uri()}{name}")
    page.wait_for_function(READY)


def draw(page: Any, chart: str) -> None:
    """Scroll to a chart and wait until it is there."""
    page.evaluate("name => document.querySelector(`[data-figures=${name}]`).scrollIntoView()", chart)
    page.wait_for_function("name => 'drawn' in document.querySelector(`[data-figures=${name}]`).dataset", arg=chart)


def cells(page: Any, table: str) -> list[list[str]]:
    found: list[list[str]] = page.eval_on_selector_all(
        f"{table} tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return [[cell.replace("\u00a0", " ") for cell in row] for row in found]


def text(page: Any, selector: str) -> str:
    return " ".join(str(page.locator(selector).inner_text()).split())


def test_numbers_are_written_as_on_the_other_pages(page: Any, toy: Path) -> None:
    show(page, toy)
    draw_from = random.Random(3)
    values = [draw_from.uniform(-1, 1) * 10 ** draw_from.uniform(-9, 15) for _ in range(400)]
    values += [0.0, 1.0, 212.5, 213.5, 2.125, 0.5, 1.5, 999.95, 99.95, 1e6, 1234567.0, 0.9995, 4096.0]
    for unit in ("bytes", "bytes/s", "share", "count", "number", "s"):
        some = [value for value in values if unit != "s" or abs(value) < 1e4]  # steps take no hours
        ours = [told_value(value, Quantity(words="", unit=unit)) for value in some]
        theirs = page.evaluate("([values, unit]) => values.map(value => inWords(value, unit))", [some, unit])
        assert [pair for pair in zip(some, ours, theirs, strict=True) if pair[1] != pair[2]] == []
    shares = [0.0, 0.013, -0.002, -0.5, 2.0, 0.0004]
    assert page.evaluate("shares => shares.map(signed)", shares) == list(map(signed, shares))


def test_words_of_a_command_are_quoted(page: Any, toy: Path) -> None:
    show(page, toy)
    words = ["plain", "a b", "it's", '"x"', "$HOME", "a=b,c", "", "é"]
    assert shlex.split(page.evaluate("words => words.map(quoted).join(' ')", words)) == words


def test_fronts_of_the_page_are_those_of_python(page: Any, drawn: Path) -> None:
    show(page, drawn)
    found = sweep_findings(drawn)
    names = ["peak_memory_bytes", "tokens_per_s", "bytes_inter_node", "exposed_share", "mfu"]
    rows = list(range(400))
    for x in names:
        for y in names:
            values = [np.array([float(f"{found.number(name, row):.6g}") for row in rows]) for name in (x, y)]
            ours = front_of(*values, QUANTITIES[x].better, QUANTITIES[y].better)
            theirs = page.evaluate(
                "([x, y, xs, ys, rows]) => frontOf(rows, {values: xs, better: x}, {values: ys, better: y})",
                [QUANTITIES[x].better, QUANTITIES[y].better, *(list(map(float, each)) for each in values), rows],
            )
            assert theirs == ours.tolist()


def test_the_front_is_redrawn_for_other_quantities(page: Any, toy: Path) -> None:
    show(page, toy)
    before = cells(page, "#front-table")
    draw(page, "fig-front")
    assert [row[:5] for row in cells(page, "#front-table")] == [row[:5] for row in before]  # as Python found it
    page.locator("#of-front select[name=x]").select_option("bytes_inter_node")
    page.wait_for_function(
        "document.querySelector('#front-table th:nth-child(4)').textContent.includes('between nodes')"
    )
    found = sweep_findings(toy)
    rows = [row for row in range(48) if found.number("devices", row) == 16]
    x, y = (np.array([found.number(name, row) for row in rows]) for name in ("bytes_inter_node", "tokens_per_s"))
    front = [rows[at] for at in front_of(x, y, "less", "more")]
    assert [(int(row[0]), row[1]) for row in cells(page, "#front-table")] == [
        (found.number_of_point(row), found.text("plan", row)) for row in front
    ]


def test_a_cell_of_the_heat_map_is_the_median_or_the_best(page: Any, toy: Path) -> None:
    show(page, toy)
    draw(page, "fig-heat")
    table = pq.read_table(toy / "rows.parquet").to_pylist()
    mine = [
        row["tokens_per_s"]
        for row in table
        if row["devices"] == 16 and row[f"axis:{NIC}"] == 1e9 and row["axis:training.micro_batch"] == 2
    ]
    shown = "document.querySelector('[data-figures=fig-heat]').data[0].z[1][1]"
    assert page.evaluate(shown) == pytest.approx(median(mine), rel=1e-5)
    assert text(page, "#said-heat").startswith("Each cell: the median of its rows over overlap and plan;")
    page.locator("#of-heat select[name=how]").select_option("best")
    page.wait_for_function("document.getElementById('said-heat').textContent.includes('the best of')")
    page.wait_for_function(f"Math.abs({shown} / {max(mine)} - 1) < 1e-5")
    page.locator("#of-heat select[name=value]").select_option("step_time_s")
    page.wait_for_function("document.querySelector('[data-figures=fig-heat]').data[0].reversescale")


def test_brushes_choose_the_rows_of_the_table(page: Any, toy: Path) -> None:
    show(page, toy)
    draw(page, "fig-parallel")
    names = page.evaluate(
        "document.querySelector('[data-figures=fig-parallel]').data[0].dimensions.map(each => each.name)"
    )
    assert names[:3] == [f"axis:{NIC}", "axis:training.micro_batch", "axis:engine.overlap"] and "fits" in names
    brush = {f"dimensions[{names.index('devices')}].constraintrange": [[15, 17]]}
    page.evaluate("brush => Plotly.restyle(document.querySelector('[data-figures=fig-parallel]'), brush)", brush)
    page.wait_for_function("document.getElementById('said-parallel').textContent.includes('24 rows of 48')")
    assert {row[5] for row in cells(page, "#rows-table")} == {"16"} and len(cells(page, "#rows-table")) == 24
    page.locator("#of-points input[name=brushed]").uncheck()
    assert len(cells(page, "#rows-table")) == 48


def test_the_table_is_sorted_and_filtered(page: Any, toy: Path) -> None:
    show(page, toy)
    table = pq.read_table(toy / "rows.parquet").to_pylist()
    paces = [row[7] for row in cells(page, "#rows-table")]
    assert [float(pace.replace(",", "")) for pace in paces] == pytest.approx(
        sorted((row["tokens_per_s"] for row in table), reverse=True), rel=1e-3
    )
    head = page.locator("#rows-table th", has_text="time of a step")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")  # the button has the focus still
    assert head.get_attribute("aria-sort") == "descending"
    slowest = max(table, key=lambda row: row["step_time_s"])
    assert cells(page, "#rows-table")[0][0] == str(slowest["point"])
    page.locator("#of-points select[data-column=plan]").select_option(label="zero1")
    page.locator("#of-points select[data-column='axis:engine.overlap']").select_option(label="yes")
    assert {(row[4], row[3]) for row in cells(page, "#rows-table")} == {("zero1", "yes")}
    assert text(page, "#rows-table [role=status]") == "12 rows."


def test_a_long_table_is_shown_in_pieces_and_refused_rows_are_last(page: Any, drawn: Path) -> None:
    show(page, drawn)
    assert text(page, "#rows-table [role=status]") == "401 rows, the first 100 shown."
    page.locator("#rows-table [data-more]").click()
    assert len(cells(page, "#rows-table")) == 401 and cells(page, "#rows-table")[-1][0] == "200"
    page.locator("#of-points input[name=fitting]").check()
    assert text(page, "#rows-table [role=status]") == "400 rows, the first 100 shown."


def test_a_point_opens_by_keyboard_and_the_back_button_returns(page: Any, toy: Path) -> None:
    show(page, toy)
    link = page.locator("#rows-table tbody a").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#report:not([hidden]) h2")
    assert re.fullmatch(r".*#point=[0-9a-f]{16}", page.url)
    assert page.evaluate("document.activeElement.textContent").startswith("Point 11")
    assert page.title() == "Point 11: Links of a <toy> & more: simfrontier sweep"
    assert not page.locator("#headline").is_visible() and page.locator("#report").is_visible()
    page.go_back()
    page.wait_for_function("document.getElementById('report').hidden")
    assert page.locator("#headline").is_visible() and page.title() == "Links of a <toy> & more: simfrontier sweep"


def test_the_report_of_a_point_tells_its_rows_and_neighbours(page: Any, toy: Path) -> None:
    """Point 5: 1 GB/s, micro-batch 1, overlap. Beside it 1 and 9 on the first axis, 7 on the second, 4 on the third."""
    table = [row for row in pq.read_table(toy / "rows.parquet").to_pylist() if row["point"] == 5]
    digest = table[0]["digest"]
    show(page, toy, f"#point={digest}")
    settings = page.locator("#report table").nth(0)
    links = settings.locator("a").evaluate_all("all => all.map(each => each.title)")
    assert links == ["point 1", "point 9", "point 7", "point 4"]
    rows = cells(page, "#report .wide:nth-of-type(2)")
    assert [row[0] for row in rows] == ["zero3 on 8", "zero3 on 16", "zero1 on 8", "zero1 on 16"]
    seconds = QUANTITIES["step_time_s"]
    assert [row[1] for row in rows] == [told_value(row["step_time_s"], seconds).replace("\u00a0", " ") for row in table]
    same = [
        row for row in pq.read_table(toy / "rows.parquet").to_pylist() if (row["plan"], row["devices"]) == ("zero3", 8)
    ]
    place = 1 + sum(row["tokens_per_s"] > table[0]["tokens_per_s"] for row in same)
    assert rows[0][7] == f"{place} of 12"
    page.locator("#report summary").click()
    numbers = {row[0]: row[1:] for row in cells(page, "#report details")}
    assert numbers["classes of ranks"] == [str(row["rank_classes"]) for row in table]
    moved = [told_value(row["bytes_inter_node"], QUANTITIES["bytes_inter_node"]) for row in table]
    assert numbers["bytes between nodes"] == [words.replace("\u00a0", " ") for words in moved]
    page.wait_for_selector("#report .plot .barlayer")
    parts = page.evaluate("document.querySelector('#report .plot').data.map(each => each.x)")
    assert [math.fsum(part[at] for part in parts) for at in range(4)] == pytest.approx(
        [1e3 * row["step_time_s"] for row in table], rel=1e-3
    )
    settings.locator("a").nth(1).click()
    page.wait_for_function("document.querySelector('#report h2').textContent.startsWith('Point 9')")


def test_a_point_opens_by_its_number_and_one_that_is_not_there_is_said(page: Any, toy: Path) -> None:
    show(page, toy, "#point=3")
    assert text(page, "#report h2").startswith("Point 3")
    page.evaluate("location.hash = '#point=77'")
    page.wait_for_function("document.querySelector('#report h2').textContent === 'No such point here'")
    assert "no point “77”" in text(page, "#report")


def test_a_refused_point_tells_why_as_text(page: Any, drawn: Path) -> None:
    show(page, drawn, "#point=200")
    assert text(page, "#report .lead") == "Refused: too <narrow>"


def test_points_that_were_drawn_have_their_nearest(page: Any, drawn: Path) -> None:
    show(page, drawn, "#point=12")
    found = sweep_findings(drawn)
    assert found.nearest is not None
    links = page.locator("#report p:has-text('The nearest points') a").all_inner_texts()
    assert links == [str(int(found.numbers[at])) for at in found.nearest[12]]


def test_the_command_of_a_point_makes_its_rows_again(page: Any, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    show(page, toy, "#point=9")
    program, *words = shlex.split(page.locator("#report .command").inner_text())
    assert (program, words[:2]) == ("simfrontier", ["run", "toy.toml"])
    monkeypatch.chdir(toy.parent)  # the folder of the study
    assert invoke(*words).code == 0
    wanted = [row for row in pq.read_table(toy / "rows.parquet").to_pylist() if row["point"] == 9]
    with (toy.parent / "reports" / "point-9" / "results.csv").open(newline="", encoding="utf-8") as file:
        made = list(csv.DictReader(file))
    for name in ("plan", "schedule_digest"):
        assert [row[name] for row in made] == [row[name] for row in wanted]
    for name in ("step_time_s", "tokens_per_s", "peak_memory_bytes"):
        assert [float(row[name]) for row in made] == [row[name] for row in wanted]


@pytest.mark.parametrize("width", [1280, 800, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["", "#point=5"])
def test_the_page_fits_and_axe_finds_nothing(page: Any, toy: Path, width: int, scheme: str, name: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    show(page, toy, name)
    if not name:
        for chart in ("fig-heat", "fig-front"):
            draw(page, chart)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_neighbours_that_are_near_are_told_apart(page: Any, tmp_path: Path) -> None:
    key = "machine.overrides.host.hook_s"
    rows = [made_up(at, {key: value}) for at, value in enumerate((1.0001e-6, 1.0002e-6, 2e-6))]
    folder = write(tmp_path / "of", rows)
    write_sweep_page(folder)
    show(page, folder, "#point=1")
    row = cells(page, "#report .wide:nth-of-type(1)")[0]
    assert [cell.partition(" (")[0] for cell in row[1:4]] == ["1.0002 µs", "1.0001 µs", "2.0000 µs"]


def test_ranges_of_a_logarithmic_axis_are_of_equal_ratios(page: Any, toy: Path) -> None:
    show(page, toy)
    ask = """([values, isLog]) => {
      const steps = stepsOf({ values, isLog, isAxis: true, unit: "" }, [...values.keys()]);
      return [steps.words, values.map(steps.of)];
    }"""
    values = [2.0 ** (at / 4) for at in range(49)]  # 1 to 4,096: twelve times twice
    words, places = page.evaluate(ask, [values, True])
    assert words[0] == "1 to 2" and words[-1] == "2,048 to 4,096"
    assert [places[4 * at + 2] for at in range(12)] == list(range(12)) and places[-1] == 11
    words, places = page.evaluate(ask, [values, False])
    assert words[0] == "1 to 342.3" and places[:33] == [0] * 33


def test_rows_without_a_value_have_a_colour_of_their_own(page: Any, tmp_path: Path) -> None:
    """The first row does not fit; what is chosen before the chart is there is what it shows."""
    rows = sampled(20, 2)
    folder = write(tmp_path / "of", [{**rows[0], "fits": False, "step_time_s": None, "tokens_per_s": None}, *rows[1:]])
    write_sweep_page(folder)
    show(page, folder)
    page.locator("#of-parallel select[name=coloured]").select_option("step_time_s")
    draw(page, "fig-parallel")
    line = page.evaluate("(({line}) => line)(document.querySelector('[data-figures=fig-parallel]').data[0])")
    factor = 1e3 if max(line["color"]) > 10.0 else 1.0  # of ms, or s
    known = [factor * row["step_time_s"] for row in rows[1:]]
    assert line["color"][1:] == pytest.approx(known, rel=1e-5)
    assert line["color"][0] == line["cmin"] < min(known) and line["cmax"] == pytest.approx(max(known), rel=1e-5)
    assert line["colorbar"]["ticktext"][0] == "none"
    assert line["colorscale"][0][1] == line["colorscale"][1][1] != line["colorscale"][2][1]


def test_a_replayed_point_says_so_and_what_it_has_not(page: Any, tmp_path: Path) -> None:
    empty = {name: None for name, each in QUANTITIES.items() if each.unit in ("s", "bytes", "share")}
    told = {"step_time_s": 1.0, "tokens_per_s": 2e6, "fidelity": "replay"}
    empty.pop("exposed_share")
    rows = [made_up(at, {"engine.overlap": at == 1}, **(empty | told if at else {})) for at in (0, 1)]
    folder = write(tmp_path / "of", rows)
    write_sweep_page(folder)
    show(page, folder)
    assert [row[0] for row in cells(page, "#rows-table")] == ["1 ≈", "0"]
    page.locator("#rows-table tbody a").first.click()
    said = text(page, "#report .callout")
    assert said.startswith(f"This point was replayed, not simulated: replays are {OFF_BY}.")
    assert "it draws no samples, whose ends and median are empty therefore" in text(page, "#report .callout")
    assert "Where the step goes is left out: a replay gives" in text(page, "#report")
    assert page.locator("#report .plot").count() == 0
    page.evaluate("location.hash = '#point=0'")
    page.wait_for_selector("#report .plot .barlayer")
    assert page.locator("#report .callout").count() == 0
