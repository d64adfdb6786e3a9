"""The answer of a comparison: a row per plan with its grid, its rate and 90 % interval, its step, its use of the device
and its memory, from the columns of results.csv."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from simfrontier.answers.study import RATE
from simfrontier.interfaces.report.headline import rate_interval
from simfrontier.interfaces.report.phrases import NOTHING, number, percent, quantity
from simfrontier.interfaces.report.table import Table
from simfrontier.interfaces.report.view import Row, StudyView

if TYPE_CHECKING:
    import pandas as pd

SUMMARY: Final = (
    *(
        "plan",
        "devices",
        "grid",
        "stack",
        RATE,
        f"{RATE}_low",
        f"{RATE}_high",
        "step_time_s",
        "tflops_per_device",
        "mfu",
    ),
    *("peak_memory_bytes", "memory_capacity_bytes"),
)
"""Columns of the answer, in its order."""
TOO_BIG: Final = "too big"


def answer_tables(view: StudyView) -> list[Table]:
    """Return the rates by size, if there are several sizes, and the answer at the largest."""
    return [*([rates_table(view)] if len(view.sizes) > 1 else []), answer_table(view)]


def answer_table(view: StudyView) -> Table:
    """Return the answer at the largest size as texts, the fastest plan in bold. A plan that does not fit has its memory
    alone."""
    best = view.ranked[0].plan if view.ranked else None
    rows = view.rows_at(view.largest)
    return Table(
        f"{view.scenario.file.title}, {view.largest:,} {view.device}s ({view.study.fidelity})",
        (
            *("plan", "grid", "stack", view.rate_unit.replace(" ", "\n", 1), "90 %\ninterval", "step"),
            *(f"TFLOPS\nper {view.device}", "MFU", "memory,\nGB"),
        ),
        [tuple(_cells(row)) for row in rows],
        left=("plan", "grid", "stack"),
        words=("grid",),
        styles=["bold" if row["plan"] == best else "" if row["fits"] else "dim" for row in rows],
    )


def _cells(row: Row) -> Iterator[str]:
    yield from (row["plan"], row["grid"], row["stack"])
    if row["fits"]:
        yield number(row[RATE])
        yield " to ".join(map(number, rate_interval(row)))
        yield quantity(row["step_time_s"], "s")
        yield number(row["tflops_per_device"])
        yield percent(row["mfu"])
    else:
        yield from (TOO_BIG, *[NOTHING] * 4)
    yield f"{row['peak_memory_bytes'] / 1e9:.3g} of {row['memory_capacity_bytes'] / 1e9:.4g}"


def rates_table(view: StudyView) -> Table:
    """Return the rate of each plan at each size as text; a dash where it does not fit."""
    return Table(
        f"{view.rate_unit} by number of {view.device}s",
        ("plan", *map(str, view.sizes)),
        [(plan, *cells) for plan, cells in rate_cells(view).items()],
        left=("plan",),
        gap=2,
    )


def rate_cells(view: StudyView) -> dict[str, list[str]]:
    """Return the rate of each plan at each size as text; a dash where it does not fit."""
    return {
        plan: [NOTHING if row[RATE] is None else number(row[RATE]) for row in rows] for plan, rows in view.rows.items()
    }


def summary_frame(view: StudyView) -> pd.DataFrame:
    """Return the columns `SUMMARY` of each plan at each size; NaN if a plan does not fit into memory."""
    return view.study.frame()[list(SUMMARY)]
