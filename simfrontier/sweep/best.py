"""The best rows of a data set: of each plan of each scenario, where it is fastest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simfrontier.records import dataclass
from simfrontier.sweep.dataset import parts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BestRow:
    """The row of a plan with the most TFLOPS per device; the first of those with as many. `row`: all columns."""

    scenario: str
    plan: str
    row: dict[str, Any]


def best_rows(folder: Path) -> tuple[BestRow, ...]:
    """The best row of each plan of each scenario, in the order of the data set; none where it fits nowhere. Raises
    InputError for a folder that holds no data set."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for table in parts_of(folder):
        names = zip(table.column("scenario").to_pylist(), table.column("plan").to_pylist(), strict=True)
        first: dict[tuple[str, str], int] = {}
        rates = table.column("tokens_per_s").to_pylist()
        for place, name in enumerate(names):
            if name[1] is not None and rates[place] is not None and rates[place] > rates[first.setdefault(name, place)]:
                first[name] = place
        for name, place in first.items():
            row = table.slice(place, 1).to_pylist()[0]
            if name not in best or row["tokens_per_s"] > best[name]["tokens_per_s"]:
                best[name] = row
    return tuple(BestRow(scenario=scenario, plan=plan, row=row) for (scenario, plan), row in best.items())
