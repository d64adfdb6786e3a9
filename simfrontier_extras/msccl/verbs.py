"""The verb `msccl`, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.base.extras import Verb


def msccl(
    file: Annotated[Path, typer.Argument(help="MSCCL algorithm file (XML)")],
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Check whether an MSCCL algorithm file computes its collective and whether RCCL accepts it. Exit code 1 if not."""
    from simfrontier_extras.msccl.command import print_verdict

    raise typer.Exit(0 if print_verdict(file, json) else 1)


ADDS = (Verb(function=msccl, name="msccl"),)
