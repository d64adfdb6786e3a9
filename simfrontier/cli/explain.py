"""`simfrontier explain`: why a plan is as fast as it is, what would help, and how another plan differs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.table import Table

from simfrontier.cli.bar import bar_of_work
from simfrontier.cli.console import console, plain
from simfrontier.explanation import Explanation, PlanComparison, explain
from simfrontier.report import (
    best_sentence,
    headline_sentence,
    listed_changes,
    percent,
    quantity,
    set_words,
    shown_differences,
    shown_parts,
    signed,
    signed_seconds,
)
from simfrontier.scenario import Scenario
from simfrontier.simulation import Fidelity
from simfrontier.wholefile import ensure_writable, filled


def explain_plan(
    scenario: Scenario,
    plan: str | None,
    against: str | None,
    devices: int | None,
    fidelity: Fidelity | None,
    what_if: bool,
    jobs: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Explain a plan, then write everything: what fails leaves the folder as it was."""
    if out is not None:
        ensure_writable(out, "index.html")
    with bar_of_work() as bar:
        task = bar.add_task("simulating", total=None)

        def report_progress(stage: str, total: int) -> None:
            bar.update(task, advance=1, total=total, description=stage)

        explanation = explain(
            scenario,
            plan,
            devices=devices,
            against=against,
            fidelity=fidelity,
            what_if=what_if,
            jobs=jobs,
            progress=report_progress,
        )
    if out is not None:
        from simfrontier.report import write_explanation_page

        with filled(out, "explain") as new:
            write_explanation_page(explanation, new / "index.html")
    if as_json:
        typer.echo(json.dumps(as_document(explanation), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        _print(explanation, out)


# ── for a program ──


def as_document(explanation: Explanation) -> dict[str, Any]:
    """Everything, under the names that the Python values have; `links` are those of the critical path."""
    plainly = ("title", "scenario", "plan", "devices", "fidelity", "machine", "step_s", "samples", "given", "kept")
    return {
        **{name: getattr(explanation, name) for name in plainly},
        "parts": [asdict(part) for part in explanation.path.parts()],
        "changes": [asdict(change) for change in explanation.changes],
        "against": None if explanation.against is None else _against_document(explanation.against),
        "links": [asdict(link) for link in explanation.path.links],
    }


def _against_document(other: PlanComparison) -> dict[str, Any]:
    return {
        "plan": other.plan,
        "step_s": other.path.step_s,
        "samples": other.samples,
        "sentence": other.sentence,
        "parts": [asdict(part) for part in other.path.parts()],
        "differences": [{**asdict(each), "seconds": each.seconds} for each in other.differences],
    }


# ── for a person ──


def _print(explanation: Explanation, out: Path | None) -> None:
    screen = console()
    screen.print(
        f"{explanation.title} ({explanation.fidelity}). {plain(headline_sentence(explanation))}.", soft_wrap=True
    )
    if explanation.kept:
        screen.print(f"Its search has found, and all changes keep: {set_words(explanation.kept)}", soft_wrap=True)
    screen.print(_path_table(explanation))
    if explanation.changes:
        _print_changes(explanation)
    if explanation.against is not None:
        screen.print(_difference_table(explanation, explanation.against))
        screen.print(f"{explanation.plan} is {explanation.against.sentence}.", soft_wrap=True)
    if out is not None:
        screen.print(f"Written: {out / 'index.html'} (open it in a browser)", soft_wrap=True)


def _print_changes(explanation: Explanation) -> None:
    screen = console()
    moving, still = listed_changes(explanation)
    if moving:
        table = _table("What would help, each simulated again", ("", "change", "step", "saved", "of the step", "note"))
        for number, change in enumerate(moving, start=1):
            cells = (quantity(change.step_s, "s"), signed_seconds(change.saved_s), signed(change.share))
            style = "" if change.fits and change.saved_s > 0.0 else "dim"
            table.add_row(f"{number}", change.label, *map(plain, cells), plain(change.note), style=style)
        screen.print(table)
    screen.print(plain(best_sentence(explanation)) + ".", style="bold", soft_wrap=True)
    if still:
        text = ", ".join(change.label for change in still)
        screen.print(plain(f"Less than 0.1 % either way: {text}."), style="dim", soft_wrap=True)
    if moving:
        screen.print("To repeat one, give `simfrontier run` what it set:", style="dim")
    for number, change in enumerate(moving, start=1):
        screen.print(f"{number:>3}  {set_words(change.settings)}", style="dim", soft_wrap=True)


def _path_table(explanation: Explanation) -> Table:
    table = _table("The critical path of a step", ("what", "time", "of the step", "by sharing", "ops"))
    for part in shown_parts(explanation.path.parts(), explanation.step_s):
        sharing = quantity(part.sharing_s, "s") if part.sharing_s >= 1e-3 * explanation.step_s else ""
        cells = (quantity(part.seconds, "s"), percent(part.seconds / explanation.step_s), sharing, f"{part.calls:,}")
        table.add_row(part.words, *map(plain, cells))
    table.add_row("the step", *map(plain, (quantity(explanation.step_s, "s"), percent(1.0), "", "")), style="bold")
    return table


def _difference_table(explanation: Explanation, other: PlanComparison) -> Table:
    heads = ("what", explanation.plan, other.plan, "difference")
    table = _table(f"{explanation.plan} against {other.plan}, along the critical paths", heads)
    for words, a_s, b_s in shown_differences(other):
        cells = (quantity(a_s, "s"), quantity(b_s, "s"), signed_seconds(a_s - b_s))
        table.add_row(words, *map(plain, cells))
    whole = (explanation.step_s, other.path.step_s)
    sums = (*(quantity(step_s, "s") for step_s in whole), signed_seconds(whole[0] - whole[1]))
    table.add_row("the step", *map(plain, sums), style="bold")
    return table


def _table(title: str, heads: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        is_words = head in ("what", "change", "note")
        table.add_column(head, justify="left" if is_words else "right", no_wrap=not is_words, overflow="fold")
    return table
