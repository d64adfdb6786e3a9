"""`simfrontier crosscheck`: simulated traces against real ones of the same schedules, as tables, JSON or a page."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from simfrontier.cli.console import console, grid, plain, say, say_written
from simfrontier.errors import InputError
from simfrontier.extras import added
from simfrontier.report import crosscheck_findings, number, quantity, said
from simfrontier.simulation import SIMULATED
from simfrontier.trace import (
    AddedCheckReader,
    Comparison,
    CrossCheck,
    Delta,
    Outcome,
    TracePaths,
    compare,
    deltas,
    judge,
    read_perfetto,
    step_times,
)
from simfrontier.wholefile import ensure_writable, filled, refuse_unfinished

PREFIX, SUFFIX = "trace-", ".json"
MAX_ROWS, MAX_LOCAL = 10, 4  # of a plan's collectives and local work on the console


def crosscheck_paths(
    sim: Path, real: Path, out: Path | None, min_bytes: int, tolerance: float, as_json: bool
) -> Outcome:
    """Compare two trace files, or the files of the same names of two folders; print the result, write the page to
    `out`. Returns the verdict. Raises InputError where there is nothing to compare, or other digests."""
    if out is not None:
        ensure_writable(out, "index.html")
    check = crosscheck_of(sim, real, min_bytes, tolerance)
    if out is not None:
        from simfrontier.report import write_crosscheck_page

        with filled(out, "crosscheck") as new:
            write_crosscheck_page(check, new / "index.html")
    if as_json:
        typer.echo(json.dumps(json_document(check), indent=1, allow_nan=False))
    else:
        print_check(check, out)
    return check.outcome


def crosscheck_of(sim: Path, real: Path, min_bytes: int, tolerance: float) -> CrossCheck:
    """Everything compared. Raises InputError as `crosscheck_paths` does."""
    for path in (sim, real):
        if not path.exists():
            raise InputError(
                f"no such file or folder; allowed: a trace (JSON), or a folder of {PREFIX}PLAN{SUFFIX}",
                where=str(path),
            )
    if sim.is_dir() != real.is_dir():
        folder, file = (sim, real) if sim.is_dir() else (real, sim)
        raise InputError(f"{folder} is a folder and {file} a file; allowed: two folders, or two traces")
    pairs, only_sim, only_real = _paired(sim, real) if sim.is_dir() else ({_plan(sim): (sim, real)}, (), ())
    comparisons = tuple(_compared(plan, *paths) for plan, paths in pairs.items())
    check = CrossCheck(
        comparisons=comparisons,
        verdict=judge(comparisons, min_bytes, tolerance),
        only_sim=only_sim,
        only_real=only_real,
    )
    paths = TracePaths(real=real, of_plan=pairs)
    return replace(check, added=tuple(each.read(check, paths) for each in added("added_checks", AddedCheckReader)))


Names = tuple[str, ...]


def _paired(sim: Path, real: Path) -> tuple[dict[str, tuple[Path, Path]], Names, Names]:
    """The traces that both folders have, by plan, and the plans that only one has."""
    for folder in (sim, real):
        refuse_unfinished(folder)
    sim_traces, real_traces = (
        {_plan(path): path for path in sorted(folder.glob(f"{PREFIX}*{SUFFIX}"))} for folder in (sim, real)
    )
    both = {plan: (path, real_traces[plan]) for plan, path in sim_traces.items() if plan in real_traces}
    if not both:
        there = "; ".join(
            f"{folder}: {', '.join(plans) or 'none'}" for folder, plans in ((sim, sim_traces), (real, real_traces))
        )
        raise InputError(f"no {PREFIX}PLAN{SUFFIX} is in both folders ({there}); allowed: files of the same names")
    return (
        both,
        tuple(plan for plan in sim_traces if plan not in real_traces),
        tuple(plan for plan in real_traces if plan not in sim_traces),
    )


def _plan(path: Path) -> str:
    return path.name.removeprefix(PREFIX).removesuffix(SUFFIX)


def _compared(plan: str, sim: Path, real: Path) -> Comparison:
    simulated, measured = read_perfetto(sim), read_perfetto(real)
    if simulated.notes.get("mode", SIMULATED) != SIMULATED:
        raise InputError("a real trace; allowed: the simulated one first, then the real one", where=str(sim))
    try:
        return compare(plan, simulated, measured)
    except InputError as error:
        raise (error if error.where else error.within(f"{sim}, {real}")) from None


# ── for a program ──


def as_document(check: CrossCheck) -> dict[str, Any]:
    """All of it but the operations themselves."""
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


def json_document(check: CrossCheck) -> dict[str, Any]:
    """The document in the values of JSON."""
    known: dict[str, Any] = _json_value(as_document(check))
    return known


def _json_value(value: Any) -> Any:
    """A value that JSON has and a program can search: no NaN, no unusual blanks."""
    match value:
        case dict():
            return {key: _json_value(part) for key, part in value.items()}
        case list() | tuple():
            return [_json_value(part) for part in value]
        case float() if not math.isfinite(value):
            return None
        case str():
            return plain(value)
    return value


# ── for a person ──


def print_check(check: CrossCheck, out: Path | None) -> None:
    """Tables and sentences, for a person."""
    screen, found = console(), crosscheck_findings(check)
    for each in check.comparisons:
        screen.print(_calls(each))
        if each.differences:
            screen.print(f"{each.plan}: {each.num_different:,} operations differ:", style="bold")
            say("crosscheck", "differences", each, before="  ", soft_wrap=True)
    screen.print(_steps(check))
    say("crosscheck", "lead", found, style="bold")
    say("crosscheck", "findings", found, before="– ")
    say("crosscheck", "bounds", found, style="dim")
    say_written(out)


def _calls(comparison: Comparison) -> Table:
    several = deltas(comparison)
    shown = [delta for delta in several if delta.is_collective]
    title = f"{comparison.plan}: calls on {len(comparison.by_rank):,} ranks, medians, the longest in all first"
    heads = ("call", "message", "calls", "sim", "real", "ratio", "waits sim", "real")
    table = grid(title, heads, words=("call",))
    for delta in shown[:MAX_ROWS]:
        table.add_row(_name(delta), _quantity(delta.message_bytes, "bytes"), *_times(delta), *_waits(delta))
    if len(shown) > MAX_ROWS:
        table.add_row(f"and {len(shown) - MAX_ROWS} more (--json, --out)")
    for delta in [delta for delta in several if not delta.is_collective][:MAX_LOCAL]:
        table.add_row(delta.kind, "", *_times(delta), style="dim")
    return table


def _name(delta: Delta) -> str:
    size = f" ({delta.group_size:,})" if delta.group_size else ""
    return f"{delta.name} {delta.kind} {delta.axes}{size}"


def _times(delta: Delta) -> Names:
    return f"{delta.calls:,}", _quantity(delta.sim_s, "s"), _quantity(delta.real_s, "s"), number(delta.ratio)


def _waits(delta: Delta) -> Names:
    return _quantity(delta.sim_wait_s, "s"), _quantity(delta.real_wait_s, "s")


def _steps(check: CrossCheck) -> Table:
    table = grid("steps", ("plan", "sim", "real", "interquartile", "ratio", "operations", "differ"), words=("plan",))
    for each in check.comparisons:
        step = step_times(each)
        noise = "–" if step.real_iqr_s is None else _quantity(step.real_iqr_s, "s")
        times = (_quantity(step.sim_s, "s"), _quantity(step.real_s, "s"), noise, number(step.ratio))
        table.add_row(each.plan, *times, f"{len(each.pairs):,}", f"{each.num_different:,}")
    return table


def _quantity(value: float, unit: str) -> str:
    return plain(quantity(value, unit))
