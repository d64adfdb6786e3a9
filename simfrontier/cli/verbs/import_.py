"""`simfrontier import`: a job's traces replayed on its own machine, and the same job otherwise."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simfrontier.cli.bar import progress
from simfrontier.cli.console import print_json
from simfrontier.cli.options import FidelityOption, fidelity_of, to_write
from simfrontier.errors import InputError, shown

if TYPE_CHECKING:
    from simfrontier.kineto import Job, Platform
    from simfrontier.simulation import SimulatedStep

SUFFIXES = (".json", ".json.gz")
_LEAST_FACTOR, _MOST_FACTOR = 1e-6, 1e6
_TIMES = re.compile(r"([1-9][0-9]{0,5})x")


def import_(
    traces: Annotated[
        list[Path], typer.Argument(help="traces of PyTorch's profiler (.json, .json.gz), or a folder of one job's")
    ],
    machine: Annotated[str, typer.Option(help="what the job ran on: a machine, its file, or a scenario (TOML)")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="key=value of a scenario's tables machine, library, run, nodes, perturbation: of --machine"
        ),
    ] = None,
    step: Annotated[int | None, typer.Option(min=0, help="number of the step (default: the last complete one)")] = None,
    stand_in: Annotated[bool, typer.Option("--stand-in", help="the traces stand for all ranks that have none")] = False,
    on: Annotated[str | None, typer.Option(help="then: the same job on this machine, e.g. frontier")] = None,
    ranks: Annotated[str | None, typer.Option(help="then: on so many ranks, e.g. 64, or 4x as many")] = None,
    hpz: Annotated[
        bool, typer.Option("--hpz", help="then: gathers of the backward within nodes, as hpZ of ZeRO++ has them")
    ] = False,
    kernel_factor: Annotated[
        float | None,
        typer.Option(help="how many times as long kernels take there (default: by the rates of matrix products)"),
    ] = None,
    fidelity: FidelityOption = None,
    out: Annotated[Path | None, to_write("--out", "folder for trace-replay.json, trace-then.json")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Read a job's traces, simulate it on its own machine and say how far that is from what was measured; then the same
    job on another machine, on more ranks, or with hpZ. Nothing in a trace is run."""
    from simfrontier.cli.terminal.import_job import print_import
    from simfrontier.kineto import call_times, platform_of, replayed
    from simfrontier.scenario import parse_setting
    from simfrontier.wholefile import ensure_writable

    if kernel_factor is not None and not _LEAST_FACTOR <= kernel_factor <= _MOST_FACTOR:
        text = f"got {kernel_factor}; allowed: {_LEAST_FACTOR:g} to {_MOST_FACTOR:g}"
        raise InputError(text, where="--kernel-factor")
    count, chosen = _ranks(ranks), fidelity_of(fidelity) or "flow"
    if out is not None:
        _refuse_among(out, traces)
        ensure_writable(out)
    own = platform_of(machine, dict(map(parse_setting, set_ or ())), "--machine")
    there = own if on is None else platform_of(on, {}, "--on")
    job = _read(traces, step, stand_in, there.machine.devices_per_node)
    replay = replayed(job, own, chosen)
    times = call_times(job, replay)
    notes = [*job.notes, *_of_another_machine(job, own)]
    if job.times and chosen != "flow":
        notes.append(f"fidelity {chosen} takes the mean of all ranks' kernels")
    document = {
        **_facts(job),
        "notes": notes,
        "machine": own.machine.name,
        "library": own.library.name,
        "fidelity": chosen,
    }
    document |= {"measured_step_s": job.measured_s, "replay": _answer(replay)}
    document["replay_error"] = replay.step_s / job.measured_s - 1
    document["collectives"] = [asdict(each) for each in times]
    then = None
    if on is not None or count is not None or hpz or kernel_factor is not None:
        asked, words = _asked(job, own, there, on is not None, count, hpz, kernel_factor)
        then = replayed(asked, there, chosen)
        document["then"] = {"what": words, **_answer(then)}
    if out is not None:
        _write(out, replay, then, notes)
    if json:
        print_json(document)
    else:
        print_import(document, times, out)


def _ranks(text: str | None) -> tuple[int, bool] | None:
    """A number, and whether it counts the job's own ranks."""
    if text is None:
        return None
    if match := _TIMES.fullmatch(text):
        return int(match[1]), True
    if text.isascii() and text.isdigit() and len(text) < 8 and int(text) > 0:
        return int(text), False
    raise InputError(f"got {shown(text)}; allowed: a number of ranks, e.g. 64, or 4x as many", where="--ranks")


def _read(paths: Sequence[Path], step: int | None, stand_in: bool, devices_per_node: int) -> Job:
    from simfrontier.kineto import read_job

    files = [file for path in paths for file in _files(path)]
    with progress("reading traces", len(files)) as report:
        return read_job(files, step, stand_in, devices_per_node, lambda: report("reading traces"))


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
    from simfrontier.kineto import difference

    found = [text for device in job.devices if (text := difference(own.machine, device))]
    return [f"the traces are of another device than {own.machine.name} has: {found[0]}"] if found else []


def _asked(
    job: Job,
    own: Platform,
    there: Platform,
    is_elsewhere: bool,
    ranks: tuple[int, bool] | None,
    hpz: bool,
    kernel_factor: float | None,
) -> tuple[Job, list[str]]:
    """The job as it is asked for, and that in words."""
    from simfrontier.kineto import on_ranks, with_gathers_in_nodes, with_kernels

    words = []
    if is_elsewhere:
        words.append(f"on {there.machine.title}, library {there.library.name}")
    factor = kernel_factor
    if factor is None:
        rates = [platform.machine.device.matmul_flops_per_s for platform in (own, there)]
        factor = rates[0] / rates[1]
    if factor != 1.0:
        by = "as given" if kernel_factor is not None else "by the two devices' rates of matrix products"
        words.append(f"kernels take {factor:.3g} times as long ({by})")
        job = with_kernels(job, factor)
    if hpz:
        job = with_gathers_in_nodes(job, there.machine.devices_per_node)
        words.append("with hpZ: gathers of the backward within nodes")
    if ranks is not None:
        count, is_factor = ranks
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
    from simfrontier.schedule import Compute

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
    from simfrontier.analysis import KERNELS_FIRST, exposure

    spent = exposure(step, KERNELS_FIRST)
    calls_s = spent.inter_node + spent.intra_node + spent.package
    kernels_s = spent.compute + spent.codec
    return {"step_s": step.step_s, "compute_s": kernels_s, "exposed_calls_s": calls_s, "idle_s": spent.idle}


def _write(out: Path, replay: SimulatedStep, then: SimulatedStep | None, notes: Sequence[str]) -> None:
    from simfrontier.schedule import digest
    from simfrontier.simulation import trace_of
    from simfrontier.trace import write_perfetto
    from simfrontier.wholefile import filled

    said = {f"note {number}": note for number, note in enumerate(notes, 1)}
    with filled(out, "import") as new:
        for name, step in (("replay", replay), ("then", then)):
            if step is not None:
                write_perfetto(trace_of(step, digest(step.schedule), name, notes=said), new / f"trace-{name}.json")
