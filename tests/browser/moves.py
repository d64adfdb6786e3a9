"""The time from a move on the live page until every figure is drawn, in a headless Chromium, and pictures of the page:
`python -m tests.browser.moves FOLDER`, which `make browser` does."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.browser.chromium import browser, complaints_of, wait_for_answers
from tests.invoke import ROOT
from tests.live.serving import served

SCENARIO: Final = ROOT / "scenarios" / "frontier-20b.toml"  # on 384 GCDs, 6 plans
NUM_MOVES: Final = 30
LOOK_S: Final = 1.5  # between moves, in which a person looks at what has changed
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
        for seed, look_s in enumerate((LOOK_S, 0.0)):
            timed = [move(page, chosen, look_s) for chosen in moves(page, seed)]
            say(
                f"{len(timed)} moves, {look_s} s between them: median {median(timed):.3f} s, longest {max(timed):.3f} s"
            )
            page.locator("#reset").click()
            page.wait_for_function("!document.body.classList.contains('busy')")
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


def moves(page: Any, seed: int) -> list[tuple[str, int]]:
    """One control after another, each to a place beside the one where it stands: as a person tries things out, without
    going back first."""
    draw = random.Random(seed)
    sizes = page.eval_on_selector_all(
        "#controls input, #controls select",
        "all => all.map(it => [it.name, Number(it.dataset.own), it.type === 'range' ? Number(it.max) + 1 :"
        " it.options ? it.options.length : 2])",
    )
    at = {key: own for key, own, _ in sizes}
    made: list[tuple[str, int]] = []
    while len(made) < NUM_MOVES:
        for key, _, size in sizes:
            at[key] = min(max(at[key] + draw.choice((-1, 1)), 0), size - 1) if size > 2 else 1 - at[key]
            made.append((key, at[key]))
    return made[:NUM_MOVES]


def move(page: Any, chosen: tuple[str, int], look_s: float) -> float:
    time.sleep(look_s)
    took_s = page.evaluate(MOVE, list(chosen)) / 1e3
    say(f"  {chosen[0]} to place {chosen[1]}: {took_s:.3f} s")
    return float(took_s)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
