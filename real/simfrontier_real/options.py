"""Command-line options and the validation of their values: sizes, numbers, output paths."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from simfrontier.base.errors import InputError
from simfrontier.base.limits import Limit
from simfrontier.core.program import Schedule, load

Precision = Literal["fp32", "fp64", "fp16", "bf16"]
Device = Literal["cpu", "cuda"]
Collectives = Literal["lowered", "native"]
Schedules = Annotated[
    list[Path], typer.Argument(help="schedule files (JSON), from `simfrontier export` or `simfrontier show --save`")
]
BackendOption = Annotated[
    Literal["gloo", "nccl"], typer.Option(help="gloo (the host's memory) or nccl (NVIDIA; RCCL on ROCm)")
]
DeviceOption = Annotated[
    Device | None,
    typer.Option(
        help="device of tensors: cpu (for gloo) or cuda (for nccl; AMD too). With gloo and cuda "
        "the ranks of a machine share its GPUs, and messages are copied through host memory",
        show_default=False,
    ),
]
CollectivesOption = Annotated[
    Collectives, typer.Option(help="native (the library's own) or lowered (explicit transfers, by lowered-NAME.json)")
]
TimeoutOption = Annotated[
    float, typer.Option(min=1.0, help="seconds without progress after which a run counts as stuck")
]
JoinOption = Annotated[float, typer.Option(min=1.0, help="seconds within which all ranks must join")]
Ranks = Annotated[
    int | None,
    typer.Option(min=1, help="number of ranks to start on this machine (default: torchrun or srun starts them)"),
]
Unchecked = Annotated[bool, typer.Option("--unchecked", help="skip the check and the comparison of digests")]


def launch_ranks(ranks: int | None, schedules: Sequence[Path] = ()) -> None:
    """Launch this command as `ranks` processes and exit with their exit code; do nothing if `ranks` is None or this
    process is itself such a rank. Raises InputError for schedules that this number of ranks cannot run."""
    if ranks is None:
        return
    from simfrontier_real.ranks.launch import is_launched, launch

    if not is_launched():
        refuse_ranks(schedules, ranks)
        raise typer.Exit(launch(ranks))


RANKS_STARTED: Final = Limit(most=1024, what="ranks on this machine")  # each takes 100 MB and seconds to start
_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 10**6, "GB": 10**9}


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse a list of sizes such as `4KiB,1MiB` to ascending sizes in bytes; raises InputError."""
    out = set()
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = re.fullmatch(r"(\d{1,12})\s*([A-Za-z]*)", part)
        if match is None or match[2] not in _UNITS or int(match[1]) < 1:
            raise InputError(
                f"got {part!r}; allowed: numbers of bytes or KiB, MiB, GiB, e.g. 4KiB,1MiB", where="--sizes"
            )
        out.add(int(match[1]) * _UNITS[match[2]])
    if not out:
        raise InputError("got nothing; allowed: sizes separated by commas, e.g. 4KiB,1MiB", where="--sizes")
    return tuple(sorted(out))


def refuse_waits(compute: str, waits: Path | None) -> None:
    """Raise InputError if --waits does not match --compute."""
    if (compute == "wait") != (waits is not None):
        raise InputError("goes with --compute wait, and --compute wait needs it", where="--waits")


def refuse_ranks(paths: Iterable[Path], ranks: int) -> None:
    """Raise InputError, before any rank is started, if there are more ranks than can be started, if a file is no
    schedule, or if a schedule is for another number of ranks."""
    if fault := RANKS_STARTED.fault(ranks):
        raise InputError(fault, where="--ranks")
    for path in paths:
        refuse_size(load(path), str(path), ranks)


def refuse_size(schedule: Schedule, where: str, size: int) -> None:
    """Raise InputError for a schedule whose number of ranks is not `size`."""
    needed = schedule.mesh.num_ranks
    if needed != size:
        axes = " × ".join(f"{name} {count}" for name, count in schedule.mesh.axes)
        raise InputError(f"is for {needed} ranks ({axes}), but {size} were started", where=where)


def refuse_number(option: str, value: float) -> None:
    """Raise InputError for a value that is not finite and positive."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"got {value}; allowed: a number above 0", where=option)


def refuse_checkpoints(num_schedules: int, folder: Path | None, resume: Path | None, start_if_none: bool) -> None:
    """Raise InputError for checkpoints of more than one schedule, and for a folder with the checkpoints of another
    run."""
    from simfrontier_real.train.checkpoints.manifest import refuse_others

    for option, place in (("--checkpoint", folder), ("--resume", resume)):
        if place is not None and num_schedules != 1:
            raise InputError(f"goes with one schedule, got {num_schedules}", where=option)
    if start_if_none and resume is None:
        raise InputError("goes with --resume", where="--start-if-none")
    if folder is not None:
        refuse_others(folder, resume)


def refuse_places(folder: Path | None, file: Path | None) -> None:
    """Raise InputError, before the run begins, for a folder that cannot be created or a file that cannot be written."""
    for place in filter(None, (folder, None if file is None else file.parent)):
        there = next(each for each in (place, *place.parents) if each.exists())
        if not there.is_dir():
            raise InputError(f"{there} is a file; allowed: a folder", where=str(place))
        if not os.access(there, os.W_OK):
            raise InputError(f"{there} may not be written; allowed: a folder of yours", where=str(place))
    if file is not None and file.is_dir():
        raise InputError("is a folder; allowed: a file", where=str(file))
