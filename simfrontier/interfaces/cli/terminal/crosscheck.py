"""Output of `crosscheck`: tables, sentences, and the document of --json."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from simfrontier.core.trace import Comparison, CrossCheck, Delta, deltas, step_times
from simfrontier.interfaces.cli.console import console, grid, say, say_written
from simfrontier.interfaces.report import crosscheck_findings, number, quantity, said

MAX_ROWS, MAX_LOCAL = 10, 4  # of a plan's collectives and local work on the console


# ── for a program ──


def crosscheck_document(check: CrossCheck) -> dict[str, Any]:
    """Return the results without the single operations."""
    verdict, found = check.verdict, crosscheck_findings(check)
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
        "plans": {each.plan: _plan_document(each) for each in check.comparisons},
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
    """Print tables and sentences."""
    screen, found = console(), crosscheck_findings(check)
    for each in check.comparisons:
        screen.print(_calls(each))
        if each.differences:
            screen.print(f"{each.plan}: {each.num_different:,} operations differ:", style="bold")
            say("crosscheck", "differences", each, before="  ")
    screen.print(_steps(check))
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
        rows.append((_name(delta), quantity(delta.message_bytes, "bytes"), *_times(delta), *waits))
    if len(shown) > MAX_ROWS:
        rows.append((f"and {len(shown) - MAX_ROWS} more (--json, --out)",))
    local = [(delta.kind, "", *_times(delta)) for delta in several if not delta.is_collective][:MAX_LOCAL]
    title = f"{comparison.plan}: calls on {len(comparison.by_rank):,} ranks, medians, the longest in all first"
    heads = ("call", "message", "calls", "sim", "real", "ratio", "waits sim", "real")
    return grid(title, heads, [*rows, *local], words=("call",), styles=[*[""] * len(rows), *["dim"] * len(local)])


def _name(delta: Delta) -> str:
    size = f" ({delta.group_size:,})" if delta.group_size else ""
    return f"{delta.name} {delta.kind} {delta.axes}{size}"


def _times(delta: Delta) -> tuple[str, ...]:
    return f"{delta.calls:,}", quantity(delta.sim_s, "s"), quantity(delta.real_s, "s"), number(delta.ratio)


def _steps(check: CrossCheck) -> Table:
    rows = []
    for each in check.comparisons:
        step = step_times(each)
        noise = "–" if step.real_iqr_s is None else quantity(step.real_iqr_s, "s")
        times = (quantity(step.sim_s, "s"), quantity(step.real_s, "s"), noise, number(step.ratio))
        rows.append((each.plan, *times, f"{len(each.pairs):,}", f"{each.num_different:,}"))
    heads = ("plan", "sim", "real", "interquartile", "ratio", "operations", "differ")
    return grid("steps", heads, rows, words=("plan",))
