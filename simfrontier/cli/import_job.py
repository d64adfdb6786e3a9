"""`simfrontier import`: a job's traces replayed on its own machine, and the same job otherwise."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from simfrontier.analysis import KERNELS_FIRST, exposure
from simfrontier.cli.bar import bar_of_work
from simfrontier.cli.console import console, grid
from simfrontier.errors import InputError
from simfrontier.kineto import (
    CallTimes,
    Job,
    Platform,
    call_times,
    difference,
    on_ranks,
    platform_of,
    read_job,
    replayed,
    with_gathers_in_nodes,
    with_kernels,
)
from simfrontier.records import dataclass
from simfrontier.scenario import parse_setting
from simfrontier.schedule import Compute, digest
from simfrontier.simulation import Fidelity, SimulatedStep, trace_of
from simfrontier.trace import write_perfetto
from simfrontier.units import counted, written
from simfrontier.wholefile import ensure_writable, filled

MOST_ROWS = 12  # of collectives that are alike
SUFFIXES = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked beside the replay: on another machine, on so many ranks (or so many times the job's), with hpZ;
    `kernel_factor`: how many times as long kernels take there."""

    on: str | None
    ranks: tuple[int, bool] | None
    hpz: bool
    kernel_factor: float | None

    @property
    def is_asked(self) -> bool:
        return self.on is not None or self.ranks is not None or self.hpz or self.kernel_factor is not None


def import_job(
    paths: Sequence[Path],
    machine: str,
    settings: Sequence[str],
    step: int | None,
    stand_in: bool,
    question: Question,
    fidelity: Fidelity,
    out: Path | None,
    as_json: bool,
) -> None:
    """Read the traces, replay the job, answer the question, print it all; write traces to `out`."""
    if out is not None:
        _refuse_among(out, paths)
        ensure_writable(out)
    changed = dict(map(parse_setting, settings))
    own = platform_of(machine, changed, "--machine")
    there = own if question.on is None else platform_of(question.on, {}, "--on")
    job = _read(paths, step, stand_in, there.machine.devices_per_node)
    replay = replayed(job, own, fidelity)
    times = call_times(job, replay)
    notes = [*job.notes, *_of_another_machine(job, own)]
    if job.times and fidelity != "flow":
        notes.append(f"fidelity {fidelity} takes the mean of all ranks' kernels")
    document = {
        **_facts(job),
        "notes": notes,
        "machine": own.machine.name,
        "library": own.library.name,
        "fidelity": fidelity,
    }
    document |= {"measured_step_s": job.measured_s, "replay": _answer(replay)}
    document["replay_error"] = replay.step_s / job.measured_s - 1
    document["collectives"] = [asdict(each) for each in times]
    then = None
    if question.is_asked:
        asked, words = _asked(job, question, own, there)
        then = replayed(asked, there, fidelity)
        document["then"] = {"what": words, **_answer(then)}
    if out is not None:
        _write(out, replay, then, notes)
    if as_json:
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        _print(document, times, out)


def _read(paths: Sequence[Path], step: int | None, stand_in: bool, devices_per_node: int) -> Job:
    files = [file for path in paths for file in _files(path)]
    with bar_of_work() as bar:
        task = bar.add_task("reading traces", total=len(files))
        return read_job(files, step, stand_in, devices_per_node, lambda: bar.update(task, advance=1))


def _refuse_among(out: Path, paths: Sequence[Path]) -> None:
    """Raise InputError for the folder of the traces: what is written there would be read as one the next time."""
    if os.path.realpath(out) in map(os.path.realpath, paths):
        raise InputError(f"got {str(out)!r}, where the traces are; allowed: another folder", where="--out")


def _files(path: Path) -> list[Path]:
    """The file, or the traces in a folder. Raises InputError where there are none."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.name.endswith(SUFFIXES) and each.is_file())
    if not found:
        raise InputError(
            f"no traces in this folder; allowed: files that end in {' or '.join(SUFFIXES)}", where=str(path)
        )
    return found


def _of_another_machine(job: Job, own: Platform) -> list[str]:
    """A note where the traces name a device that is not the machine's."""
    found = [text for device in job.devices if (text := difference(own.machine, device))]
    return [f"the traces are of another device than {own.machine.name} has: {found[0]}"] if found else []


