"""The command that reads a job's own traces: `import`, with its options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli.options import FidelityOption, fidelity_of, to_write
from simfrontier.errors import InputError, shown

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
    from simfrontier.cli.import_job import Question, import_job

    if kernel_factor is not None and not _LEAST_FACTOR <= kernel_factor <= _MOST_FACTOR:
        text = f"got {kernel_factor}; allowed: {_LEAST_FACTOR:g} to {_MOST_FACTOR:g}"
        raise InputError(text, where="--kernel-factor")
    question = Question(on=on, ranks=_ranks(ranks), hpz=hpz, kernel_factor=kernel_factor)
    import_job(traces, machine, set_ or [], step, stand_in, question, fidelity_of(fidelity) or "flow", out, json)


def _ranks(text: str | None) -> tuple[int, bool] | None:
    """A number, and whether it counts the job's own ranks."""
    if text is None:
        return None
    if match := _TIMES.fullmatch(text):
        return int(match[1]), True
    if text.isascii() and text.isdigit() and len(text) < 8 and int(text) > 0:
        return int(text), False
    raise InputError(f"got {shown(text)}; allowed: a number of ranks, e.g. 64, or 4x as many", where="--ranks")
