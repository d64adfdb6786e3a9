"""A headless Chromium of the system, by Playwright: `make browser` installs what this needs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def browser() -> Iterator[Any]:
    """The browser; tests are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="make browser installs what this needs")
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def complaints_of(page: Any) -> list[str]:
    """What the page's console says from now on: errors and warnings, and errors that nobody caught."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def wait_for_answers(page: Any, number: int) -> None:
    """Until so many answers have been drawn, and none is awaited."""
    drawn = f"Number(document.body.dataset.answers ?? 0) >= {number}"
    wait_for(page, f"{drawn} && !document.body.classList.contains('busy')", limit_s=120)


def wait_for(page: Any, expression: str, limit_s: float = 30) -> None:
    """Until an expression is true on the page. It is asked from outside: Playwright's `wait_for_function` asks in the
    page, whose content policy allows no `eval`."""
    deadline = time.monotonic() + limit_s
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)
