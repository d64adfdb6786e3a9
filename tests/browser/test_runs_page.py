"""The page of published runs in a real browser, opened from disk: figures follow the filters, keys reach every run, and
it fits narrow screens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.accuracy.residual import errors_of
from simfrontier.interfaces.report.phrases import percent, signed
from simfrontier.interfaces.report.runs_page import runs_page
from tests.answers.accuracy.published_runs.rows import written
from tests.browser.chromium import browser, complaints_of, wait_for

CARDS = "[...document.querySelectorAll('.cards b')].map(card => card.textContent)"
MARKS = "document.querySelectorAll('#chart path').length"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "published-runs.html"
    path.write_text(runs_page(written(), documentation=True), encoding="utf-8")
    return path


@pytest.fixture
def page(chromium: Any, file: Path) -> Iterator[Any]:
    """The page, open; nothing is asked of a network, and at the end the console must be empty."""
    opened = chromium.new_page(viewport={"width": 1280, "height": 900})
    complaints = complaints_of(opened)
    opened.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    opened.goto(file.as_uri())
    yield opened
    opened.close()
    assert complaints == []


def figures(*rows: Any) -> list[str]:
    """The texts of the cards of these runs."""
    errors = errors_of(rows)
    assert errors is not None
    shares = (percent(errors.mean_abs), percent(errors.median_abs), signed(errors.bias), percent(errors.covered))
    return [f"{errors.count:,}", *shares, f"± {percent(errors.width)}".replace("± ", "±\u00a0")]


def test_figures_follow_the_filters(page: Any) -> None:
    """Those of the whole set are the answer's; of a machine, of experts there, and again of all."""
    done = written().predicted
    assert page.evaluate(CARDS) == figures(*done)
    page.locator("select[name=machine]").select_option("h100-node")
    some = [row for row in done if row.facets["machine"] == "h100-node"]
    assert page.evaluate(CARDS) == figures(*some) and page.evaluate(MARKS) == len(some)
    page.locator("select[name=model]").select_option("experts")
    some = [row for row in some if row.facets["model"] == "experts"]
    assert page.evaluate(CARDS) == figures(*some)
    assert page.locator("[data-facet=machine] tbody tr:visible").count() == 1
    page.locator("#more").click()
    assert page.locator("#runs tbody tr:visible").count() == len(some)
    page.locator("#filters button").click()
    wait_for(page, f"document.querySelector('.cards b').textContent === '{len(done):,}'")
    assert page.evaluate(CARDS) == figures(*done)


def test_words_choose_models_and_the_address_keeps_them(page: Any, chromium: Any) -> None:
    page.locator("input[name=words]").fill("MPT-70b fsdp")
    chosen = int(page.evaluate(CARDS)[0])
    assert chosen == sum(row.row.model == "MPT-70b" for row in written().predicted)
    again = chromium.new_page()
    again.goto(page.url)
    assert again.evaluate(CARDS) == page.evaluate(CARDS)
    again.close()
    page.locator("input[name=words]").fill("no such run")
    assert page.evaluate(CARDS)[0] == "0" and page.evaluate(MARKS) == 0


@pytest.mark.parametrize("view", ["machine", "both"])
def test_a_run_is_shown_by_keys_and_by_pointer(page: Any, view: str) -> None:
    page.locator(f"[data-view={view}]").click()
    assert page.evaluate(MARKS) == len(written().predicted)
    page.locator("#chart").focus()
    page.keyboard.press("End")
    shown = page.locator("#shown")
    assert "90 % interval" in shown.inner_text() and shown.locator("a").count() == 1
    page.keyboard.press("Escape")
    assert shown.locator("a").count() == 0
    page.locator("#chart path").first.click(force=True)
    assert "measured" in shown.inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (900, "dark"), (420, "light"), (420, "dark")])
def test_the_page_fits_and_axe_finds_nothing(page: Any, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#chart").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
