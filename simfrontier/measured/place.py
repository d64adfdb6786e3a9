"""Where a measured row stands in what was read."""

from __future__ import annotations

from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A line of a file (counted from 1), or, of a file that is no table, the `part` of it."""

    file: str
    line: int | None = None
    part: str = ""

    def __str__(self) -> str:
        """`FILE line N` or `FILE PART`."""
        if self.line is not None:
            return f"{self.file} line {self.line}"
        return f"{self.file} {self.part}".rstrip()

    @property
    def first(self) -> str:
        """What a message that counts rows adds to name the first; empty where a row has no line."""
        return "" if self.line is None else f", the first in line {self.line}"


NOWHERE = RowPlace("")
