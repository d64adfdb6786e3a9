"""Rows of calls that were read from a file, or from the files of all ranks of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError, Key
from simfrontier.base.io import left_out
from simfrontier.inputs.measured.rows import CallRow

LEAST_ROWS: Final = 2  # a single measurement shows no law, and nothing to compare it with


class Unusable(InputError):
    """A line, a run or a file that can be read but has no usable times. `why` groups such faults when they are
    counted."""

    def __init__(self, what: str, *, where: str = "", key: Key = (), why: str = "") -> None:
        super().__init__(what, where=where, key=key)
        self.why = why or what.partition(", allowed: ")[0]

    @property
    def said(self) -> str:
        """Sentence about a file that is left out because others have times."""
        return f"Left out: {self.where}: {self.why}."


def counted_faults(faults: Iterable[Unusable], noun: str) -> tuple[str, ...]:
    """Sentences on how many runs or lines are left out, and why."""
    return left_out(Counter(fault.why for fault in faults), noun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Rows of a file, or of the files of all ranks of a job; `said`: sentences about what was left out."""

    files: tuple[Path, ...]
    rows: tuple[CallRow, ...]
    said: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError for fewer rows than `LEAST_ROWS`, with what was left out."""
        if len(self.rows) < LEAST_ROWS:
            got = "1 measurement" if self.rows else "no measurements"
            sentences = [f"{self.name}: {got}, allowed: {LEAST_ROWS} or more.", *self.said]
            raise InputError(" ".join(sentences).removesuffix("."))

    def with_missing_ranks(self) -> Reading:
        """Return the reading with a sentence if there are fewer files than the largest group has ranks."""
        largest, number = max(row.devices for row in self.rows), len(self.files)
        if number >= largest:
            return self
        count = "a file of 1 rank" if number == 1 else f"files of {number:,} ranks"
        missing = "where the rank that came last is missing, times hold waiting"
        return replace(self, said=(*self.said, f"Read: {count}, of groups of up to {largest:,}: {missing}."))

    @property
    def path(self) -> Path:
        """The first file."""
        return self.files[0]

    @property
    def name(self) -> str:
        """The files, as messages name them."""
        return name_of(self.files)


def name_of(files: Sequence[Path]) -> str:
    """Name of files in messages: the first one, and how many more."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
