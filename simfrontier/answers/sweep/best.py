"""The best rows of a data set: of each plan of each scenario, where it is fastest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simfrontier.answers.sweep.dataset import ROWS, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRow:
    """The row of a plan with the most tokens per second; the first of those with as many. `row`: all columns."""

    scenario: str
    plan: str
    row: dict[str, Any]


def best_rows(folder: Path) -> tuple[BestRow, ...]:
    """The best row of each plan of each scenario, in the order of the data set; none where it fits nowhere. Raises
    InputError for a folder that holds no data set."""
    import pyarrow.dataset as ds

    rows = read_rows(folder, ("scenario", "plan", "tokens_per_s")).to_pandas().dropna(subset=["plan", "tokens_per_s"])
    places = rows.groupby(["scenario", "plan"], sort=False)["tokens_per_s"].idxmax()
    found = ds.dataset(folder / ROWS).take(places.tolist()).to_pylist() if len(places) else []
    return tuple(BestRow(scenario=row["scenario"], plan=row["plan"], row=row) for row in found)
