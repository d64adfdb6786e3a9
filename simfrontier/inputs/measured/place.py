"""Place of a measured row in its file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A line of a file (counted from 1), or a named `part` of a file that is no table."""

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
        """Words that name the first row in a message that counts rows; empty if the row has no line."""
        return "" if self.line is None else f", the first in line {self.line}"


NOWHERE = RowPlace("")
