"""Rows that a fit is made to: of one library, on the machines asked for, without what no law explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from simfrontier.answers.accuracy.predictors.calls import lacking, other_place, shown_fault
from simfrontier.answers.accuracy.residual import NotCovered
from simfrontier.base.errors import InputError, nearest
from simfrontier.base.units import counted
from simfrontier.inputs.measured import CallRow, Pathology, call_faults

Reason = TypeVar("Reason", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRows:
    """Rows to fit to, and how many others are left out, by reason."""

    library: str
    machines: tuple[str, ...]
    rows: tuple[CallRow, ...]
    set_aside: Mapping[NotCovered, int]


def choose(rows: Sequence[CallRow], machines: Sequence[str], library: str | None, min_bytes: int) -> FitRows:
    """The rows of a library on these machines (none named: those of the rows, if they are of one).

    Raises InputError where the rows are of several and none is named, a name has no rows, or no row can be fitted to.
    """
    libraries = (library,) if library is not None else ()
    (one,) = named("library", (row.library for row in rows), libraries)
    of_library = [row for row in rows if row.library == one]
    where = named("machine", (row.machine for row in of_library), machines)
    faults = call_faults()
    kept, reasons = set_apart(rows, lambda row: _missing(row, one, where, min_bytes, faults))
    if not kept:
        missing, number = reasons.most_common(1)[0]
        raise InputError(f"none of {len(rows):,} rows can be fitted to: {missing} ({number:,})")
    return FitRows(library=one, machines=where, rows=tuple(kept), set_aside=dict(reasons))


def set_apart(
    rows: Iterable[CallRow], reason: Callable[[CallRow], Reason | None]
) -> tuple[list[CallRow], Counter[Reason]]:
    """The rows without a reason to leave them out, and how many others there are by reason."""
    kept: list[CallRow] = []
    others: Counter[Reason] = Counter()
    for row in rows:
        if (why := reason(row)) is None:
            kept.append(row)
        else:
            others[why] += 1
    return kept, others


def named(what: Literal["library", "machine"], there: Iterable[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The names asked for, all of which are there; without any the only one that is there. Raises InputError."""
    counts = Counter(there)
    for name in asked:
        if name not in counts:
            raise InputError(f"--{what}: no rows of {what} {name!r}, {nearest(name, counts)}")
    if not asked and len(counts) > 1:
        text = ", ".join(f"{name} ({counted(number, 'row')})" for name, number in counts.items())
        many = {"library": "libraries", "machine": "machines"}[what]
        raise InputError(f"the rows are of several {many}: {text}; allowed: one of them, --{what} NAME")
    return tuple(dict.fromkeys(asked or counts))


def _missing(
    row: CallRow, library: str, machines: Sequence[str], min_bytes: int, faults: Sequence[Pathology]
) -> NotCovered | None:
    """Why a row is not fitted to; None where it is."""
    if row.library != library or row.machine not in machines:
        return NotCovered(reason="of other libraries or machines")
    if row.num_bytes < min_bytes:
        return NotCovered(reason=f"below {min_bytes:,} bytes (--min-bytes)")
    if missing := lacking(row) or other_place(row):
        return missing
    fault = shown_fault(row, faults)
    return None if fault is None else NotCovered(reason=fault)
