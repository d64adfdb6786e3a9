"""`simfrontier crosscheck`: comparison of simulated and real traces of the same schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json, write_page


def crosscheck(
    sim: Annotated[Path, typer.Argument(help="simulated trace, or a folder of trace-PLAN.json (simfrontier export)")],
    real: Annotated[Path, typer.Argument(help="real trace, or a folder of files of the same names")],
    out: Annotated[Path | None, typer.Option(help="folder for the page index.html (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    min_bytes: Annotated[str, typer.Option(help="judge the times of collectives of at least this size")] = "1MiB",
    tolerance: Annotated[
        float,
        typer.Option(
            min=1e-6,
            max=1e6,
            help="allowed relative difference of times (median); real steps that vary by more are not judged",
        ),
    ] = 0.25,
) -> None:
    """Compare simulated and real traces of the same schedules. Exit code 1 if they differ; 0 if they agree, or if
    messages are too small or real steps too noisy to judge."""
    from simfrontier.base.wholefile import ensure_writable
    from simfrontier.core.trace import crosscheck_of
    from simfrontier.interfaces.cli.terminal.crosscheck import crosscheck_document, print_check
    from simfrontier.interfaces.report import crosscheck_page

    least = options.num_bytes("--min-bytes", min_bytes)
    if out is not None:
        ensure_writable(out)
    check = crosscheck_of(sim, real, least, tolerance)
    if out is not None:
        write_page(out, "crosscheck", {"index.html": crosscheck_page(check)})
    if json:
        print_json(crosscheck_document(check))
    else:
        print_check(check, out)
    raise typer.Exit(1 if check.outcome == "differ" else 0)
