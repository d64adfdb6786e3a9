"""Reading rates from CSV: of matrix products on one device, and of published training runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from simfrontier.measured.csvfile import Line, read_lines
from simfrontier.measured.rows import QUANTITIES, Quantity, RateRow, What, refuse_repeats

COMMON: Final = ("machine", "quantity", "value", "status", "source")
PRODUCT_COLUMNS: Final = (*COMMON, "statistic", "dtype", "m", "n", "k")
TRAINING: Final = (*COMMON, "model", "plan", "devices")
STATUSES: Final = ("measured", "paper", "secondary", "inferred")
MATMUL_QUANTITIES: Final[tuple[Quantity, ...]] = ("seconds", "flops_per_s")
TRAINING_QUANTITIES: Final = tuple(quantity for quantity in QUANTITIES if quantity != "seconds")


def read_rates(path: Path, called: str = "") -> tuple[RateRow, ...]:
    """The rows of a table, in the file's order: of training runs if it has a column `model`, else of matrix products.

    m, n, k and devices are empty where they are not known. Raises InputError as read_calls does.
    """
    of_training = "model" in read_lines(path, COMMON, called)[0].cells
    lines = read_lines(path, TRAINING if of_training else PRODUCT_COLUMNS, called)
    rows = tuple(map(_training if of_training else _matmul, lines))
    refuse_repeats(rows)
    return rows


def _matmul(line: Line) -> RateRow:
    return replace(
        _common(line, "matmul", MATMUL_QUANTITIES),
        statistic=line.text("statistic"),
        m=line.optional("m"),
        n=line.optional("n"),
        k=line.optional("k"),
        dtype=line.text("dtype"),
        devices=1,
    )


def _training(line: Line) -> RateRow:
    return replace(
        _common(line, "training", TRAINING_QUANTITIES),
        model=line.text("model"),
        plan=line.text("plan"),
        devices=line.optional("devices"),
    )


def _common(line: Line, what: What, quantities: Sequence[Quantity]) -> RateRow:
    """What both kinds of rows say, of a published rate."""
    return RateRow(
        machine=line.machine(),
        what=what,
        quantity=cast(Quantity, line.choice("quantity", quantities)),
        value=line.above_zero("value", f"a number of {line.cells['quantity']} above 0"),
        statistic="published",
        status=line.choice("status", STATUSES),
        source=line.text("source"),
        place=line.place,
    )
