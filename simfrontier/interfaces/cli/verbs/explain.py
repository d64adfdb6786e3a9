"""`simfrontier explain`: the parts of a plan's step, possible improvements, and differences between plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, progress, write_page
from simfrontier.interfaces.cli.large import announce


def explain(
    scenario: options.ScenarioPath,
    plan: Annotated[
        str | None, typer.Option(help="plan to explain (default: the fastest, with all plans compared)")
    ] = None,
    against: Annotated[str | None, typer.Option(help="plan to compare with (default: the best of the others)")] = None,
    devices: Annotated[int | None, typer.Option(help="size to explain (default: the scenario's largest)")] = None,
    set_: options.Settings = None,
    fidelity: options.Fidelity = None,
    what_if: Annotated[
        bool, typer.Option("--what-if/--no-what-if", help="simulate possible improvements: links, overlap, codecs ...")
    ] = True,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    out: Annotated[Path | None, typer.Option(help="folder for the page index.html (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Explain a plan's step time: where it goes, what would help most (each change simulated), and how it differs from
    the next best or another plan. Exit code 1 if the plan does not fit into memory."""
    from simfrontier.answers.explain import explain as explanation_of
    from simfrontier.answers.forecast import forecast_explain
    from simfrontier.base.wholefile import ensure_writable
    from simfrontier.interfaces.cli.terminal.explain import explanation_document, print_explanation
    from simfrontier.interfaces.report import explanation_page

    plan, against = options.one_plan("--plan", plan), options.one_plan("--against", against)
    place = options.place_of(jobs, scheduler, slurm, dashboard)
    loaded = options.load(scenario, set_, None, devices, laid_out=False)
    announce(forecast_explain(loaded, plan, against, fidelity, what_if), str(scenario), yes_large)
    if out is not None:
        ensure_writable(out)
    with progress("simulating") as report:
        explanation = explanation_of(
            loaded,
            plan,
            devices=devices,
            against=against,
            fidelity=fidelity,
            what_if=what_if,
            place=place,
            progress=lambda stage, total: report(stage, total=total),
        )
    if out is not None:
        write_page(out, "explain", {"index.html": explanation_page(explanation)})
    if json:
        print_json(explanation_document(explanation))
    else:
        print_explanation(explanation, out)
