"""The live page in a real browser: what moves, by pointer and by keyboard alone, at all widths, and what axe finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.browser.chromium import browser, complaints_of, wait_for, wait_for_answers
from tests.interfaces.live.serving import Served, served
from tests.invoke import TOY


@dataclass
class Open:
    """A page that is open, and its server."""

    page: Any
    server: Served
    complaints: list[str] = field(default_factory=list)

    def wait(self, number: int) -> None:
        wait_for_answers(self.page, number)

    def answers(self) -> int:
        return int(self.page.evaluate("Number(document.body.dataset.answers ?? 0)"))

    def text(self, name: str) -> str:
        return str(self.page.locator(f"#{name}").inner_text()).replace("\u00a0", " ")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(chromium: Any) -> Iterator[Served]:
    with served(TOY, "--devices", "8", "--plans", "zero3,zeropp,zero1") as started:
        yield started


@pytest.fixture
def live(chromium: Any, server: Served) -> Iterator[Open]:
    """The page with nothing moved; at the end nothing may have been complained of."""
    page = chromium.new_page(viewport={"width": 1400, "height": 900})
    complaints = complaints_of(page)
    page.goto(server.address)
    opened = Open(page=page, server=server, complaints=complaints)
    opened.wait(1)
    yield opened
    page.close()
    assert complaints == []


def move(live: Open, key: str, place: int) -> None:
    """Move a slider as a person does, and wait for the answer."""
    before = live.answers()
    live.page.locator(f'[name="{key}"]').evaluate(
        "(it, place) => { it.value = place; it.dispatchEvent(new Event('input', {bubbles: true})); }", place
    )
    live.wait(before + 1)


def test_a_slider_moves_every_figure(live: Open) -> None:
    """With four micro-batches in a step: rates, step, timeline, memory and links change."""
    before = {name: live.text(name) for name in ("rates", "held", "classes", "whole")}
    pixels = "['timeline', 'memory'].map(name => document.getElementById(name).toDataURL())"
    drawn = live.page.evaluate(pixels)
    move(live, "training.grad_accum", 2)
    live.page.wait_for_timeout(100)
    assert all(live.text(name) != text for name, text in before.items())
    assert all(now != then for now, then in zip(live.page.evaluate(pixels), drawn, strict=True))
    assert live.text("moved") == "Moved: accumulation steps: 4."


def test_the_link_leads_back_to_the_same_state(live: Open, chromium: Any) -> None:
    move(live, "training.grad_accum", 1)
    live.page.locator('[name="engine.overlap"]').uncheck()
    live.page.locator('.plan[data-plan="zero1"]').click()
    wait_for(live.page, "document.querySelector('.plan[aria-pressed=true]')?.dataset.plan === 'zero1'")
    wait_for(live.page, "!document.body.classList.contains('busy')")
    address = live.page.url
    assert address.endswith("?training.grad_accum=2&engine.overlap=false&plan=zero1")
    again = chromium.new_page()
    again.goto(address)
    wait_for_answers(again, 1)
    for name in ("verdict", "rates", "shown", "moved", "held"):
        assert again.locator(f"#{name}").inner_text() == live.page.locator(f"#{name}").inner_text()
    assert again.locator("#file").get_attribute("href") == live.page.locator("#file").get_attribute("href")
    again.close()
    live.page.locator("#reset").click()
    wait_for(live.page, "document.getElementById('moved').textContent === ''")
    assert live.page.url == live.server.address


def test_a_stretch_drives_links_and_memory(live: Open) -> None:
    most = "document.getElementById('held').textContent.split(' of ')[0]"
    wait_for(live.page, "document.getElementById('held').textContent !== ''")
    whole = live.text("held"), live.text("stretch"), live.page.locator("#links").inner_html()
    most_held = live.page.evaluate(most)
    live.page.locator("#timeline").scroll_into_view_if_needed()
    box = live.page.locator("#timeline").bounding_box()
    live.page.mouse.move(box["x"] + 76, box["y"] + 40)
    live.page.mouse.down()
    live.page.mouse.move(box["x"] + 96, box["y"] + 60, steps=5)
    live.page.mouse.up()
    wait_for(live.page, "document.getElementById('stretch').textContent.startsWith('from')")
    assert live.page.evaluate(most) != most_held and live.page.locator("#links").inner_html() != whole[2]
    live.page.locator("#timeline").focus()
    live.page.keyboard.press("Escape")
    wait_for(live.page, "document.getElementById('stretch').textContent.startsWith('over')")
    assert (live.text("held"), live.text("stretch")) == whole[:2]


def test_all_is_done_by_keyboard_alone(live: Open) -> None:
    """Tab reaches every control, plan and the timeline, in the order of the page, and each shows where it is; arrows
    move sliders, W zooms, B chooses what is seen."""
    reached: list[str] = []
    live.page.locator("body").focus()
    for _ in range(60):
        live.page.keyboard.press("Tab")
        here = live.page.evaluate(
            "(() => { const it = document.activeElement; const style = getComputedStyle(it);"
            " return [it.name || it.id || it.dataset?.plan || it.textContent, style.outlineStyle]; })()"
        )
        if here[0] in reached or live.page.evaluate("document.activeElement === document.body"):
            break
        assert here[1] != "none", here
        reached.append(here[0])
    seen = "all => all.filter(it => it.checkVisibility()).map(it => it.name)"
    names = live.page.eval_on_selector_all("#controls input, #controls select", seen)
    assert [each for each in reached if each in names] == names and {"tp", "training.batch"} < set(names)
    assert {"pin", "reset", "link", "file", "timeline", "zero3"} <= set(reached)
    assert reached.index("zero3") < reached.index("timeline")

    before = live.answers()
    live.page.locator('[name="training.grad_accum"]').focus()
    live.page.keyboard.press("ArrowRight")
    live.wait(before + 1)
    assert live.text("moved") == "Moved: accumulation steps: 2."
    live.page.keyboard.press("ArrowLeft")
    live.wait(before + 2)

    live.page.locator("#timeline").focus()
    for key in "wwwdb":
        live.page.keyboard.press(key)
    wait_for(live.page, "document.getElementById('stretch').textContent.startsWith('from')")
    live.page.keyboard.press("Escape")


def test_a_pinned_answer_stays_beside_the_new_one_with_the_ratio(live: Open) -> None:
    """Twice the batch: the ratio of the step's seconds, as they stand there."""
    move(live, "tp", 1)
    assert live.text("which") == "grid" and live.text("grid") == "tp 2 dp 4"
    live.page.locator("#pin").click()
    before = live.page.evaluate("document.getElementById('time').firstChild.textContent")
    assert live.text("time-then") == f"×1.00 was {before}"
    move(live, "training.batch", 3)
    assert live.text("then-which") == "Pinned: grid (tp 2 dp 4), tensor parallel (tp): 2."
    ratio, was = live.text("time-then").removeprefix("×").split(" was ")
    assert was == before and float(ratio) > 1.1 and live.page.locator("#rates .pinned").count() == 4
    live.page.locator("#pin").click()
    assert live.text("time-then") == "" and live.page.locator("#rates .pinned").count() == 0


