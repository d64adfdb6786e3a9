"""`simfrontier explain`: the parts of a plan's step, possible improvements, and differences between plans."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from simfrontier.answers.explain import (
    AgainstPublished,
    Explanation,
    PlanComparison,
    explain as explanation_of,
    names_runs,
)
from simfrontier.answers.forecast import forecast_explain
from simfrontier.base.errors import InputError
from simfrontier.base.wholefile import ensure_writable
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import console, print_json, say, say_written, tell, write_page
from simfrontier.interfaces.cli.options import announce
from simfrontier.interfaces.cli.verbs.compare import Sizes, scenario_asked
from simfrontier.interfaces.progress import progress
from simfrontier.interfaces.report.against_runs import explained_table, rates_table
from simfrontier.interfaces.report.explanation import (
    LITTLE,
    differences_table,
    explanation_page,
    first_that_fits,
    parts_table,
    published_sentences,
    ranking_table,
    shares_of,
    waits_table,
)
from simfrontier.interfaces.report.phrases import options as set_options, quantity, signed, signed_seconds
from simfrontier.interfaces.report.table import Table


def explain(
    scenario: Annotated[
        Path | None, typer.Argument(help="scenario file (TOML) or name, unless there is a --model")
    ] = None,
    machine: options.MachineName = None,
    model: options.ModelName = None,
    plan: Annotated[
        str | None,
        typer.Option(
            help="plan to explain (default: the fastest, with all plans compared); with --model e.g. tp 8 pp 2"
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="plan to compare with (default: the best of the others); or runs, the nearest published run; or the "
            "name of one in `simfrontier runs`"
        ),
    ] = None,
    measured: Annotated[
        float | None,
        typer.Option(
            min=1e-3, help="your own tokens/s per device, beside --against runs: how much is left unexplained"
        ),
    ] = None,
    devices: Annotated[int | None, typer.Option(help="size to explain (default: the scenario's largest)")] = None,
    nodes: Annotated[int | None, typer.Option(help="size in nodes, with --model")] = None,
    batch: options.Batch = None,
    set_: options.Settings = None,
    fidelity: options.Fidelity = None,
    what_if: Annotated[
        bool | None,
        typer.Option(
            "--what-if/--no-what-if",
            help="simulate possible improvements: links, overlap, codecs ... (default: unless --against runs)",
        ),
    ] = None,
    jobs: options.Jobs = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    out: Annotated[Path | None, typer.Option(help="folder for the page index.html (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Explain a plan's step time: where it goes, what would help most (each change simulated), and how it differs from
    the next best or another plan, or from a published run. Exit code 1 if the plan does not fit into memory."""
    plan, against = options.one_plan("--plan", plan), options.one_plan("--against", against)
    place = options.place_of(jobs, scheduler, slurm, dashboard)
    settings = options.with_batch(set_, batch)
    if model is None and machine is None and nodes is None:
        if scenario is None:
            raise InputError("got no scenario; allowed: a scenario file, or --model and --devices or --nodes")
        loaded = options.load(scenario, settings, None, devices, laid_out=False)
    else:
        sizes = Sizes(*(None if size is None else str(size) for size in (devices, nodes)))
        loaded = scenario_asked(scenario, machine, model, plan, sizes, settings)
        if plan is not None and len(loaded.plans) > 1:
            raise InputError(f"got {plan!r}; allowed: one plan", where="--plan")
        plan, devices = plan and next(iter(loaded.plans)), None
    of_runs = names_runs(against, loaded.plans)
    what_if = not of_runs if what_if is None else what_if
    other = plan if of_runs else against
    announce(forecast_explain(loaded, plan, other, fidelity, what_if), loaded.where, yes_large)
    if out is not None:
        ensure_writable(out)
    with progress("simulating") as report:
        explanation = explanation_of(
            loaded,
            plan,
            devices=devices,
            against=against,
            measured=measured,
            fidelity=fidelity,
            what_if=what_if,
            place=place,
            progress=lambda stage, total: report(stage, total=total),
        )
    if out is not None:
        write_page(out, {"index.html": explanation_page(explanation)})
    if json:
        print_json(explanation_document(explanation))
    else:
        print_explanation(explanation, out)


