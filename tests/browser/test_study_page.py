"""The page of a study in a real browser: the first chart is there at once, variants by keyboard, print, and axe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simfrontier.report import StudyView, findings_of, write_page
from tests.browser.chromium import browser, complaints_of, wait_for
from tests.report.studies import full, piped

SLOW = 60_000  # ms: charts of a machine without a GPU, which others use as well
DRAWN = "[...document.querySelectorAll('.plot')].every(each => 'drawn' in each.dataset)"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages of two studies."""
    folder = tmp_path_factory.mktemp("pages")
    done, varied, searches = piped()
    for name, view in (
        ("plain", StudyView(study=full()[0], sensitivity=full()[1])),
        ("piped", StudyView(study=done, sensitivity=varied, searches=searches)),
    ):
        write_page(findings_of(view), view, folder / f"{name}.html")
    return folder


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A window; at the end the console must be empty."""
    opened = chromium.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(SLOW)
    complaints = complaints_of(opened)
    yield opened
    opened.close()
    assert complaints == []


def show(page: Any, file: Path) -> None:
    """Open the page and scroll through it until every chart is drawn."""
    page.goto(file.as_uri())
    for chart in page.locator(".plot").all():
        chart.scroll_into_view_if_needed()
        page.wait_for_timeout(100)
    wait_for(page, DRAWN, limit_s=60)


def test_the_first_chart_is_a_drawing_until_the_library_has_loaded(page: Any, pages: Path) -> None:
    page.add_init_script("delete window.DecompressionStream")
    page.goto((pages / "plain.html").as_uri())
    assert page.locator("[data-figures=fig-rate] > svg polyline").count() == 3
    assert page.locator(".no-charts").is_visible()


def test_the_drawing_makes_room_for_the_chart(page: Any, pages: Path) -> None:
    show(page, pages / "plain.html")
    assert page.locator("[data-figures=fig-rate] > svg").count() == 0
    assert page.locator("[data-figures=fig-rate] .scatterlayer .trace").count() > 3


def test_variants_are_chosen_by_keyboard(page: Any, pages: Path) -> None:
    show(page, pages / "plain.html")
    page.locator("#probability button", has_text="2").focus()
    page.keyboard.press("Enter")
    assert [each.is_visible() for each in page.locator("#probability .panel").all()] == [False, True]
    page.locator("#time button", has_text="2").focus()
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('[data-figures=fig-time]').dataset.shown === '2'")


def test_charts_are_there_in_print(page: Any, pages: Path) -> None:
    show(page, pages / "plain.html")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible() and page.locator(".scatterlayer").first.is_visible()


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("of", ["plain", "piped"])
def test_the_page_fits_and_axe_finds_nothing(page: Any, pages: Path, of: str, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    show(page, pages / f"{of}.html")
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