def test_an_impossible_grid_says_why_and_the_last_answer_stays(chromium: Any, server: Served) -> None:
    page = chromium.new_page()
    page.goto(f"{server.address}?tp=2")
    wait_for_answers(page, 1)
    figures = page.locator("#answer dl").inner_text(), page.locator("#rates").inner_text()
    page.locator('[name="vp"]').focus()
    page.keyboard.press("End")
    wait_for_answers(page, 2)
    assert page.locator("#error").is_visible() and page.locator("#error").inner_text().startswith("grid: ")
    assert (page.locator("#answer dl").inner_text(), page.locator("#rates").inner_text()) == figures
    page.keyboard.press("Home")
    wait_for_answers(page, 3)
    assert not page.locator("#error").is_visible()
    page.close()


def test_on_a_narrow_screen_the_answer_is_in_sight_while_a_control_moves(live: Open) -> None:
    live.page.set_viewport_size({"width": 420, "height": 800})
    for name in ("tp", "engine.overlap", "library.overrides.shares.nic"):
        live.page.locator(f'[name="{name}"]').scroll_into_view_if_needed()
        live.page.locator(f'[name="{name}"]').focus()
        box = live.page.locator("#answer").bounding_box()
        own = live.page.locator(f'[name="{name}"]').bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= own["y"] < 800 and box["height"] < 240


def test_the_layout_stays_when_the_first_answer_comes(chromium: Any, server: Served) -> None:
    """What is above the step has its place before anything is simulated."""
    page = chromium.new_page(viewport={"width": 1400, "height": 900})
    page.route("**/answer*", lambda route: None)
    page.goto(server.address)
    places = "['answer', 'plans', 'times-title', 'step'].map(id => document.getElementById(id).offsetTop)"
    before = page.evaluate(places)
    page.unroute("**/answer*")
    page.goto(server.address)
    wait_for_answers(page, 1)
    assert before == pytest.approx(page.evaluate(places), abs=30)
    page.close()


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("plan=zero9", "plan: got 'zero9'; did you mean \"zero3\"?"),
    ],
)
def test_a_link_that_cannot_be_is_said_above_the_scenarios_figures(
    chromium: Any, server: Served, link: str, message: str
) -> None:
    page = chromium.new_page()
    page.goto(f"{server.address}?{link}")
    wait_for(page, "!document.getElementById('error').hidden && document.querySelector('.plan')")
    assert page.locator("#error").inner_text() == f"link: {message}"
    assert page.locator("#shown").inner_text() and page.url == server.address
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (800, "light"), (420, "dark")])
def test_the_page_fits_and_axe_finds_nothing(live: Open, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    live.page.emulate_media(color_scheme=scheme)
    live.page.set_viewport_size({"width": width, "height": 900})
    live.page.wait_for_timeout(100)
    assert live.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.Axe().run(live.page)
    assert found.violations_count == 0, found.generate_report()