# ── for a program ──


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Return the whole explanation as a JSON document with the names of its fields; `links` are the links used on the
    critical path."""
    plainly = ("title", "scenario", "plan", "devices", "fidelity", "machine", "step_s", "samples", "given", "kept")
    return {
        **{name: getattr(explanation, name) for name in plainly},
        "parts": [asdict(part) for part in explanation.time.parts],
        "changes": [asdict(change) for change in explanation.changes],
        "against": _comparison(explanation.against),
        "published": _published(explanation.published),
        "ranking": [
            {
                "plan": each.plan,
                "step_s": each.time.step_s,
                "samples": each.samples,
                "parts": [asdict(part) for part in each.time.parts],
                "next": _comparison(each.next),
            }
            for each in explanation.ranking
        ],
        "left_out": dict(explanation.left_out),
        "waits": asdict(explanation.waits),
        "note": explanation.note,
        "links": [asdict(link) for link in explanation.path.links],
    }


def _comparison(other: PlanComparison | None) -> dict[str, Any] | None:
    if other is None:
        return None
    return {
        "plan": other.plan,
        "step_s": other.step_s,
        "samples": other.samples,
        "sentence": other.sentence,
        "parts": [asdict(part) for part in other.time.parts],
        "differences": [{**asdict(each), "seconds": each.seconds} for each in other.differences],
    }


def _published(it: AgainstPublished | None) -> dict[str, Any] | None:
    ratios = ("predicted_ratio", "measured_ratio", "unexplained", "is_within_error")
    return None if it is None else {**asdict(it), **{name: getattr(it, name) for name in ratios}}


# ── for a person ──


def print_explanation(it: Explanation, out: Path | None) -> None:
    """Print the tables and sentences of an explanation."""
    say("explain", "headline", it, shares_of(it.time), before=f"{it.title} ({it.fidelity}). ")
    if it.published is not None:
        tell(rates_table(it.published, it.device_word), explained_table(it.published))
        tell(*published_sentences(it))
    if it.kept:
        tell(f"Found by its search and kept in all changes: {set_options(it.kept)}")
    tell(parts_table(it.plan, it.time))
    _print_waits(it)
    if it.changes:
        _print_changes(it)
    if it.against is not None:
        tell(differences_table(it, it.against))
    if len(it.ranking) > 1:
        tell(ranking_table(it))
    say("explain", "against", it)
    say("explain", "left_out", it, style="dim")
    say_written(out)


def _print_waits(it: Explanation) -> None:
    if it.waits.pairs and it.waits.longest_s >= LITTLE * it.step_s:
        tell(waits_table(it.waits))
        if it.waits.left_out:
            console().print(f"And {it.waits.left_out:,} other pairs.", style="dim")
    tell(f"{it.waits.sentence}.")
    if it.note:
        tell(f"Simplified: {it.note}.", style="dim")


def _print_changes(it: Explanation) -> None:
    screen = console()
    shown = [change for change in it.changes if abs(change.share) >= LITTLE]
    still = ", ".join(change.label for change in it.changes if abs(change.share) < LITTLE)
    if shown:
        rows = []
        for number, one in enumerate(shown, start=1):
            cells = (quantity(one.step_s, "s"), signed_seconds(one.saved_s), signed(one.share))
            rows.append((f"{number}", one.label, *cells, one.note))
        styles = ["" if one.fits and one.saved_s > 0.0 else "dim" for one in shown]
        heads, title = ("", "change", "step", "saved", "of the step", "note"), "Possible improvements, each simulated"
        tell(Table(title, heads, rows, words=("change", "note"), styles=styles))
    best = first_that_fits(it.changes)
    say("explain", "help", it, best, best is not None and best.share >= LITTLE, style="bold")
    if still:
        tell(f"Less than 0.1 % either way: {still}.", style="dim")
    if shown:
        screen.print("To repeat one, pass its settings to `simfrontier run`:", style="dim")
    for number, change in enumerate(shown, start=1):
        tell(f"{number:>3}  {set_options(change.settings)}", style="dim")
