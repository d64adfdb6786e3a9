"""What `simfrontier goodput` prints and writes: a table by plan and size, the best, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from simfrontier.cli.bar import bar_of_work
from simfrontier.cli.console import console, grid, plain, say, say_written
from simfrontier.goodput import Goodput, find_goodput, goodput_rows
from simfrontier.report import quantity
from simfrontier.scenario import Scenario
from simfrontier.simulation import Fidelity
from simfrontier.wholefile import ensure_writable, filled


def print_goodput(scenario: Scenario, fidelity: Fidelity | None, out: Path | None, as_json: bool) -> None:
    """Find the goodput, then write everything: what fails leaves the folder as it was."""
    if out is not None:
        ensure_writable(out, "index.html")
    with bar_of_work() as bar:
        task = bar.add_task("simulating", total=len(scenario.plans) * len(scenario.file.run.devices))

        def report_progress(case: str) -> None:
            bar.update(task, advance=1, description=case)

        found = find_goodput(scenario, fidelity, report_progress)
    if out is not None:
        from simfrontier.report import write_goodput

        with filled(out, "goodput") as new:
            write_goodput(found, new)
    if as_json:
        document = {
            "scenario": scenario.name,
            "fidelity": found.fidelity,
            "failures": found.failures.title,
            "source": found.failures.source,
            "results": goodput_rows(found),
            "left_out": [{"plan": plan, "devices": devices} for plan, devices in found.left_out],
        }
        typer.echo(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))
    else:
        _print(found)
        say_written(out)
    if not found.yields:
        raise typer.Exit(1)


def _print(found: Goodput) -> None:
    screen = console()
    heads = ["plan", "devices", "step", "fails", "saved", "useful", "played", "steps", "tokens"]
    title = f"{found.scenario.file.title}: goodput ({found.fidelity}); time between failures (h) and saves (min),\n"
    title += "useful time by the closed form and played at random (%), useful steps and tokens (1e9) a day"
    table = grid(title, heads, words=(), left=("plan",))
    for each in found.yields:
        played = "" if each.played is None else f"{100 * each.played.useful:.2f}±{100 * each.played.error:.2f}"
        cells = [
            each.plan,
            f"{each.step.devices:,}",
            quantity(each.step.step_s, "s"),
            f"{each.between_s / 3600:.3g}",
            f"{each.interval_s / 60:.3g}",
            f"{100 * each.shares.useful:.2f}",
            played,
            f"{each.steps_per_day:,.1f}",
            f"{each.tokens_per_day / 1e9:.4g}",
        ]
        table.add_row(*map(plain, cells))
    screen.print(table)
    say("goodput", "summary", found, screen=screen, soft_wrap=True)
