"""`simfrontier runs`: published training runs beside their predictions."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from simfrontier.interfaces import api
from simfrontier.interfaces.cli.console import print_json, tell
from simfrontier.interfaces.report.phrases import signed, three_digits
from simfrontier.interfaces.report.table import Table

MOST: Final = 40  # rows that are printed where nothing says which
LEAST_WIDTH: Final = 150


def runs(
    model: Annotated[str | None, typer.Option(help="model, or words of its name, e.g. llama-3-70b")] = None,
    machine: Annotated[str | None, typer.Option(help="machine, or its devices, e.g. h100")] = None,
    json: Annotated[bool, typer.Option("--json", help="print them as JSON, with their sources")] = False,
) -> None:
    """List published training runs: model, machine, plan and batch, tokens/s per device as measured and as predicted by
    a fit that has not seen the run's machine. `simfrontier explain --against runs` puts a plan of yours beside them."""
    found = api.runs(model, machine).to_dict("records")
    if json:
        print_json(found)
        return
    shown = found if model or machine else found[:MOST]
    heads = ("run", "model", "machine", "devices", "plan", "batch × seq", "precision", "tokens/s", "predicted", "error")
    words = ("model", "plan", "as printed")
    table = Table(None, (*heads, "as printed"), [_cells(row) for row in shown], words=words, left=("run", "machine"))
    tell(table, least_width=LEAST_WIDTH)
    more = f"; the first {MOST}, --model or --machine for others" if len(shown) < len(found) else ""
    tell(f"{len(found)} runs{more}. tokens/s and predicted are per device; sources: --json.")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["run"],
        row["model"],
        row["machine"],
        f"{row['devices']:,}",
        row["plan"],
        f"{row['batch']:,} × {row['sequence']:,}",
        row["precision"],
        three_digits(row["tokens_per_s_per_device"]),
        three_digits(row["predicted"]),
        signed(row["error"]),
        f"{row['value']:,.10g} {row['unit']}",
    )
