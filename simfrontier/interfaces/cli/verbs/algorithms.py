"""`simfrontier algorithms`: the algorithms of every collective and where they are supported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from simfrontier.core.collectives import Algorithm, all_algorithms
from simfrontier.core.program import ALGORITHMS, CollectiveKind
from simfrontier.interfaces.cli.console import print_json

COLUMNS: Final = ("library", "plan", "flow", "chunk", "lowered", "real")
LEGEND: Final = """\
library: a library's file may carry such calls so, said in its table of that name
plan: a hop of a plan (via), or a collective of a schedule file, may ask for it
flow, chunk: schedules with such calls are simulated at that fidelity; flow stands for analytic too
lowered, real: its transfers are proved, and executed by simfrontier-real --collectives lowered"""


def algorithms(json: Annotated[bool, typer.Option("--json", help="print the matrix as JSON")] = False) -> None:
    """List the algorithms of every collective and where they are supported: libraries, plans, simulation, real runs."""
    rows = [(by, kind) for by in all_algorithms() for kind in dict.fromkeys((*by.collectives, *by.in_libraries))]
    if json:
        print_json(
            [
                {"algorithm": by.name, "title": by.title, "collective": kind, **_where(by, kind), "limits": _limits(by)}
                for by, kind in rows
            ]
        )
        return
    typer.echo(_line("algorithm", "collective", COLUMNS))
    known: set[str] = set()
    for by, kind in rows:
        first = "" if by.name in known else by.name
        known.add(by.name)
        cells = (each if isinstance(each, str) else "yes" if each else "-" for each in _where(by, kind).values())
        typer.echo(_line(first, kind, cells))
    typer.echo("")
    for by in all_algorithms():
        typer.echo(f"{by.name}: {by.title}")
        for limit in _limits(by):
            typer.echo(f"  {limit}")
    typer.echo(f"\n{LEGEND}")


def _where(by: Algorithm, kind: CollectiveKind) -> dict[str, str | bool]:
    """Return where an algorithm of a collective is supported, by column of the matrix; for a library, the table of its
    file that enables the algorithm."""
    library = by.said_in if kind in by.in_libraries else False
    has_transfers = kind in by.collectives
    where = (by.in_plans, by.runs_as_loads(kind), by.runs_as_chunks(kind), has_transfers, has_transfers)
    return dict(zip(COLUMNS, (library, *where), strict=True))


def _limits(by: Algorithm) -> list[str]:
    return list(dict.fromkeys(filter(None, (by.not_as_loads, by.not_as_chunks))))


def _line(algorithm: str, collective: str, cells: Iterable[str]) -> str:
    width = max(map(len, ALGORITHMS)) + 2
    return f"{algorithm:<{width}}{collective:<16}" + "".join(f"{cell:<12}" for cell in cells).rstrip()
