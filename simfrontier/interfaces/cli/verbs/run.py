"""`simfrontier run`: simulate a scenario and write its folder of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from simfrontier.answers.experiments import Environment
from simfrontier.answers.forecast import forecast_run
from simfrontier.base.units import times
from simfrontier.base.wholefile import MANIFEST, ensure_writable, filled, write_whole
from simfrontier.base.workers import Place
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.api import num_simulations, view_of
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import console, print_json, tell
from simfrontier.interfaces.cli.options import announce
from simfrontier.interfaces.progress import progress
from simfrontier.interfaces.report import phrases, results
from simfrontier.interfaces.report.answer import answer_tables
from simfrontier.interfaces.report.headline import headline_of
from simfrontier.interfaces.report.published import PublishedFigure
from simfrontier.interfaces.report.setup import rank_grids, setup_of
from simfrontier.interfaces.report.slowdown import slowdown_rows, worst_rows
from simfrontier.interfaces.report.study_page import study_page
from simfrontier.interfaces.report.summary import assumed, verdict
from simfrontier.interfaces.report.table import Table
from simfrontier.interfaces.report.view import StudyView

WIDTH: Final = 120  # of the answer: in less its columns would be cut


def run(
    scenario: options.ScenarioPath,
    out: Annotated[Path | None, typer.Option(help="folder for the results (default: reports/NAME)")] = None,
    set_: options.Settings = None,
    plans: options.Plans = None,
    devices: options.Devices = None,
    fidelity: options.Fidelity = None,
    exact: Annotated[bool, typer.Option("--exact", help="simulate every rank, without folding equal ranks")] = False,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    sensitivity: Annotated[bool, typer.Option(help="simulate the scenario's variations of unknown settings")] = True,
    slowdown: Annotated[bool, typer.Option(help="simulate the scenario's degraded components")] = True,
    page: Annotated[bool, typer.Option(help="write index.html")] = True,
    json: Annotated[bool, typer.Option("--json", help="print the rows as JSON instead of a table")] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Simulate every plan of a scenario at every size; write results.csv, index.html, traces and a manifest."""
    place = options.place_of(jobs, scheduler, slurm, dashboard)
    loaded = options.load(scenario, set_, plans, devices)
    run_scenario(loaded, str(scenario), out, place, fidelity, exact, sensitivity, slowdown, page, json, yes_large)


def run_scenario(
    scenario: Scenario,
    where: str,
    out: Path | None,
    place: Place,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = True,
    trouble: bool = True,
    page: bool = True,
    as_json: bool = False,
    yes_large: bool = False,
) -> None:
    """Run all simulations of a scenario, then write all files: a failed run leaves the folder unchanged."""
    announce(forecast_run(scenario, fidelity, exact, vary, trouble), where, yes_large)
    folder = out or Path("reports") / scenario.name
    ensure_writable(folder)
    with progress("simulating", num_simulations(scenario, vary, trouble)) as report:
        view = view_of(scenario, fidelity, exact, vary, place, report, trouble)
    found = results.findings_of(view)
    with filled(folder, MANIFEST) as new:
        results.write_study(found, view, new)
        if page:
            write_whole(new / "index.html", study_page(found, view))
    if as_json:
        rows, slow = [outcome.row for outcome in view.study.outcomes], view.slowdown
        print_json(rows if slow is None else {"results": rows, "slowdown": list(slowdown_rows(slow))})
    else:
        print_run(found, view, folder, page)


def answer_scenario(scenario: Scenario, where: str, place: Place) -> None:
    """Simulate every plan of a scenario at every size and print the answer: no variations, and no files."""
    announce(forecast_run(scenario, None, False, False, False), where, False)
    with progress("simulating", num_simulations(scenario, vary=False, trouble=False)) as report:
        view = view_of(scenario, vary=False, place=place, progress=report, trouble=False, drawn=False)
    headline = headline_of(view)
    print_answer({"setup": setup_of(view), "headline": headline, "ranks": rank_grids(view)}, view)
    tell("With --out FOLDER: the page, results.csv, traces, and the answer with other stacks and library states.")
    tell(verdict(headline), style="bold")


