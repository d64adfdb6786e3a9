"""`simfrontier import`: replay of a job from its traces, and predictions for other machines and sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simfrontier.base.errors import InputError, shown
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, progress

if TYPE_CHECKING:
    from simfrontier.core.engine import SimulatedStep
    from simfrontier.inputs.profiler import Job, Platform

SUFFIXES = (".json", ".json.gz")


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
    from simfrontier.answers.profiled_job import call_times, replayed
    from simfrontier.base.wholefile import ensure_writable
    from simfrontier.inputs.profiler import otherwise, platform_of
    from simfrontier.inputs.scenario import parse_setting
    from simfrontier.interfaces.cli.terminal.import_job import import_document, print_import

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
    """Parse a number of ranks, and whether it multiplies the job's own."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,6})(x?)", text)
    if match is None:
        raise InputError(f"got {shown(text)}; allowed: a number of ranks, e.g. 64, or 4x as many", where="--ranks")
    return int(match[1]), match[2] == "x"


def _read(paths: Sequence[Path], step: int | None, stand_in: bool, devices_per_node: int) -> Job:
    from simfrontier.inputs.profiler import read_job

    files = [file for path in paths for file in _files(path)]
    with progress("reading traces", len(files)) as report:
        return read_job(files, step, stand_in, devices_per_node, lambda: report("reading traces"))


def _refuse_among(out: Path, paths: Sequence[Path]) -> None:
    """Raise InputError for the folder of the traces: files written there would be read as traces the next time."""
    if os.path.realpath(out) in map(os.path.realpath, paths):
        raise InputError(f"got {str(out)!r}, where the traces are; allowed: another folder", where="--out")


def _files(path: Path) -> list[Path]:
    """Return the file, or the traces in a folder. Raises InputError if there are none."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.name.endswith(SUFFIXES) and each.is_file())
    if not found:
        raise InputError(
            f"no traces in this folder; allowed: files that end in {' or '.join(SUFFIXES)}", where=str(path)
        )
    return found


def _notes(job: Job, own: Platform, fidelity: str) -> list[str]:
    """Return the notes on the job, on a device other than the machine's, and on averaged kernel times."""
    from simfrontier.inputs.profiler import difference

    notes = list(job.notes)
    if others := [text for device in job.devices if (text := difference(own.machine, device))]:
        notes.append(f"the traces are of another device than {own.machine.name} has: {others[0]}")
    if job.times and fidelity != "flow":
        notes.append(f"fidelity {fidelity} takes the mean of all ranks' kernels")
    return notes


def _write(out: Path, replay: SimulatedStep, then: SimulatedStep | None, notes: Sequence[str]) -> None:
    from simfrontier.base.wholefile import filled
    from simfrontier.core.engine import trace_of
    from simfrontier.core.program import digest
    from simfrontier.core.trace import write_perfetto

    said = {f"note {number}": note for number, note in enumerate(notes, 1)}
    with filled(out) as new:
        for name, step in (("replay", replay), ("then", then)):
            if step is not None:
                write_perfetto(trace_of(step, digest(step.schedule), name, notes=said), new / f"trace-{name}.json")
