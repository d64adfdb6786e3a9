"""The verb `softmax`, with its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.base.extras import Verb


def softmax(
    table: Annotated[Path, typer.Argument(help="table (CSV) of times, from `simfrontier-real softmax`")],
    out: Annotated[Path | None, typer.Option(help="folder for index.html and results.csv (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Report where a two-pass softmax is faster than three passes, and why. Exit code 1 if it is not the fastest for
    rows larger than the last-level cache."""
    from simfrontier_extras.softmax.command import print_softmax

    raise typer.Exit(0 if print_softmax(table, out, json) else 1)


ADDS = (Verb(function=softmax),)
