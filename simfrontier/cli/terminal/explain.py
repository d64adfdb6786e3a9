"""Output of `explain`: tables, sentences, and the document of --json."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from simfrontier.cli.console import console, grid, say, say_written
from simfrontier.explanation import Explanation, PlanComparison, RankedPlan
from simfrontier.report import (
    EQUAL,
    LITTLE,
    first_that_fits,
    moving,
    options,
    percent,
    quantity,
    shares_of,
    shown_differences,
    shown_parts,
    signed,
    signed_seconds,
)

# ── for a program ──


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Return the whole explanation under the names of its fields; `links` are those of the critical path."""
    plainly = ("title", "scenario", "plan", "devices", "fidelity", "machine", "step_s", "samples", "given", "kept")
    return {
        **{name: getattr(explanation, name) for name in plainly},
        "parts": [asdict(part) for part in explanation.time.parts],
        "changes": [asdict(change) for change in explanation.changes],
        "against": _comparison(explanation.against),
        "ranking": [_ranked(each) for each in explanation.ranking],
        "left_out": dict(explanation.left_out),
        "waits": asdict(explanation.waits),
        "note": explanation.note,
        "links": [asdict(link) for link in explanation.path.links],
    }


def _ranked(it: RankedPlan) -> dict[str, Any]:
    return {
        "plan": it.plan,
        "step_s": it.time.step_s,
        "samples": it.samples,
        "parts": [asdict(part) for part in it.time.parts],
        "next": _comparison(it.next),
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


# ── for a person ──


def print_explanation(it: Explanation, out: Path | None) -> None:
    """Print tables and sentences."""
    screen = console()
    shares = shares_of(it.time)
    say("explain", "headline", it, shares, before=f"{it.title} ({it.fidelity}). ", soft_wrap=True)
    if it.kept:
        screen.print(f"Found by its search and kept in all changes: {options(it.kept)}", soft_wrap=True)
    table = grid(f"Where a step of {it.plan} goes", ("what", "time", "of the step", "ops"), words=("what",))
    for part in shown_parts(it.time.parts):
        num_ops = f"{part.calls:,}" if part.calls else ""
        table.add_row(part.words, quantity(part.seconds, "s"), percent(part.seconds / it.step_s), num_ops)
    table.add_row("the step", quantity(it.step_s, "s"), percent(1.0), "", style="bold")
    screen.print(table)
    _print_waits(it)
    if it.changes:
        _print_changes(it)
    if it.against is not None:
        screen.print(_difference_table(it, it.against))
    if len(it.ranking) > 1:
        screen.print(_ranking_table(it))
    say("explain", "against", it, soft_wrap=True)
    say("explain", "left_out", it, style="dim", soft_wrap=True)
    say_written(out)


def _print_waits(it: Explanation) -> None:
    screen = console()
    if it.waits.pairs and it.waits.longest_s >= LITTLE * it.step_s:
        heads = ("waiting", "for", "each", "no kernel", "calls", "in")
        table = grid("Waiting for other ranks", heads, words=("waiting", "for", "in"))
        for pair in it.waits.pairs:
            each = (quantity(pair.seconds, "s"), quantity(pair.exposed_s, "s"), f"{pair.calls:,}")
            table.add_row(pair.waiting, pair.late, *each, pair.names[0])
        screen.print(table)
        if it.waits.left_out:
            screen.print(f"And {it.waits.left_out:,} other pairs.", style="dim")
    screen.print(f"{it.waits.sentence}.", soft_wrap=True)
    if it.note:
        screen.print(f"Simplified: {it.note}.", style="dim", soft_wrap=True)


def _print_changes(it: Explanation) -> None:
    screen = console()
    shown, still = moving(it.changes), moving(it.changes, moves=False)
    if shown:
        heads = ("", "change", "step", "saved", "of the step", "note")
        table = grid("Possible improvements, each simulated", heads, words=("change", "note"))
        for number, change in enumerate(shown, start=1):
            cells = (quantity(change.step_s, "s"), signed_seconds(change.saved_s), signed(change.share), change.note)
            style = "" if change.fits and change.saved_s > 0.0 else "dim"
            table.add_row(f"{number}", change.label, *cells, style=style)
        screen.print(table)
    best = first_that_fits(it.changes)
    moves = best is not None and best.share >= LITTLE
    say("explain", "help", it, best, moves, style="bold", soft_wrap=True)
    if still:
        text = ", ".join(change.label for change in still)
        screen.print(f"Less than 0.1 % either way: {text}.", style="dim", soft_wrap=True)
    if shown:
        screen.print("To repeat one, pass its settings to `simfrontier run`:", style="dim")
    for number, change in enumerate(shown, start=1):
        screen.print(f"{number:>3}  {options(change.settings)}", style="dim", soft_wrap=True)


def _difference_table(it: Explanation, other: PlanComparison) -> Table:
    heads = ("what", it.plan, other.plan, "difference")
    table = grid(f"{it.plan} against {other.plan}: where their steps go", heads, words=("what",))
    for each in shown_differences(other.differences):
        difference = EQUAL if each.is_equal else signed_seconds(each.seconds)
        table.add_row(each.words, quantity(each.a_s, "s"), quantity(each.b_s, "s"), difference)
    whole = (it.step_s, other.step_s)
    sums = (*(quantity(step_s, "s") for step_s in whole), signed_seconds(whole[0] - whole[1]))
    table.add_row("the step", *sums, style="bold")
    return table


def _ranking_table(it: Explanation) -> Table:
    heads = ("plan", "step", "compute", "exposed", "than the next")
    table = grid(f"The {len(it.ranking)} plans, each against the next best", heads, words=("plan",))
    for each in it.ranking:
        time = each.time
        parts = (time.step_s, time.compute_s, time.step_s - time.compute_s)
        difference = "" if each.next is None else signed_seconds(time.step_s - each.next.step_s)
        table.add_row(each.plan, *(quantity(part_s, "s") for part_s in parts), difference)
    return table
