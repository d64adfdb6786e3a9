"""Options that several verbs of simfrontier-real have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

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
    """Become the launcher of so many ranks, if asked to. Raises InputError for schedules that they cannot run."""
    if ranks is None:
        return
    from simfrontier_real.options import refuse_ranks
    from simfrontier_real.ranks.launch import is_launched, launch

    if not is_launched():
        refuse_ranks(schedules, ranks)
        raise typer.Exit(launch(ranks))
