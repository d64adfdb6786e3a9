"""Rows of calls that were read from a file, or from the files of all ranks of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.measured.rows import CallRow
from simfrontier.records import dataclass

LEAST_ROWS: Final = 2  # a single measurement shows no law, and nothing to compare it with


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Rows of a file, or of the files of all ranks of a job; `said`: what of them is no row, in sentences."""

    files: tuple[Path, ...]
    rows: tuple[CallRow, ...]
    said: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises InputError for fewer rows than `LEAST_ROWS`, with what was left out."""
        if len(self.rows) < LEAST_ROWS:
            got = "1 measurement" if self.rows else "no measurements"
            sentences = [f"{self.name}: {got}, allowed: {LEAST_ROWS} or more.", *self.said]
            raise InputError(" ".join(sentences).removesuffix("."))

    def with_missing_ranks(self) -> Reading:
        """The same of a job with a file for each rank, and a sentence where there are fewer than a group has ranks."""
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
    """Files, as messages name them: the first one, and how many more."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
