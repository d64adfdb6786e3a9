"""Output of `import`: the replay of a job with its error, and the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from simfrontier.answers.step import KERNELS_FIRST, exposure
from simfrontier.base.units import counted, written
from simfrontier.core.program import Compute
from simfrontier.interfaces.cli.console import console, grid

if TYPE_CHECKING:
    from simfrontier.answers.profiled_job import CallTimes
    from simfrontier.core.engine import SimulatedStep
    from simfrontier.inputs.profiler import Job, Platform

MOST_ROWS = 12  # of collectives that are alike


def import_document(
    job: Job,
    own: Platform,
    replay: SimulatedStep,
    times: Sequence[CallTimes],
    notes: Sequence[str],
    then: SimulatedStep | None,
    words: Sequence[str],
) -> dict[str, Any]:
    """Return the job, its replay on its own machine, and the prediction (`then`, described by `words`)."""
    schedule = job.schedule
    ops = [op for role in schedule.roles for call in role.calls for op in call.ops]
    return {
        "ranks": schedule.mesh.num_ranks,
        "mesh": dict(schedule.mesh.axes),
        "programs": len(schedule.roles),
        "kernels": len(job.kernels),
        "calls": sum(not isinstance(op, Compute) for op in ops),
        "step": job.step_name,
        "notes": notes,
        "machine": own.machine.name,
        "library": own.library.name,
        "fidelity": replay.fidelity,
        "measured_step_s": job.measured_s,
        "replay": _parts(replay),
        "replay_error": replay.step_s / job.measured_s - 1,
        "collectives": [asdict(each) for each in times],
        **({} if then is None else {"then": {"what": words, **_parts(then)}}),
    }


def _parts(step: SimulatedStep) -> dict[str, float]:
    """Return the step and its parts, which sum to it: kernels of any stream, exposed communication, idle time."""
    spent = exposure(step, KERNELS_FIRST)
    calls_s = spent.inter_node + spent.intra_node + spent.package
    kernels_s = spent.compute + spent.codec
    return {"step_s": step.step_s, "compute_s": kernels_s, "exposed_calls_s": calls_s, "idle_s": spent.idle}


def print_import(document: dict[str, Any], times: Sequence[CallTimes], out: Path | None) -> None:
    """Print a job, its replay and the prediction from the document of --json."""
    mesh = " x ".join(f"{axis} {size}" for axis, size in document["mesh"].items())
    several = "" if document["programs"] == 1 else f"{document['programs']} programs, "
    typer.echo(
        f"A job of {counted(document['ranks'], 'rank')} ({mesh}): {several}{document['kernels']:,} kernels and pauses, "
        f"{document['calls']:,} calls"
    )
    for note in document["notes"]:
        typer.echo(f"  note: {note}")
    named = f" ({document['step']})" if document["step"] else ""
    typer.echo(f"measured:  {written(document['measured_step_s'], 's')} per step{named}")
    replay = document["replay"]
    where = f"{document['machine']}, library {document['library']}, {document['fidelity']}"
    typer.echo(f"simulated: {written(replay['step_s'], 's')} per step, {document['replay_error']:+.1%} ({where})")
    typer.echo(f"           {_spent(replay)}")
    if times:
        _table(times, document["ranks"])
    if "then" in document:
        then = document["then"]
        typer.echo(f"Then {'; '.join(then['what'])}:")
        ratio = then["step_s"] / replay["step_s"]
        typer.echo(f"simulated: {written(then['step_s'], 's')} per step, {ratio:.3g} times the replay")
        typer.echo(f"           {_spent(then)}")
    if out is not None:
        typer.echo(f"Written to {out}: trace-*.json (for Perfetto)")


def _spent(answer: dict[str, float]) -> str:
    parts = (("kernels", "compute_s"), ("exposed communication", "exposed_calls_s"), ("idle", "idle_s"))
    return ", ".join(f"{words} {written(answer[key], 's')}" for words, key in parts)


def _table(times: Sequence[CallTimes], num_ranks: int) -> None:
    heads = ("collective", "over", "ranks", "message", "calls", "measured", "simulated", "ratio")
    title = "" if any(each.holds_waiting for each in times) else ", without waiting for others"
    rows = [
        (
            each.kind,
            "all" if each.num_ranks == num_ranks else "+".join(each.axes),
            f"{each.num_ranks:,}",
            written(each.num_bytes, "bytes"),
            f"{each.calls:,}",
            written(each.measured_s, "s") + (" with waiting" if each.holds_waiting else ""),
            written(each.simulated_s, "s"),
            f"{each.simulated_s / each.measured_s if each.measured_s else float('inf'):.2f}",
        )
        for each in times[:MOST_ROWS]
    ]
    console().print(grid(f"Collectives{title} (medians)", heads, rows, words=("over",), left=("collective",)))
    if len(times) > MOST_ROWS:
        typer.echo(f"and {len(times) - MOST_ROWS} other sizes (--json has all)")
