"""`simfrontier import`: replay of a job from its traces, and predictions for other machines and sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from simfrontier.answers.profiled_job import CallTimes, call_times, replayed
from simfrontier.answers.step import KERNELS_FIRST, exposure
from simfrontier.base.errors import InputError, shown
from simfrontier.base.units import counted, written
from simfrontier.base.wholefile import ensure_writable, filled
from simfrontier.core.engine import SimulatedStep, trace_of
from simfrontier.core.program import Compute, digest
from simfrontier.core.trace import write_perfetto
from simfrontier.inputs.profiler import Job, Platform, difference, otherwise, platform_of, read_job
from simfrontier.inputs.scenario import parse_setting
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, tell
from simfrontier.interfaces.progress import progress
from simfrontier.interfaces.report.table import Table

SUFFIXES = (".json", ".json.gz")
MOST_ROWS = 12  # of collectives that are alike


def import_(
    traces: Annotated[
        list[Path], typer.Argument(help="traces of PyTorch's profiler (.json, .json.gz), or a folder of one job's")
    ],
    machine: Annotated[str, typer.Option(help="machine of the job: a name, a machine file, or a scenario (TOML)")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="set key=value in the tables machine, library, run, nodes or perturbation of the "
            "scenario of --machine",
        ),
    ] = None,
    step: Annotated[
        int | None, typer.Option(min=0, help="number of the step to replay (default: the last complete one)")
    ] = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="let the traces represent all ranks without a trace")
    ] = False,
    on: Annotated[str | None, typer.Option(help="predict the job on this machine, e.g. frontier")] = None,
    ranks: Annotated[
        str | None, typer.Option(help="predict the job on this number of ranks, e.g. 64, or 4x as many")
    ] = None,
    hpz: Annotated[
        bool, typer.Option("--hpz", help="predict the job with the backward's gathers within nodes (hpZ of ZeRO++)")
    ] = False,
    kernel_factor: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            max=1e6,
            help="kernel time there relative to the traces (default: from the GEMM rates of both devices)",
        ),
    ] = None,
    fidelity: options.Fidelity = None,
    out: Annotated[Path | None, typer.Option(help="folder for trace-replay.json, trace-then.json")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Replay a job from its profiler traces on its own machine and report the error; then predict it on another
    machine, on more ranks, or with hpZ. No code in a trace is executed."""
    count, chosen = _ranks(ranks), fidelity or "flow"
    if out is not None:
        _refuse_among(out, traces)
        ensure_writable(out)
    own = platform_of(machine, dict(map(parse_setting, set_ or ())), "--machine")
    there = own if on is None else platform_of(on, {}, "--on")
    job = _read(traces, step, stand_in, there.machine.devices_per_node)
    replay, notes = replayed(job, own, chosen), _notes(job, own, chosen)
    times, then, words = call_times(job, replay), None, list[str]()
    if on is not None or count is not None or hpz or kernel_factor is not None:
        num_ranks = None if count is None else count[0] * (job.schedule.mesh.num_ranks if count[1] else 1)
        asked, words = otherwise(job, own, there, num_ranks, hpz, kernel_factor)
        then = replayed(asked, there, chosen)
    if out is not None:
        _write(out, replay, then, notes)
    document = import_document(job, own, replay, times, notes, then, words)
    if json:
        print_json(document)
    else:
        print_import(document, times, out)


def _ranks(text: str | None) -> tuple[int, bool] | None:
    """Parse the option for the number of ranks: a number, and whether it is a factor on the job's own number of
    ranks."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,6})(x?)", text)
    if match is None:
        raise InputError(f"got {shown(text)}; allowed: a number of ranks, e.g. 64, or 4x as many", where="--ranks")
    return int(match[1]), match[2] == "x"


def _read(paths: Sequence[Path], step: int | None, stand_in: bool, devices_per_node: int) -> Job:
    files = [file for path in paths for file in _files(path)]
    with progress("reading traces", len(files)) as report:
        return read_job(files, step, stand_in, devices_per_node, lambda: report("reading traces"))


def _refuse_among(out: Path, paths: Sequence[Path]) -> None:
    """Raise InputError if `out` is the folder of the traces: files written there would be read as traces in the next
    run."""
    if os.path.realpath(out) in map(os.path.realpath, paths):
        raise InputError(f"got {str(out)!r}, where the traces are; allowed: another folder", where="--out")


def _files(path: Path) -> list[Path]:
    """Return the given trace file, or all traces in the given folder. Raises InputError if there are none."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.name.endswith(SUFFIXES) and each.is_file())
    if not found:
        raise InputError(
            f"no traces in this folder; allowed: files that end in {' or '.join(SUFFIXES)}", where=str(path)
        )
    return found


def _notes(job: Job, own: Platform, fidelity: str) -> list[str]:
    """Return notes for the user: on the job, on a device that differs from the machine's, and on averaged kernel
    times."""
    notes = list(job.notes)
    if others := [text for device in job.devices if (text := difference(own.machine, device))]:
        notes.append(f"the traces are of another device than {own.machine.name} has: {others[0]}")
    if job.times and fidelity != "flow":
        notes.append(f"fidelity {fidelity} takes the mean of all ranks' kernels")
    return notes


def _write(out: Path, replay: SimulatedStep, then: SimulatedStep | None, notes: Sequence[str]) -> None:
    said = {f"note {number}": note for number, note in enumerate(notes, 1)}
    with filled(out) as new:
        for name, step in (("replay", replay), ("then", then)):
            if step is not None:
                write_perfetto(trace_of(step, digest(step.schedule), name, notes=said), new / f"trace-{name}.json")


def import_document(
    job: Job,
    own: Platform,
    replay: SimulatedStep,
    times: Sequence[CallTimes],
    notes: Sequence[str],
    then: SimulatedStep | None,
    words: Sequence[str],
) -> dict[str, Any]:
    """Return the job, its replay on its own machine, and the predicted step (`then`, which `words` describe), as a JSON
    document."""
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
    """Return the seconds of a step and of its parts, which sum to it: kernels on any stream, exposed communication,
    idle time."""
    spent = exposure(step, KERNELS_FIRST)
    calls_s = spent.inter_node + spent.intra_node + spent.package
    kernels_s = spent.compute + spent.codec
    return {"step_s": step.step_s, "compute_s": kernels_s, "exposed_calls_s": calls_s, "idle_s": spent.idle}


def print_import(document: dict[str, Any], times: Sequence[CallTimes], out: Path | None) -> None:
    """Print a job, its replay and the prediction from the JSON document."""
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
    title = "Collectives, without waiting for others (medians)"
    if any(each.holds_waiting for each in times):
        title = "Collectives (medians; *: with waiting for ranks without a trace)"
    rows = [
        (
            each.kind,
            "all" if each.num_ranks == num_ranks else "+".join(each.axes),
            f"{each.num_ranks:,}",
            written(each.num_bytes, "bytes"),
            f"{each.calls:,}",
            written(each.measured_s, "s") + ("*" if each.holds_waiting else ""),
            written(each.simulated_s, "s"),
            f"{each.simulated_s / each.measured_s if each.measured_s else float('inf'):.2f}",
        )
        for each in times[:MOST_ROWS]
    ]
    tell(Table(title, heads, rows, words=("over",), left=("collective",)))
    if len(times) > MOST_ROWS:
        typer.echo(f"and {len(times) - MOST_ROWS} other sizes (--json has all)")
