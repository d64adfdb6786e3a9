"""Progress of work from Python: a bar in a notebook, after a second and until the end; nothing in a script."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.interfaces.progress import asked, progress


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a notebook is told to display, in turn; this process is its kernel."""
    displayed: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            displayed.append(data["text/html"])

    def display(data: dict[str, str], **_: Any) -> Handle:
        displayed.append(data["text/html"])
        return Handle()

    kernel, below = ModuleType("IPython"), ModuleType("IPython.display")
    kernel.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    below.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", below)
    return displayed


def test_a_notebook_shows_a_bar_after_a_second_that_disappears(shown: list[str]) -> None:
    now = 0.0
    with progress("working", 4, lambda: now) as report:
        for number in range(4):  # at 0.5, 1.0, 1.5 and 2.0 s
            now += 0.5
            report(f"step <{number}>")
    assert shown == [
        '<progress max="4" value="2"></progress> step &lt;1&gt;: 2 of 4, 1 s',
        '<progress max="4" value="3"></progress> step &lt;2&gt;: 3 of 4, 2 s',
        '<progress max="4" value="4"></progress> step &lt;3&gt;: 4 of 4, 2 s',
        "",
    ]


def test_short_work_shows_nothing(shown: list[str]) -> None:
    with asked(None, "working") as report:
        report("a step")
    assert shown == []


def test_a_script_shows_nothing_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[str, int]] = []
    with asked(lambda *words: told.append(words), "working") as report:
        report("a step", 3)
    with asked(None, "working", 2) as report:
        report("a step", 1, 2)
    assert told == [("a step", 3)] and capfd.readouterr() == ("", "")


def test_another_value_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^progress: got 3, allowed: True, False, None or a function$"):
        asked(3, "working")  # type: ignore[arg-type]
