"""A table of training runs that people published: one line a run, as its source tells it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.inputs.measured import Line, columns_of, read_lines

COLUMNS: Final = (
    *("machine", "system", "model_shape", "plan", "devices", "batch", "seq", "micro_batch", "checkpointing"),
    *("precision", "value", "unit", "notes"),
)
OPTIONAL: Final = ("status", "machine_as_told", "source")
VALUE: Final = "what was measured, a number above 0 in the row's unit"
_ABOUT: Final = re.compile(r"(?:about|approx\.?|ca\.?|~|≈)? ?([0-9][0-9,]*(?:\.[0-9]+)?) ?%?", re.IGNORECASE)
TABLE: Final = Path(__file__).parent / "end_to_end.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One published run: `value` is what was measured, in the row's own `unit` (NaN: no number above 0); the rest is
    text of the source.

    `number` counts the rows of the file from 0, `where` names file and line. `fault`: why the line is no row of the
    table.
    """

    number: int
    where: str
    value: float
    cells: Mapping[str, str]
    fault: str = ""

    def __getitem__(self, column: str) -> str:
        """The text of a column; empty where the table has no such column."""
        return self.cells.get(column, "")

    @property
    def unit(self) -> str:
        return self["unit"]

    @property
    def title(self) -> str:
        """Name of the run: machine, model, plan, devices."""
        model = self["model_shape"].split(" L=")[0]
        return f"{self['machine']}: {model}, {self['plan']}, {self['devices']} devices"


def read_runs(path: Path = TABLE) -> tuple[Run, ...]:
    """The runs of a CSV file that has `COLUMNS`. Raises InputError, one line, for a file that is no such table."""
    return tuple(_run(number, line) for number, line in enumerate(read_lines(path, COLUMNS, uneven=True)))


def _run(number: int, line: Line) -> Run:
    try:
        value = line.above_zero("value", VALUE)
    except InputError:
        value = _about(line.cells["value"])
    return Run(number=number, where=str(line.place), value=value, cells=line.cells, fault=line.uneven)


def _about(text: str) -> float:
    """A number that is written with commas, as about so much, or in percent; NaN where there is none above 0."""
    found = _ABOUT.fullmatch(text)
    value = math.nan if found is None else float(found[1].replace(",", ""))
    return value if 0.0 < value < math.inf else math.nan


def is_of_runs(path: Path) -> bool:
    """Return whether a CSV file has the columns of runs and not those of collectives."""
    return columns_of(path) >= {"model_shape", "plan", "unit"}
