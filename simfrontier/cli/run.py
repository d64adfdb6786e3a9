"""`simfrontier run`: simulate a scenario and write its folder of results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from simfrontier.cli.bar import bar_of_work
from simfrontier.report import (
    NOTHING,
    StudyView,
    comparable,
    fitted_elsewhere,
    found_grid,
    named,
    number,
    published_values,
    ratio_sentences,
    sampled_rate,
    sentence as share_sentence,
    shares,
    sizes_of,
    value,
    write_findings,
    write_manifest,
    write_results,
)
from simfrontier.scenario import Scenario
from simfrontier.simulation import Fidelity
from simfrontier.study import Study, run_study
from simfrontier.trace import write_perfetto
from simfrontier.tuning import GridSearcher
from simfrontier.wholefile import MANIFEST, ensure_writable, filled

if TYPE_CHECKING:
    from simfrontier.sensitivity import Sensitivity


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
    folder = out or Path("reports") / scenario.name
    ensure_writable(folder, "results.csv", "findings.json", "index.html", MANIFEST)
    table = scenario.file.sensitivity if vary else None
    if vary:
        scenario.refuse_variations()
    sizes = scenario.file.run.devices
    total = len(scenario.plans) * len(sizes) + sum(len(scenario.at(size).searches) for size in sizes)
    total += len(table.sizes) * sum(len(v.values) for v in table.vary) + len(table.required) if table else 0
    with bar_of_work() as bar:
        task = bar.add_task("simulating", total=total)

        def report_progress(stage: str) -> None:
            bar.update(task, advance=1, description=stage)

        searcher = GridSearcher()
        scenario = searcher.complete(scenario, report_progress)
        study = run_study(scenario, fidelity, exact, jobs, report_progress)
        sensitivity: Sensitivity | None = None
        if vary:
            from simfrontier.sensitivity import run_sensitivity

            sensitivity = run_sensitivity(scenario, study.fidelity, report_progress)
    with filled(folder, "run", MANIFEST) as new:
        _write_all(study, sensitivity, searcher, new, page)
    if as_json:
        typer.echo(json.dumps([outcome.row for outcome in study.outcomes], indent=1))
    else:
        _print(study, sensitivity, searcher, folder, page)


def _write_all(study: Study, sensitivity: Sensitivity | None, searcher: GridSearcher, folder: Path, page: bool) -> None:
    for outcome in study.outcomes:
        if outcome.trace is not None:
            write_perfetto(outcome.trace, folder / f"trace-{outcome.plan}-{outcome.devices}.json")
    write_results(study, folder / "results.csv")
    write_findings(study, folder / "findings.json")
    write_manifest(study, folder)
    if page:
        from simfrontier.report import write_page

        write_page(study, sensitivity, folder / "index.html", searcher.tried)


def _print(study: Study, sensitivity: Sensitivity | None, searcher: GridSearcher, folder: Path, page: bool) -> None:
    console = Console(markup=False, emoji=False)  # titles and labels are the user's: brackets mean themselves
    console.print(_rates(study))
    for text in _grids(study, searcher):
        console.print(text, soft_wrap=True)
    for text in _bands(study):
        console.print(text, soft_wrap=True)
    if elsewhere := fitted_elsewhere(study.scenario):
        console.print(f"{elsewhere}.", soft_wrap=True)
    for plan in study.scenario.plans:
        big = [outcome for outcome in study.of(plan) if outcome.row["note"]]
        if big:
            sizes = ", ".join(str(outcome.devices) for outcome in big)
            text = f"– {plan} does not fit on {sizes}; on {big[-1].devices} it {big[-1].row['note']}."
            console.print(text, style="dim", soft_wrap=True)
    if sensitivity is not None:
        for each in reversed(sizes_of(sensitivity)):
            console.print(_varied(study, each))
            console.print(each.strongest + ".")
        for required in sensitivity.required:
            console.print(required.sentence + ".")
    elif _lacks_plans(study.scenario):
        console.print("What is unknown is not varied here: that takes all the plans that the scenario compares.")
    for line in _published(study, sensitivity):
        console.print(line, soft_wrap=True)
    text = f"Written: {folder / 'index.html'} (open it in a browser), " if page else f"Written to {folder}: "
    console.print(f"{text}results.csv, findings.json, manifest.json, trace-*.json (for Perfetto)", soft_wrap=True)


def _lacks_plans(scenario: Scenario) -> bool:
    """Whether the run leaves out plans that the scenario compares with published ones."""
    figures = scenario.file.published
    return scenario.file.sensitivity is None and figures is not None and not {*figures.ratios} <= {*scenario.plans}


def _published(study: Study, sensitivity: Sensitivity | None) -> Iterator[str]:
    """A line per published share of the peak and per ratio, with the prediction and its range."""
    view = StudyView(study=study)
    if comparable(study.scenario) is None:
        return
    known = shares(view, sensitivity)
    yield from (f"{share.plan} on {share.devices:,}: {share_sentence(share)}" for share in known)
    yield from ratio_sentences(view, sensitivity)


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


def _grids(study: Study, searcher: GridSearcher) -> Iterator[str]:
    """A line per search: the grid that it found, and among how many."""
    for (plan, size), tried in searcher.tried.items():
        grid = study.scenario.resolved_options[plan, size]
        yield f"{plan} on {size:,}: {found_grid(grid, size, tried)} (best of {len(tried):,})"


def _bands(study: Study) -> Iterator[str]:
    """At the largest size, the rate of typical devices and the range of nine samples in ten; nothing without
    samples."""
    size = max(study.scenario.file.run.devices)
    sampled = [o for o in study.outcomes if o.devices == size and o.samples_s is not None]
    if sampled:
        yield f"TFLOPS per device on {size:,}, in brackets what nine samples of ten lie within:"
    width = max((len(outcome.plan) for outcome in sampled), default=0)
    for outcome in sampled:
        typical = number(float(outcome.row["tflops_per_device"]))
        yield f"  {outcome.plan:<{width}}  typical {typical}; {sampled_rate(study.scenario, outcome)}"


def _varied(study: Study, sensitivity: Sensitivity) -> Table:
    """Ratios of the compared plans to the first under every variation; rates where one plan is looked at."""
    plans = sensitivity.plans
    is_one = len(plans) == 1
    title = "TFLOPS per device" if is_one else f"Relative to {plans[0]}"
    table = Table(title=f"{title} at {sensitivity.devices} devices ({sensitivity.fidelity})")
    table.add_column("setting")
    for plan in plans:
        table.add_column(plan, justify="right")

    def cells(rates: Mapping[str, float]) -> list[str]:
        values = [value(sensitivity, rates, plan) for plan in plans]
        return ["too big" if math.isnan(one) else number(one) if is_one else f"{one:.3f}" for one in values]

    known = published_values(study.scenario, sensitivity)
    table.add_row("the documented defaults", *cells(sensitivity.default), style="bold")
    if known:
        text = {plan: number(one) if is_one else f"{one:.3f}" for plan, one in known.items()}
        table.add_row("published", *(text.get(plan, "") for plan in plans))
    for varied in sensitivity.varied:
        table.add_row(" = ".join(named(varied)), *cells(varied.rates))
    return table
