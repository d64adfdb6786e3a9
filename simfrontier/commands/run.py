"""`simfrontier run`: simulate a scenario and write its folder of results."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterator
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from simfrontier.commands.bar import bar_of_work
from simfrontier.commands.folder import ensure_writable, filled
from simfrontier.report import write_manifest, write_results
from simfrontier.report.assumptions import fitted_elsewhere
from simfrontier.report.probability import sampled_rate
from simfrontier.report.published import comparable
from simfrontier.report.sensitivity import named
from simfrontier.report.words import NOTHING, number
from simfrontier.scenario import Scenario
from simfrontier.sensitivity import Sensitivity, run_sensitivity
from simfrontier.simulate import Fidelity
from simfrontier.study import Study, run_study
from simfrontier.trace import write_perfetto


def run_scenario(
    scenario: Scenario,
    out: Path | None,
    fidelity: Fidelity | None,
    exact: bool,
    jobs: int,
    vary: bool,
    page: bool,
    as_json: bool,
) -> None:
    """Run everything, then write everything: a run that fails leaves the folder as it was."""
    gc.disable()  # a run ends soon and makes few cycles; collecting would take a quarter of its time
    folder = out or Path("reports") / scenario.name
    ensure_writable(folder)
    table = scenario.file.sensitivity if vary else None
    if vary:
        scenario.refuse_variations()
    total = len(scenario.plans) * len(scenario.file.run.devices)
    total += sum(len(v.values) for v in table.vary) + len(table.required) if table else 0
    with bar_of_work() as bar:
        task = bar.add_task("simulating", total=total)

        def said(what: str) -> None:
            bar.update(task, advance=1, description=what)

        study = run_study(scenario, fidelity, exact, jobs, said)
        sensitivity = run_sensitivity(scenario, study.fidelity, said) if vary else None
    with filled(folder, stale=("trace-*.json", "index.html")) as new:
        _write_all(study, sensitivity, new, page)
    if as_json:
        typer.echo(json.dumps([outcome.row for outcome in study.outcomes], indent=1))
    else:
        _print(study, sensitivity, folder, page)


def _write_all(study: Study, sensitivity: Sensitivity | None, folder: Path, page: bool) -> None:
    for outcome in study.outcomes:
        if outcome.trace is not None:
            write_perfetto(outcome.trace, folder / f"trace-{outcome.plan}-{outcome.devices}.json")
    write_results(study, folder / "results.csv")
    write_manifest(study, folder)
    if page:
        from simfrontier.report.page import write_page

        write_page(study, sensitivity, folder / "index.html")


def _print(study: Study, sensitivity: Sensitivity | None, folder: Path, page: bool) -> None:
    console = Console(markup=False, emoji=False)  # titles and labels are the user's: brackets mean themselves
    console.print(_rates(study))
    for said in _bands(study):
        console.print(said, soft_wrap=True)
    if elsewhere := fitted_elsewhere(study.scenario):
        console.print(f"{elsewhere}.", soft_wrap=True)
    for plan in study.scenario.plans:
        big = [outcome for outcome in study.of(plan) if outcome.row["note"]]
        if big:
            sizes = ", ".join(str(outcome.devices) for outcome in big)
            said = f"– {plan} does not fit on {sizes}; on {big[-1].devices} it {big[-1].row['note']}."
            console.print(said, style="dim", soft_wrap=True)
    if sensitivity is not None:
        console.print(_ratios(study, sensitivity))
        console.print(sensitivity.strongest + ".")
        for required in sensitivity.required:
            console.print(required.sentence + ".")
    elif study.scenario.file.sensitivity is None and study.scenario.file.published is not None:
        console.print("What is unknown is not varied here: that takes all the plans that the scenario compares.")
    said = f"Written: {folder / 'index.html'} (open it in a browser), " if page else f"Written to {folder}: "
    console.print(f"{said}results.csv, manifest.json, trace-*.json (for Perfetto)", soft_wrap=True)


def _rates(study: Study) -> Table:
    table = Table(title=f"{study.scenario.file.title}: TFLOPS per device ({study.fidelity})")
    sizes = study.scenario.file.run.devices
    table.add_column("plan", no_wrap=True, min_width=max(map(len, study.scenario.plans)))
    for size in sizes:
        table.add_column(str(size), justify="right")
    for plan in study.scenario.plans:
        cells = []
        for outcome in study.of(plan):
            rate = outcome.row["tflops_per_device"]
            cells.append(number(rate) if isinstance(rate, float) else NOTHING)
        table.add_row(plan, *cells)
    return table


def _bands(study: Study) -> Iterator[str]:
    """At the largest size, the rate of typical devices and what nine samples of ten say; nothing without samples."""
    size = max(study.scenario.file.run.devices)
    sampled = [o for o in study.outcomes if o.devices == size and o.samples_s is not None]
    if sampled:
        yield f"TFLOPS per device on {size:,}, in brackets what nine samples of ten lie within:"
    width = max((len(outcome.plan) for outcome in sampled), default=0)
    for outcome in sampled:
        typical = number(float(outcome.row["tflops_per_device"]))
        yield f"  {outcome.plan:<{width}}  typical {typical}; {sampled_rate(study.scenario, outcome)}"


def _ratios(study: Study, sensitivity: Sensitivity) -> Table:
    first = sensitivity.plans[0]
    table = Table(title=f"Relative to {first} at {sensitivity.devices} devices ({sensitivity.fidelity})")
    table.add_column("setting")
    for plan in sensitivity.plans:
        table.add_column(plan, justify="right")

    def fits(rates: dict[str, float], plan: str) -> bool:
        return not math.isnan(rates[plan] / rates[first])

    def cells(rates: dict[str, float]) -> list[str]:
        return [f"{rates[p] / rates[first]:.3f}" if fits(rates, p) else "too big" for p in sensitivity.plans]

    published = comparable(study.scenario)
    table.add_row("the documented defaults", *cells(dict(sensitivity.default)), style="bold")
    if published is not None:
        known = (published.ratios.get(plan) for plan in sensitivity.plans)
        table.add_row("published", *("" if ratio is None else f"{ratio:.3f}" for ratio in known))
    for varied in sensitivity.varied:
        table.add_row(" = ".join(named(varied)), *cells(dict(varied.rates)))
    return table
