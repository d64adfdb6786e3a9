"""The page of a sweep in a real browser: charts are drawn, variants are chosen by keyboard, and axe finds nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simfrontier.report import write_sweep_page
from simfrontier.sweep import read_rows
from tests.browser.chromium import browser, complaints_of, wait_for
from tests.report.sweeps import goal, indices, refused, sampled, toy_sweep, write

SLOW = 60_000  # ms: charts of a machine without a GPU, which others use as well
DRAWN = "[...document.querySelectorAll('.plot')].every(each => 'drawn' in each.dataset)"
LINES = "document.querySelector('[data-figures=fig-parallel]').data[0]"


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
def unknowns(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples with a goal, and a point that was refused."""
    rows = [*sampled(3, 2), refused(3, {f"machine.overrides.host.number_{axis}_s": 0.5 for axis in "abc"}, "too <big>")]
    folder = write(tmp_path_factory.mktemp("unknowns") / "of", rows)
    found = indices({"machine.overrides.host.number_a_s": 0.75, "machine.overrides.host.number_b_s": 0.19})
    text = json.dumps(goal("samples", (3.0, 2.0, 4.0, None), indices=found))
    (folder / "goal.json").write_text(text, encoding="utf-8")
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


def show(page: Any, folder: Path) -> None:
    """Open the page and scroll through it until every chart is drawn."""
    page.goto((folder / "index.html").as_uri())
    for chart in page.locator(".plot").all():
        chart.scroll_into_view_if_needed()
        page.wait_for_timeout(100)
    wait_for(page, DRAWN, limit_s=60)


def test_every_chart_is_drawn_of_the_rows(page: Any, toy: Path) -> None:
    show(page, toy)
    rates = [row["tokens_per_s"] for row in read_rows(toy).to_pylist()]
    assert page.locator(".plot").count() == 3
    assert page.locator("[data-figures=fig-parallel] .axis-title").count() == 10
    assert page.evaluate(f"{LINES}.line.color") == pytest.approx(rates, rel=1e-4)
    assert page.locator("[data-figures=fig-heat] .heatmaplayer image").count() == 1
    assert page.locator("[data-figures=fig-front] .scatterlayer .point").count() > 24


def test_variants_are_chosen_by_keyboard(page: Any, toy: Path) -> None:
    show(page, toy)
    page.locator("#parallel button", has_text="by plan").focus()
    page.keyboard.press("Enter")
    wait_for(page, f"{LINES}.line.cmax === 1.5")  # of two plans
    page.locator("#front button", has_text="8 devices").first.focus()
    page.keyboard.press("Enter")
    assert [each.is_visible() for each in page.locator("#front .panel").all()] == [True, False]


def test_charts_are_there_in_print(page: Any, toy: Path) -> None:
    show(page, toy)
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible() and page.locator(".parcoords").first.is_visible()


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("of", ["toy", "unknowns"])
def test_the_page_fits_and_axe_finds_nothing(
    page: Any, of: str, width: int, scheme: str, request: pytest.FixtureRequest
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    show(page, request.getfixturevalue(of))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
