"""Plausibility of a user's tables: times in another unit, and measuring programs that add to them unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from simfrontier.answers.accuracy.errors import grouped
from simfrontier.answers.accuracy.predictors.calls import Harness, harnesses_of, shipped_harnesses
from simfrontier.answers.accuracy.residual import Residual
from simfrontier.inputs.measured import CallRow, Row

# By which factor all times are off, and what they look like then; they are said to be where they come this close.
_UNITS: Final = ((1e3, "like milliseconds"), (1e6, "like microseconds"), (1e-3, "a thousand times too short"))
_CLOSE: Final = 2.5  # a program whose own time is not known may add as much


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongUnit:
    """A table whose times are, in the median, `ratio` times the predicted ones, and what they look like."""

    table: str
    ratio: float
    looks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPrograms:
    """Rows of unknown source to which no program's own time is added, and the programs that might have added some."""

    num_rows: int
    programs: tuple[Harness, ...]


def wrong_units(rows: Iterable[Residual[Row]]) -> Iterator[WrongUnit]:
    """The tables whose times are, in the median, a thousand times the predicted ones or the like."""
    for table, several in grouped(rows, lambda row: row.table).items():
        ratios = [1.0 / (1.0 + row.error) for row in several if row.error is not None]
        ratio = median(ratios) if ratios else 1.0
        for factor, looks in _UNITS:
            if abs(math.log(ratio / factor)) <= math.log(_CLOSE):
                yield WrongUnit(table=table, ratio=ratio, looks=looks)


def unknown_programs(rows: Iterable[Residual[Row]]) -> UnknownPrograms:
    """The rows of unknown source that programs of shipped tables may have measured."""
    shipped, num_rows = shipped_harnesses(), 0
    programs: dict[str, Harness] = {}
    for residual in rows:
        row = residual.row
        if isinstance(row, CallRow) and residual.prediction is not None and not harnesses_of(row, shipped):
            covering = [harness for harness in shipped if harness.may_cover(row)]
            programs |= {harness.name: harness for harness in covering}
            num_rows += bool(covering)
    return UnknownPrograms(num_rows=num_rows, programs=tuple(programs.values()))