def _asked(job: Job, question: Question, own: Platform, there: Platform) -> tuple[Job, list[str]]:
    """The job as it is asked for, and that in words."""
    words = []
    if question.on is not None:
        words.append(f"on {there.machine.title}, library {there.library.name}")
    factor = question.kernel_factor
    if factor is None:
        rates = [platform.machine.device.matmul_flops_per_s for platform in (own, there)]
        factor = rates[0] / rates[1]
    if factor != 1.0:
        by = "as given" if question.kernel_factor is not None else "by the two devices' rates of matrix products"
        words.append(f"kernels take {factor:.3g} times as long ({by})")
        job = with_kernels(job, factor)
    if question.hpz:
        job = with_gathers_in_nodes(job, there.machine.devices_per_node)
        words.append("with hpZ: gathers of the backward within nodes")
    if question.ranks is not None:
        count, is_factor = question.ranks
        num_ranks = count * job.schedule.mesh.num_ranks if is_factor else count
        if num_ranks > there.machine.num_devices:
            text = (
                f"got {num_ranks:,}; allowed: up to the {there.machine.num_devices:,} devices of {there.machine.name}"
            )
            raise InputError(text, where="--ranks")
        job = on_ranks(job, num_ranks)
        words.append(f"on {job.schedule.mesh.num_ranks:,} ranks, each with as much work as before")
    return job, words


def _facts(job: Job) -> dict[str, Any]:
    schedule = job.schedule
    ops = [op for role in schedule.roles for call in role.calls for op in call.ops]
    return {
        "ranks": schedule.mesh.num_ranks,
        "mesh": dict(schedule.mesh.axes),
        "programs": len(schedule.roles),
        "kernels": len(job.kernels),
        "calls": sum(not isinstance(op, Compute) for op in ops),
        "step": job.step_name,
    }


def _answer(step: SimulatedStep) -> dict[str, float]:
    """The step and its parts, which sum to it: kernels of any stream, calls that none of them hides, and the rest."""
    spent = exposure(step, KERNELS_FIRST)
    calls_s = spent.inter_node + spent.intra_node + spent.package
    kernels_s = spent.compute + spent.codec
    return {"step_s": step.step_s, "compute_s": kernels_s, "exposed_calls_s": calls_s, "idle_s": spent.idle}


def _write(out: Path, replay: SimulatedStep, then: SimulatedStep | None, notes: Sequence[str]) -> None:
    said = {f"note {number}": note for number, note in enumerate(notes, 1)}
    with filled(out, "import") as new:
        for name, step in (("replay", replay), ("then", then)):
            if step is not None:
                write_perfetto(trace_of(step, digest(step.schedule), name, notes=said), new / f"trace-{name}.json")


def _print(document: dict[str, Any], times: Sequence[CallTimes], out: Path | None) -> None:
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
    parts = (("kernels", "compute_s"), ("calls that no kernel hides", "exposed_calls_s"), ("nothing", "idle_s"))
    return ", ".join(f"{words} {written(answer[key], 's')}" for words, key in parts)


def _table(times: Sequence[CallTimes], num_ranks: int) -> None:
    heads = ("collective", "over", "ranks", "message", "calls", "measured", "simulated", "ratio")
    title = "" if any(each.holds_waiting for each in times) else ", without waiting for others"
    table = grid(f"Collectives{title} (medians)", heads, ("over",), ("collective",))
    for each in times[:MOST_ROWS]:
        ratio = each.simulated_s / each.measured_s if each.measured_s else float("inf")
        table.add_row(
            each.kind,
            "all" if each.num_ranks == num_ranks else "+".join(each.axes),
            f"{each.num_ranks:,}",
            written(each.num_bytes, "bytes"),
            f"{each.calls:,}",
            written(each.measured_s, "s") + (" with waiting" if each.holds_waiting else ""),
            written(each.simulated_s, "s"),
            f"{ratio:.2f}",
        )
    console().print(table)
    if len(times) > MOST_ROWS:
        typer.echo(f"and {len(times) - MOST_ROWS} other sizes (--json has all)")
