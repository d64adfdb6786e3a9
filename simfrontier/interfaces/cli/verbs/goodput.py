"""`simfrontier goodput`: goodput of a long training, by plan and size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.answers.forecast import forecast_run
from simfrontier.answers.goodput import Goodput, find_goodput, goodput_rows
from simfrontier.base.wholefile import ensure_writable
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, say, say_written, tell, write_page
from simfrontier.interfaces.cli.options import announce
from simfrontier.interfaces.progress import progress
from simfrontier.interfaces.report.goodput import goodput_csv, goodput_page
from simfrontier.interfaces.report.phrases import quantity
from simfrontier.interfaces.report.table import Table


def goodput(
    scenario: Annotated[
        Path, typer.Argument(help="scenario (TOML file or name) with a table `goodput`, e.g. frontier-1t-3d")
    ],
    plans: options.Plans = None,
    devices: options.Devices = None,
    set_: options.Settings = None,
    fidelity: options.Fidelity = None,
    out: Annotated[Path | None, typer.Option(help="folder for the page and goodput.csv (default: neither)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Predict the goodput of a long training with failures, checkpoints, restarts and spare nodes: useful steps and
    tokens per day of every plan at every size, and the best size. The scenario's table `goodput` describes the
    failures."""
    loaded = options.load(scenario, set_, plans, devices)
    announce(forecast_run(loaded, fidelity, False, False), str(scenario), yes_large)
    if out is not None:
        ensure_writable(out)
    with progress("simulating", len(loaded.plans) * len(loaded.file.run.devices)) as report:
        found = find_goodput(loaded, fidelity, report)
    if out is not None:
        table = {"goodput.csv": goodput_csv(found)} if found.yields else {}
        write_page(out, {"index.html": goodput_page(found), **table})
    if json:
        document = {
            "scenario": loaded.name,
            "fidelity": found.fidelity,
            "failures": found.failures.title,
            "source": found.failures.source,
            "results": goodput_rows(found),
            "left_out": [{"plan": plan, "devices": devices} for plan, devices in found.left_out],
        }
        print_json(document)
    else:
        _print(found)
        say_written(out)
    if not found.yields:
        raise typer.Exit(1)


def _print(found: Goodput) -> None:
    heads = ["plan", "devices", "step", "fails", "saved", "useful", "played", "steps", "tokens"]
    title = f"{found.scenario.file.title}: goodput ({found.fidelity}); time between failures (h) and saves (min),\n"
    title += "useful time by the closed form and played at random (%), useful steps and tokens (1e9) a day"
    rows = [
        (
            each.plan,
            f"{each.step.devices:,}",
            quantity(each.step.step_s, "s"),
            f"{each.between_s / 3600:.3g}",
            f"{each.interval_s / 60:.3g}",
            f"{100 * each.shares.useful:.2f}",
            "" if each.played is None else f"{100 * each.played.useful:.2f}±{100 * each.played.error:.2f}",
            f"{each.steps_per_day:,.1f}",
            f"{each.tokens_per_day / 1e9:.4g}",
        )
        for each in found.yields
    ]
    tell(Table(title, heads, rows, left=("plan",)))
    say("goodput", "summary", found)
