"""The page of a study: every section and plan on it, all numbers with their sources, the same bytes every time."""

import base64
import gzip
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.experiments import Sensitivity
from simfrontier.answers.study import Study
from simfrontier.interfaces.report.study_page import SECTIONS
from tests.interfaces.report.studies import full, mlp, page, piped, study

LITTLE, NOTHING = 2e6, 1e3  # bytes of memory in which ddp does not fit, in which no plan does
CASES: dict[str, Callable[[], tuple[Study, Sensitivity | None]]] = {
    "full": full,
    "nothing fits": lambda: (study(NOTHING), None),
    "an MLP in fp32": lambda: (mlp(), None),
    "pipelines and grids": lambda: piped()[:2],
}


class Page(HTMLParser):
    """What a reader sees of a page, and what a browser would load or draw: the library, and the JSON of each chart
    (its figures by variant) by its id."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.data: dict[str, str] = {}
        self.library = ""
        self._starts: dict[str, int] = {}
        self._inside: list[tuple[str, str]] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        if tag == "section":
            self._starts[given["id"]] = len(self.seen)
        self.loaded += [given[name] for name in ("src", "href", "data", "srcset") if name in given]
        if tag in ("script", "style"):
            self._inside.append((tag, given.get("id", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.seen.append(data)
        elif self._inside[-1][1]:
            unpacked = gzip.decompress(base64.b64decode(data)).decode()
            if self._inside[-1][1] == "library":
                self.library = unpacked
            else:
                self.data[self._inside[-1][1]] = unpacked

    @property
    def words(self) -> str:
        return " ".join(self.seen)

    def section(self, name: str) -> str:
        """The words of one section, the white space of the page's lines apart."""
        start = self._starts[name]
        end = min((at for at in self._starts.values() if at > start), default=len(self.seen))
        return " ".join(" ".join(self.seen[start:end]).split())


@pytest.fixture(scope="module", params=list(CASES))
def made(request: pytest.FixtureRequest) -> tuple[Study, Sensitivity | None, Page]:
    done, varied = CASES[request.param]()
    return done, varied, Page(page(done, varied))


Made = tuple[Study, Sensitivity | None, Page]


def figures_of(read: Page) -> list[dict[str, Any]]:
    """All charts of a page."""
    packed = [text for name, text in read.data.items() if name.startswith("fig-")]
    return [figure for text in packed for figure in json.loads(text).values()]


def test_every_section_that_has_something_to_say_is_there(made: Made) -> None:
    done, varied, read = made
    lacking = {"compression", "environment", "gathers", "slowdown", "softmax"} | (
        {"sensitivity"} if varied is None else set()
    )
    lacking |= set() if "pipe" in done.scenario.plans else {"ranks", "pipeline"}
    lacking |= {"published"} if done.scenario.file.published is None else set()
    assert [name for name in SECTIONS if name in read.ids] == [name for name in SECTIONS if name not in lacking]
    assert {f"#{name}" for name in SECTIONS if name not in lacking} <= set(read.loaded)


def test_every_plan_is_named(made: Made) -> None:
    assert [plan for plan in made[0].scenario.plans if plan not in made[2].words] == []


def test_text_of_the_scenario_is_escaped(made: Made) -> None:
    done, varied, _ = made
    assert "<h1>A &lt;tiny&gt; GPT &amp; a toy</h1>" in page(done, varied)


def test_every_number_of_machine_and_library_is_there_with_its_source() -> None:
    done, varied = full()
    read = Page(page(done, varied))
    numbers = {"machine": done.scenario.machine.provenance(), "library": done.scenario.library.provenance()}
    keys = [f"{part}.{number.key}" for part, listed in numbers.items() for number in listed]
    assert [key for key in keys if key not in read.seen] == []
    assert [n.source for listed in numbers.values() for n in listed if n.source not in read.seen] == []


def test_the_timeline_draws_every_operation() -> None:
    done, varied = full()
    drawn = json.loads(Page(page(done, varied)).data["fig-timeline"])
    for outcome in done.outcomes:
        if outcome.trace is not None:
            bars = {t["name"]: len(t["base"]) for t in drawn[outcome.plan]["data"]}
            assert sum(n for name, n in bars.items() if "waiting" not in name) == len(outcome.trace.processes[0].spans)


def test_the_same_study_gives_the_same_bytes() -> None:
    assert page(*full()) == page(*full())


def test_the_page_holds_its_library_and_names_no_folder() -> None:
    text = page(*full())
    read = Page(text)
    assert "plotly.js v" in read.library
    assert [held for held in (text, read.library, *read.data.values()) if str(Path.cwd()) in held] == []