def print_answer(found: results.Findings, view: StudyView) -> None:
    """Print the answer of a study and what it assumes, but for the verdict."""
    setup, headline = found["setup"], found["headline"]
    tell(*answer_tables(view), least_width=WIDTH)
    tell(*_setup(found, view), *_grids(found))
    if fitted := phrases.fitted_words(setup["library"], setup["fitted_on"], setup["machine"]):
        tell(f"{fitted}.")
    tell(*_misfits(view), *(f"– {plan}: {words}." for plan, words in headline.advice.items()), style="dim")


def print_run(found: results.Findings, view: StudyView, folder: Path, page: bool) -> None:
    """Print the results of a run whose files are in `folder`, the verdict last."""
    scenario, varied, slowdown = view.scenario, found["sensitivity"], found["slowdown"]
    print_answer(found, view)
    if varied:
        for at in reversed(varied["sizes"]):
            tell(_varied(varied, at))
            console().print(at["strongest"] + ".")
        for sentence in varied["required"]:
            console().print(sentence + ".")
    if slowdown:
        _print_slowdown(slowdown, view.device)
    if found["environment"]:
        tell(*_environments(found["environment"]))
    figures = scenario.file.published
    lacks_plans = figures is not None and not {*figures.ratios} <= {*scenario.plans}
    if varied is None and scenario.file.sensitivity is None and lacks_plans:
        tell("Sensitivity is left out: it needs all plans that the scenario compares.")
    tell(*_published(found, bool(scenario.machine.device.speed_sd)))
    text = f"Written: {folder / 'index.html'} (open it in a browser), " if page else f"Written to {folder}: "
    more = f"{results.SLOWDOWN_FILE}, " if slowdown else ""
    tell(f"{text}results.csv, {more}findings.json, manifest.json, trace-*.json (for Perfetto)")
    tell(verdict(found["headline"]), style="bold")


def _setup(found: results.Findings, view: StudyView) -> Iterator[str]:
    setup, scenario = found["setup"], view.scenario
    yield f"Assumed: {assumed(setup)}."
    if not setup["nodes"].is_usual:
        yield f"Nodes: {setup['nodes'].words(view.largest)}."
    if wrong := scenario.file.perturbation:
        yield f"Degraded components: {phrases.troubles_in_short(wrong, view.device)}."
    if words := scenario.beside_words:
        yield f"Beside this job: {words}."


def _grids(found: results.Findings) -> Iterator[str]:
    """Yield a line per search for a plan's grid: the grid found, and the number of candidates."""
    for search in found["ranks"]["searches"] if found["ranks"] else ():
        grid = ", ".join(f"{name.lower()} {value}" for name, value in search["taken"].items())
        how = phrases.USUAL_GRID if search["takes_first"] else f"best of {len(search['candidates']):,}"
        yield f"{search['plan']} on {search['devices']:,}: {grid} ({how})"


def _misfits(view: StudyView) -> Iterator[str]:
    for plan, rows in view.rows.items():
        if big := [row for row in rows if not row["fits"]]:
            sizes = ", ".join(str(row["devices"]) for row in big)
            there = ":" if len(big) == 1 else f"; on {big[-1]['devices']}"
            yield f"– {plan} does not fit on {sizes}{there} it {big[-1]['note']}."


def _varied(found: Mapping[str, Any], at: Mapping[str, Any]) -> Table:
    """Return a table with a row per variation of a setting: rates of the compared plans relative to the first plan, or
    the rate itself if there is only one plan."""
    plans, is_one = found["plans"], len(found["plans"]) == 1
    title = "Tokens/s per device" if is_one else f"Relative to {plans[0]}"

    def cell(value: float | None) -> str:
        return "too big" if value is None else phrases.number(value) if is_one else f"{value:.3f}"

    rows = [("nothing changed", *map(cell, at["default"]["compared"].values()))]
    if at["published"]:
        rows.append(("published", *(cell(at["published"][plan]) if plan in at["published"] else "" for plan in plans)))
    rows += [(f"{one['setting']} = {one['value']}", *map(cell, one["compared"].values())) for one in at["varied"]]
    title = f"{title} at {at['devices']} devices ({found['fidelity']})"
    return Table(title, ("setting", *plans), rows, words=("setting",), gap=2, styles=["bold"])


def _print_slowdown(found: Mapping[str, Any], device: str) -> None:
    tell(_slowed(found, device), *(f"{sentence}." for sentence in found["sentences"]))
    if found["verdict"]:
        tell(f"{found['verdict']}.", style="bold")
    if found["left_out"]:
        text = f"{found['left_out']:,} kinds of {device}s and links, those with the fewest members, were not simulated."
        console().print(text, style="dim")


