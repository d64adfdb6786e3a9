"""`simfrontier crosscheck`: comparison of simulated and real traces of the same schedules."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from simfrontier.base.wholefile import ensure_writable
from simfrontier.core.trace import Comparison, CrossCheck, Delta, crosscheck_of, deltas, quotient, step_times
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import console, print_json, say, say_written, tell, write_page
from simfrontier.interfaces.report.crosscheck import crosscheck_findings, crosscheck_page
from simfrontier.interfaces.report.phrases import number, quantity
from simfrontier.interfaces.report.render import said
from simfrontier.interfaces.report.table import Table

MAX_ROWS, MAX_LOCAL = 10, 4  # of a plan's collectives and local work on the console


def crosscheck(
    sim: Annotated[Path, typer.Argument(help="simulated trace, or a folder of trace-PLAN.json (simfrontier export)")],
    real: Annotated[Path, typer.Argument(help="real trace, or a folder of files of the same names")],
    out: Annotated[Path | None, typer.Option(help="folder for the page index.html (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    min_bytes: Annotated[str, typer.Option(help="judge the times of collectives of at least this size")] = "1MiB",
    tolerance: Annotated[
        float,
        typer.Option(
            min=1e-6,
            max=1e6,
            help="allowed relative difference of times (median); real steps that vary by more are not judged",
        ),
    ] = 0.25,
) -> None:
    """Compare simulated and real traces of the same schedules. Exit code 1 if they differ; 0 if they agree, or if
    messages are too small or real steps too noisy to judge."""
    least = options.num_bytes("--min-bytes", min_bytes)
    if out is not None:
        ensure_writable(out)
    check = crosscheck_of(sim, real, least, tolerance)
    if out is not None:
        write_page(out, {"index.html": crosscheck_page(check)})
    if json:
        print_json(crosscheck_document(check))
    else:
        print_check(check, out)
    raise typer.Exit(1 if check.outcome == "differ" else 0)


# ── for a program ──


def crosscheck_document(check: CrossCheck) -> dict[str, Any]:
    """Return the results of a cross-check as a JSON document, without the individual operations."""
    verdict, found, speeds = check.verdict, crosscheck_findings(check), _speeds(check)
    return {
        "outcome": check.outcome,
        "verdict": asdict(verdict)
        | {"exact": verdict.is_exact, "large_enough": verdict.is_large_enough, "near": verdict.is_near}
        | {"noise": verdict.noise, "noisy": verdict.is_noisy},
        "said": [text for name in ("lead", "findings", "bounds") for text in said("crosscheck", name, found)],
        "simulated_order": found.sim_order,
        "real_order": found.real_order,
        "only_simulated": check.only_sim,
        "only_real": check.only_real,
        "plans": {each.plan: _plan_document(each) | {"speed": speeds[each.plan]} for each in check.comparisons},
        **{key: value for each in check.added for key, value in each.document().items()},
    }


def _plan_document(comparison: Comparison) -> dict[str, Any]:
    step = step_times(comparison)
    return {
        "schedule_digest": comparison.sim.digest,
        "num_ranks": len(comparison.by_rank),
        "num_ranks_left_out": comparison.num_left_out,
        "num_compared": len(comparison.pairs),
        "num_different": comparison.num_different,
        "differences": [asdict(difference) for difference in comparison.differences],
        "step": asdict(step) | {"real_spread": step.real_spread, "ratio": step.ratio},
        "deltas": [asdict(delta) for delta in deltas(comparison)],
        "notes": {"simulated": dict(comparison.sim.notes), "real": dict(comparison.real.notes)},
    }


# ── for a person ──


def print_check(check: CrossCheck, out: Path | None) -> None:
    """Print the tables and sentences of a cross-check."""
    screen, found = console(), crosscheck_findings(check)
    for each in check.comparisons:
        tell(_calls(each))
        if each.differences:
            screen.print(f"{each.plan}: {each.num_different:,} operations differ:", style="bold")
            say("crosscheck", "differences", each, before="  ")
    tell(_steps(check))
    say("crosscheck", "lead", found, style="bold", soft_wrap=False)
    say("crosscheck", "findings", found, before="– ", soft_wrap=False)
    say("crosscheck", "bounds", found, style="dim", soft_wrap=False)
    say_written(out)


def _calls(comparison: Comparison) -> Table:
    several = deltas(comparison)
    shown = [delta for delta in several if delta.is_collective]
    rows: list[tuple[str, ...]] = []
    for delta in shown[:MAX_ROWS]:
        waits = (quantity(delta.sim_wait_s, "s"), quantity(delta.real_wait_s, "s"))
        size = f" ({delta.group_size:,})" if delta.group_size else ""
        name = f"{delta.name} {delta.kind} {delta.axes}{size}"
        rows.append((name, quantity(delta.message_bytes, "bytes"), *_times(delta), *waits))
    if len(shown) > MAX_ROWS:
        rows.append((f"and {len(shown) - MAX_ROWS} more (--json, --out)",))
    local = [(delta.kind, "", *_times(delta)) for delta in several if not delta.is_collective][:MAX_LOCAL]
    title = f"{comparison.plan}: calls on {len(comparison.by_rank):,} ranks, medians, the longest in all first"
    heads = ("call", "message", "calls", "sim", "real", "ratio", "waits sim", "real")
    return Table(title, heads, [*rows, *local], words=("call",), styles=[*[""] * len(rows), *["dim"] * len(local)])


def _times(delta: Delta) -> tuple[str, ...]:
    return f"{delta.calls:,}", quantity(delta.sim_s, "s"), quantity(delta.real_s, "s"), number(delta.ratio)


def _steps(check: CrossCheck) -> Table:
    rows, speeds = [], _speeds(check)
    for each in check.comparisons:
        step = step_times(each)
        noise = "–" if step.real_iqr_s is None else quantity(step.real_iqr_s, "s")
        times = (quantity(step.sim_s, "s"), quantity(step.real_s, "s"), noise, number(step.ratio))
        relative = (number(speed) for speed in speeds[each.plan].values())
        rows.append((each.plan, *times, *relative, f"{len(each.pairs):,}", f"{each.num_different:,}"))
    heads = ("plan", "sim", "real", "interquartile", "ratio", "speed sim", "real", "operations", "differ")
    return Table("steps; speed: steps per second, relative to the slowest real plan", heads, rows, words=("plan",))


def _speeds(check: CrossCheck) -> dict[str, dict[str, float]]:
    """Return each plan's simulated and real steps per second, relative to the plan whose real steps are slowest."""
    steps = [step_times(each) for each in check.comparisons]
    slowest = max(steps, key=lambda step: step.real_s)
    return {
        step.plan: {"simulated": quotient(slowest.sim_s, step.sim_s), "real": quotient(slowest.real_s, step.real_s)}
        for step in steps
    }
