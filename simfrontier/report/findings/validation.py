"""What a validation comes to: the rows that its lead is of, bounds that are missed, rows that are not predicted, and
what looks odd about a user's own files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from simfrontier.accuracy import (
    AVERAGED,
    EVERYTHING,
    ONLY_BOUNDED,
    UNSEEN,
    ComparedRow,
    Errors,
    Harness,
    JudgedBound,
    Summary,
    Use,
    Validation,
    harnesses_of,
    shipped_harnesses,
)
from simfrontier.measured import CallRow, Row
from simfrontier.records import dataclass
from simfrontier.report.findings.rows import row_name

MAX_REASONS = 4  # reasons for rows without a prediction that are listed
MAX_WORST = 12
# By which factor all times are off, and what they look like then; they are said to be where they come this close.
_UNITS: Final = ((1e3, "like milliseconds"), (1e6, "like microseconds"), (1e-3, "a thousand times too short"))
_CLOSE: Final = 2.5  # a program whose own time is not known may add as much


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpredicted:
    """Why rows are not predicted, and how many; `first`: the place of the first of a user's own rows."""

    why: str
    count: int
    first: str


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationFindings:
    """What follows from a validation. `errors`: of the rows that no fit had seen (`is_unseen`), if there are any, and
    `num_tables` that these are of; None where nothing can be averaged. `unbounded`: tables without a bound;
    `unpredicted`: the commonest reason first, `num_other` of those that are not listed. `pathologies` and `unknown`:
    rows by reason."""

    done: Validation
    errors: Errors | None
    is_unseen: bool
    num_tables: int
    missed: tuple[JudgedBound, ...]
    unbounded: tuple[Summary, ...]
    unpredicted: tuple[Unpredicted, ...]
    num_other: int
    worst: tuple[ComparedRow, ...]
    pathologies: Mapping[str, Sequence[ComparedRow]]
    unknown: Mapping[str, Sequence[ComparedRow]]

    def name_of(self, row: Row) -> str:
        """A row in words."""
        return row_name(row)


def validation_findings(done: Validation) -> ValidationFindings:
    """What follows from a validation."""
    overall = done.overall
    uses = UNSEEN if overall.unseen else AVERAGED
    bounded = {each.bound.table for each in done.judged_bounds}
    unpredicted = _unpredicted(done)
    averaged = [row for row in done.rows if row.is_averaged]
    return ValidationFindings(
        done=done,
        errors=overall.unseen or overall.errors,
        is_unseen=overall.unseen is not None,
        num_tables=len({row.table for row in averaged if row.use in uses}),
        missed=tuple(each for each in done.judged_bounds if not each.holds),
        unbounded=tuple(each for each in done.summaries[: len(done.tables)] if each.name not in bounded),
        unpredicted=unpredicted[:MAX_REASONS],
        num_other=sum(each.count for each in unpredicted[MAX_REASONS:]),
        worst=tuple(sorted(averaged, key=lambda row: -abs(row.error or 0.0))[:MAX_WORST]),
        pathologies=_by_reason(done, "pathology"),
        unknown=_by_reason(done, "no model"),
    )


def lines_of(summary: Summary) -> list[tuple[str, Errors | None]]:
    """The lines of a table of errors: of rows that no fit had seen, then apart from them fitted ones."""
    seen: tuple[Use, ...] = (*UNSEEN, "fitted")
    uses: list[tuple[str, Errors | None]] = [(use, summary.by_use[use]) for use in seen if use in summary.by_use]
    both = [use for use in UNSEEN if use in summary.by_use]
    if summary.name == EVERYTHING and len(both) > 1:
        return [(" + ".join(both), summary.unseen), *uses]
    return uses or [("", None)]


def wrong_units(done: Validation) -> list[WrongUnit]:
    """The tables whose times are, in the median, a thousand times the predicted ones or the like."""
    found = []
    for table in done.tables:
        ratios = [1.0 / (1.0 + row.error) for row in done.of(table.name) if row.error is not None]
        ratio = median(ratios) if ratios else 1.0
        for factor, looks in _UNITS:
            if abs(math.log(ratio / factor)) <= math.log(_CLOSE):
                found.append(WrongUnit(table=table.name, ratio=ratio, looks=looks))
    return found


def unknown_programs(done: Validation) -> UnknownPrograms:
    """The rows of unknown source that programs of shipped tables may have measured."""
    shipped, num_rows = shipped_harnesses(), 0
    programs: dict[str, Harness] = {}
    for held in done.rows:
        row = held.row
        if isinstance(row, CallRow) and held.prediction is not None and not harnesses_of(row, shipped):
            covering = [harness for harness in shipped if harness.may_cover(row)]
            programs |= {harness.name: harness for harness in covering}
            num_rows += bool(covering)
    return UnknownPrograms(num_rows=num_rows, programs=tuple(programs.values()))


def _unpredicted(done: Validation) -> tuple[Unpredicted, ...]:
    own = {table.name for table in done.tables if not table.citation}
    rows = [row for row in done.rows if row.use == "no model" and row.why != ONLY_BOUNDED]
    first: dict[str, str] = {}
    for row in rows:
        first.setdefault(row.why, row.row.place.first if row.table in own else "")
    common = Counter(row.why for row in rows).most_common()
    return tuple(Unpredicted(why=why, count=count, first=first[why]) for why, count in common)


def _by_reason(done: Validation, use: Use) -> dict[str, list[ComparedRow]]:
    found: dict[str, list[ComparedRow]] = {}
    for row in done.rows:
        if row.use == use and row.why != ONLY_BOUNDED:
            found.setdefault(row.why, []).append(row)
    return found
