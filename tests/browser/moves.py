"""The time from a move on the live page until every figure is drawn, in a headless Chromium, and pictures of the page:
`python -m tests.browser.moves FOLDER`, which `make browser` does."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.browser.chromium import browser, complaints_of, wait_for, wait_for_answers
from tests.invoke import ROOT
from tests.live.serving import served

SCENARIO: Final = ROOT / "scenarios" / "frontier-20b.toml"  # on 384 GCDs, 6 plans
NUM_MOVES: Final = 30  # of those that add up
SEED: Final = 1
WIDTHS: Final = (1400, 800, 420)
# One move: the control at another place, and the milliseconds until what is shown has been painted.
MOVE: Final = """([key, place]) => new Promise((done) => {
  const control = document.querySelector(`[name="${key}"]`), before = performance.now();
  const answers = Number(document.body.dataset.answers);
  if (control.type === "checkbox") control.checked = Boolean(place); else control.value = String(place);
  control.dispatchEvent(new Event("input", { bubbles: true }));
  const look = () => Number(document.body.dataset.answers) > answers && !document.body.classList.contains("busy")
    ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - before)))
    : setTimeout(look, 2);
  look();
})"""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with served(SCENARIO) as started, browser() as chromium:
        page = chromium.new_page(viewport={"width": WIDTHS[0], "height": 1000})
        complaints = complaints_of(page)
        began = time.perf_counter()
        page.goto(started.address)
        wait_for_answers(page, 1)
        say(f"{SCENARIO.stem}, opened: {time.perf_counter() - began:.2f} s")
        for what, chosen in (
            ("each slider through its range, the others as in the scenario", sweeps(page)),
            ("all controls in turn, each from where the others were left", walk(page)),
        ):
            timed = [move(page, *each) for each in chosen]
            say(f"{what}: {len(timed)} moves, median {median(timed):.3f} s, longest {max(timed):.3f} s")
            page.locator("#reset").click()
            wait_for(page, "!document.body.classList.contains('busy')")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 1000})
                page.wait_for_timeout(300)
                page.screenshot(path=folder / f"live-{width}-{scheme}.png", full_page=True)
        say(f"complaints of the console: {len(complaints)}", *complaints)
        say(f"pictures: {folder}")


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def sweeps(page: Any) -> list[tuple[str, int]]:
    """Every slider, from where the scenario has it to its ends and back."""
    made: list[tuple[str, int]] = []
    for key, own, size, kind in controls_of(page):
        if kind == "range":
            down, up = range(own - 1, -1, -1), range(own + 1, size)
            made += [(key, place) for place in (*down, *([own] if down else []), *up, *([own] if up else []))]
    return made


def walk(page: Any) -> list[tuple[str, int]]:
    """One control after another, each to a place beside the one where it stands."""
    draw, controls = random.Random(SEED), controls_of(page)
    at = {key: own for key, own, _, _ in controls}
    made: list[tuple[str, int]] = []
    while len(made) < NUM_MOVES:
        for key, _, size, _ in controls:
            at[key] = min(max(at[key] + draw.choice((-1, 1)), 0), size - 1) if size > 2 else 1 - at[key]
            made.append((key, at[key]))
    return made[:NUM_MOVES]


def controls_of(page: Any) -> list[tuple[str, int, int, str]]:
    """Key, own place, number of places and type of every control."""
    found: list[list[Any]] = page.eval_on_selector_all(
        "#controls input, #controls select",
        "all => all.map(it => [it.name, Number(it.dataset.own), it.type === 'range' ? Number(it.max) + 1 :"
        " it.options ? it.options.length : 2, it.type])",
    )
    return [(key, own, size, kind) for key, own, size, kind in found]


def move(page: Any, key: str, place: int) -> float:
    took_s = float(page.evaluate(MOVE, [key, place])) / 1e3
    say(f"  {key} to place {place}: {took_s:.3f} s")
    return took_s


if __name__ == "__main__":
    main(Path(sys.argv[1]))
