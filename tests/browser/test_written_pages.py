"""Pages of studies and sweeps in a real browser: charts are drawn of the rows, variants by keyboard, print, and axe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.sweep import read_rows
from simfrontier.interfaces.report.results import findings_of
from simfrontier.interfaces.report.study_page import study_page
from simfrontier.interfaces.report.sweep_page import write_sweep_page
from simfrontier.interfaces.report.view import StudyView
from tests.browser.chromium import browser, complaints_of, wait_for
from tests.interfaces.report.studies import full, piped
from tests.interfaces.report.sweeps import goal, indices, refused, sampled, toy_sweep, write

SLOW = 60_000  # ms: charts of a machine without a GPU, which others use as well
DRAWN = "[...document.querySelectorAll('.plot')].every(each => 'drawn' in each.dataset)"
LINES = "document.querySelector('[data-figures=fig-parallel]').data[0]"
Pages = dict[str, Path]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Pages of two studies, of a sweep of the toy, and of samples with a goal and a refused point."""
    folder = tmp_path_factory.mktemp("pages")
    done, varied, searches = piped()
    for name, view in (
        ("plain", StudyView(study=full()[0], sensitivity=full()[1])),
        ("piped", StudyView(study=done, sensitivity=varied, searches=searches)),
    ):
        (folder / f"{name}.html").write_text(study_page(findings_of(view), view), encoding="utf-8")
    toy = toy_sweep(folder / "toy")
    rows = [*sampled(3, 2), refused(3, {f"machine.overrides.host.number_{axis}_s": 0.5 for axis in "abc"}, "too <big>")]
    unknowns = write(folder / "unknowns", rows)
    found = indices({"machine.overrides.host.number_a_s": 0.75, "machine.overrides.host.number_b_s": 0.19})
    text = json.dumps(goal("samples", (3.0, 2.0, 4.0, None), indices=found))
    (unknowns / "goal.json").write_text(text, encoding="utf-8")
    for each in (toy, unknowns):
        write_sweep_page(each)
    return {
        **{name: folder / f"{name}.html" for name in ("plain", "piped")},
        "toy": toy / "index.html",
        "unknowns": unknowns / "index.html",
    }


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A window; at the end the console must be empty."""
    opened = chromium.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(SLOW)
    complaints = complaints_of(opened)
    yield opened
    opened.close()
    assert [each for each in complaints if "GPU stall" not in each] == []  # said where there is no GPU


def show(page: Any, file: Path) -> None:
    """Open the page and scroll through it until every chart is drawn."""
    page.goto(file.as_uri())
    for chart in page.locator(".plot").all():
        chart.scroll_into_view_if_needed()
        page.wait_for_timeout(100)
    wait_for(page, DRAWN, limit_s=60)


def test_the_first_chart_is_a_drawing_until_the_library_has_loaded(page: Any, pages: Pages) -> None:
    page.add_init_script("delete window.DecompressionStream")
    page.goto(pages["plain"].as_uri())
    assert page.locator("[data-figures=fig-rate] > svg polyline").count() == 3
    assert page.locator(".no-charts").is_visible()


def test_the_drawing_makes_room_for_the_chart(page: Any, pages: Pages) -> None:
    show(page, pages["plain"])
    assert page.locator("[data-figures=fig-rate] > svg").count() == 0
    assert page.locator("[data-figures=fig-rate] .scatterlayer .trace").count() > 3


def test_charts_of_a_sweep_are_drawn_of_its_rows(page: Any, pages: Pages) -> None:
    show(page, pages["toy"])
    rates = [row["tokens_per_s"] for row in read_rows(pages["toy"].parent).to_pylist()]
    assert page.locator(".plot").count() == 3
    assert page.evaluate(f"{LINES}.line.color") == pytest.approx(rates, rel=1e-4)
    assert page.locator("[data-figures=fig-heat] .heatmaplayer image").count() == 1
    assert page.locator("[data-figures=fig-front] .scatterlayer .point").count() > 24


def test_variants_are_chosen_by_keyboard(page: Any, pages: Pages) -> None:
    show(page, pages["plain"])
    page.locator("#probability button", has_text="2").focus()
    page.keyboard.press("Enter")
    assert [each.is_visible() for each in page.locator("#probability .panel").all()] == [False, True]
    page.locator("#time button", has_text="2").focus()
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('[data-figures=fig-time]').dataset.shown === '2'")


@pytest.mark.parametrize(("of", "chart"), [("plain", ".scatterlayer"), ("toy", ".parcoords")])
def test_charts_are_there_in_print(page: Any, pages: Pages, of: str, chart: str) -> None:
    show(page, pages[of])
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible() and page.locator(chart).first.is_visible()


def test_on_paper_folds_are_open_and_nothing_is_cut(page: Any, pages: Pages) -> None:
    """Also from a dark window that is wider than a page of A4."""
    page.emulate_media(color_scheme="dark")
    show(page, pages["piped"])
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    folded = "document.querySelectorAll('details:not([open]) > :not(summary, [hidden])')"
    assert page.evaluate(f"[...{folded}].filter(each => !each.offsetHeight).map(each => each.outerHTML)") == []
    drawn = "[...document.querySelectorAll('.plot svg.main-svg')].map(each => each.width.baseVal.value)"
    assert max(page.evaluate(drawn)) <= 700
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_term_says_what_it_means_to_pointer_and_keyboard(page: Any, pages: Pages) -> None:
    page.goto(pages["plain"].as_uri())
    term, tip = page.locator(".answer a.term", has_text="MFU"), page.locator("#tip")
    assert not tip.is_visible()
    term.hover()
    assert "nominal peak" in tip.inner_text() and term.get_attribute("aria-describedby") == "tip"
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.locator("#time a.term").first.evaluate(  # which scrolls it into sight
        "term => new Promise(done => { addEventListener('scrollend', done); term.focus(); })"
    )
    assert tip.is_visible() and "variation between devices" in tip.inner_text()
    assert 0 < tip.bounding_box()["y"] < 900
    term.click()
    assert page.locator("#term-mfu").is_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
@pytest.mark.parametrize("of", ["plain", "piped", "toy", "unknowns"])
def test_the_page_fits_and_axe_finds_nothing(page: Any, pages: Pages, of: str, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    show(page, pages[of])
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
