"""Notes on a user's own files: times that look like another unit, and programs whose own time may be in
them."""

from __future__ import annotations

import math
from statistics import median
from typing import Final

from simfrontier.measured import CallRow
from simfrontier.report.phrases import number, quantity
from simfrontier.report.validation_text import counted
from simfrontier.validation import Harness, Validation, harnesses_of, shipped_harnesses

# By which factor all times are off, and what they look like then; they are said to be where they come this close.
_UNITS: Final = ((1e3, "like milliseconds"), (1e6, "like microseconds"), (1e-3, "a thousand times too short"))
_CLOSE: Final = 2.5  # a program whose own time is not known may add as much


def unit_notes(done: Validation) -> list[str]:
    """A warning for each table whose times are, in the median, a thousand times the predicted ones or the like."""
    parts = []
    for table in done.tables:
        ratios = [1.0 / (1.0 + row.error) for row in done.of(table.name) if row.error is not None]
        middle = median(ratios) if ratios else 1.0
        for factor, words in _UNITS:
            if abs(math.log(middle / factor)) <= math.log(_CLOSE):
                parts.append(
                    f"Warning: {table.name}: measured times are {number(middle)} times the predicted ones (median), "
                    f"which looks {words}: are times in seconds?"
                )
    return parts


def harness_notes(done: Validation) -> list[str]:
    """That no program's own time is added to rows of unknown source, where the shipped tables' programs add some."""
    shipped, num_rows = shipped_harnesses(), 0
    could: dict[str, Harness] = {}
    for held in done.rows:
        row = held.row
        if isinstance(row, CallRow) and held.prediction is not None and not harnesses_of(row, shipped):
            covering = [harness for harness in shipped if harness.may_cover(row)]
            could |= {harness.name: harness for harness in covering}
            num_rows += bool(covering)
    if not num_rows:
        return []
    return [
        f"No program’s own time is added to {counted(num_rows, 'row')}: the source is not known. The programs of the "
        f"shipped tables add: {'; '.join(map(_harness_words, could.values()))}. Add them with --harness NAME[,NAME]; "
        "--harness none says that there is nothing to add."
    ]


def _harness_words(harness: Harness) -> str:
    parts = [quantity(harness.base_s, "s")] if harness.base_s else []
    if harness.per_rank_s:
        parts.append(f"{quantity(harness.per_rank_s, 's')} per rank")
    if math.isfinite(harness.copy_bytes_per_s):
        parts.append(f"or a copy at {quantity(harness.copy_bytes_per_s, 'bytes/s')} where that takes longer")
    return f"{harness.name} ({harness.title}: {' '.join(parts)})"
