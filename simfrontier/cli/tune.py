"""`simfrontier tune`: search for the best plan for a scenario's machine, model and batch, and write its folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

import typer

from simfrontier.cli.bar import bar_of_work
from simfrontier.cli.tune_files import BEST, as_document, write_files
from simfrontier.cli.tune_table import print_tuning
from simfrontier.errors import InputError, StoppedError
from simfrontier.scenario import Scenario
from simfrontier.study import STORE, forget
from simfrontier.tuning import TuningOutcome, Value, parse_pin, pins_of, tune
from simfrontier.wholefile import MANIFEST, ensure_writable, filled
from simfrontier.workers import Place

SHOWN = 10


class SearchSettings(TypedDict):
    """How to search: pins as the command line has them, whether plans may lose precision, how many to simulate,
    where, and whether to forget what a stopped search has left."""

    pins: Sequence[str]
    lossy: bool
    max_error: float | None
    simulate: int | None
    place: Place
    fresh: bool


def cores() -> int:
    """How many cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def search_plans(
    scenario: Scenario, settings: SearchSettings, out: Path | None, top: int | None, page: bool, as_json: bool
) -> None:
    """Search, then write everything: what fails leaves the folder as it was, but for the search's own file."""
    folder = out or Path("reports") / f"tune-{scenario.name}"
    pins = _pins(settings["pins"])
    ensure_writable(folder, "results.csv", BEST, "index.html", MANIFEST)
    if settings["fresh"]:
        forget(folder)

    def finish(outcome: TuningOutcome) -> None:
        try:
            with filled(folder, "tune", MANIFEST) as new:
                write_files(outcome, new, folder, page)
        except InputError as error:
            raise InputError(f"{error}; {STORE} stays: the same command goes on from there") from None

    outcome = _searched(scenario, settings, pins, folder, finish)
    if as_json:
        typer.echo(json.dumps(as_document(outcome, top), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        print_tuning(outcome, folder, SHOWN if top is None else top, page)


def _searched(
    scenario: Scenario,
    settings: SearchSettings,
    pins: dict[str, list[Value]],
    folder: Path,
    finish: Callable[[TuningOutcome], None],
) -> TuningOutcome:
    with bar_of_work() as bar:
        task = bar.add_task("laying out the space of plans", total=None)

        def report_progress(stage: str, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=stage)

        try:
            return tune(
                scenario,
                pins=pins,
                lossy=True if settings["lossy"] else None,
                max_error=settings["max_error"],
                simulate=settings["simulate"],
                place=settings["place"],
                folder=folder,
                progress=report_progress,
                finish=finish,
            )
        except KeyboardInterrupt as stop:
            if not (folder / STORE).exists():
                raise
            text = f"stopped; {folder / STORE} has what is done: the same command goes on from there"
            raise StoppedError(text, stop) from None


def _pins(texts: Sequence[str]) -> dict[str, list[Value]]:
    """The values of `--pin`; all of a dimension that is named twice. Raises InputError."""
    given: dict[str, list[Value]] = {}
    for text in texts:
        name, values = parse_pin(text)
        given.setdefault(name, []).extend(values)
    try:
        pins_of(given, ())
    except InputError as error:
        raise InputError(error.what, where=" ".join(("--pin", *map(str, error.key)))) from None
    return given
