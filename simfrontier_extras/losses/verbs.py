"""The verb `losses`, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.base.extras import Verb


def losses(
    table: Annotated[Path, typer.Argument(help="table (CSV) of loss curves, from `simfrontier-real losses`")],
    baseline: Annotated[str, typer.Option(help="the compression that others are compared with")] = "none",
    last: Annotated[int, typer.Option(min=1, help="steps at the end that make a final loss")] = 20,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Report which compression policies leave the band of the uncompressed training's losses. Exit code 1 if one
    does."""
    from simfrontier_extras.losses.command import print_losses

    raise typer.Exit(0 if print_losses(table, baseline, last, json) else 1)


ADDS = (Verb(function=losses),)