def _slowed(found: Mapping[str, Any], device: str) -> Table:
    """Return a table of the slowdown by plan: each case of degraded components, then the worst single device, then the
    worst single link of each class."""
    plans = found["plans"]
    rows = [("a healthy step", *(phrases.quantity(found["healthy"][plan].step_s, "s") for plan in plans))]
    for row in found["cases"]:
        rows.append(
            (row["label"], *(phrases.NOTHING if value is None else times(value) for value in row["slowdown"].values()))
        )
    rows += [(label, *(of.get(plan, phrases.NOTHING) for plan in plans)) for label, of in worst_rows(found, device)]
    title = f"A step with trouble over a healthy one, at {found['num_devices']} devices ({found['fidelity']})"
    return Table(title, ("trouble", *plans), rows, words=("trouble",), gap=2, styles=["bold"])


def _environments(found: Environment) -> Iterator[str]:
    """Yield for each plan the step time with other software stacks and library states, relative to the assumed ones."""
    where = f'With another stack, or library "{found.library}" in another state'
    yield f"{where}, step time on {found.devices:,} relative to the assumed one:"
    width = max(map(len, found.bands))
    keys = dict.fromkeys(each.key for each in found.alternatives)
    for plan in found.bands:
        parts = [part for key in keys if (part := _between(found, key, plan))]
        yield f"  {plan:<{width}}  {'; '.join(parts) or phrases.NOTHING}"


def _between(found: Environment, key: str, plan: str) -> str:
    """Return the range of a plan's step time over the values of an environment key, and the values with which the plan
    does not fit into memory; empty if there are none."""
    tried = [(one.factors[plan], one.value) for one in found.alternatives if one.key == key and plan in one.factors]
    known = [(factor, value) for factor, value in tried if factor is not None]
    ends = dict.fromkeys((min(known), max(known))) if known else ()
    words = " to ".join(f"{factor:.2f} ({value})" for factor, value in ends)
    too_big = ", ".join(value for factor, value in tried if factor is None)
    parts = [words, f"does not fit with {too_big}" if too_big else ""]
    name = "stack" if key == "stack" else "library"
    return f"{name} {', '.join(filter(None, parts))}" if tried else ""


def _published(found: results.Findings, differ: bool) -> Iterator[str]:
    """Yield a line per published ratio and published share of peak performance, with the prediction and its range."""
    published = found["published"]
    if published is None or not published["judged"]:
        return
    for share in published["shares"]:
        message = f"{share.plan} on {share.devices:,}: published {100 * share.published:g}\u00a0% of the peak"
        if share.predicted is None:
            yield f"{message}, {share.state}"
            continue
        slowest = f" with the slowest of {share.devices:,}" if differ else ""
        sampled = f", 90 % of the samples {phrases.percent_between(*share.sampled)}{slowest}" if share.sampled else ""
        unknown = f", {phrases.percent_between(*share.unknown)} over unknown settings" if share.unknown else ""
        yield f"{message}, predicted {phrases.percent(share.predicted)}{sampled}{unknown}"
    called = "prediction with these settings" if published["changed_settings"] else "default prediction"
    for ratio in published["ratios"][1:]:
        yield _ratio(ratio, published["ratios"][0], called)


def _ratio(ratio: PublishedFigure, first: PublishedFigure, called: str) -> str:
    name = f"{ratio.plan} : {first.plan}"
    if ratio.predicted is None:
        states = [(one.plan, f"{'was ' if one.state == phrases.NOT_RUN else ''}{one.state}") for one in (ratio, first)]
        why = " and ".join(f"{plan} {state}" for plan, state in states if state)
        return f"{name} was published as {ratio.published:g}; there is no prediction, because {why}."
    ranges = {"90 % of the samples": ratio.sampled, "over unknown settings": ratio.unknown}
    parts = "; ".join(f"{what} {ends[0]:.3f} to {ends[1]:.3f}" for what, ends in ranges.items() if ends)
    far, within = phrases.distance(ratio.predicted, ratio.published), f" ({parts})" if parts else ""
    far += " to" if far.startswith("equal") else ""
    return f"The {called} of {name} is {ratio.predicted:.3f}{within}, {far} the published {ratio.published:g}."
