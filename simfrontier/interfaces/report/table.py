"""Tables that are described once and shown both in the terminal (`cli.console.tell`) and on pages (the macro
`table`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

Cells = Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts with a row for each entry, whose first cell names the entry.

    `heads`: the column titles. Columns in `words` are aligned left and may wrap; columns in `left` are aligned left;
    all other columns contain numbers. `styles`: styles of the first rows: bold, dim or none ("").
    """

    title: str | None
    heads: Sequence[str]
    rows: Sequence[Cells]
    words: Collection[str] = ()
    left: Collection[str] = ()
    gap: int = 1
    styles: Sequence[str] = ()

    @property
    def styled(self) -> Iterator[tuple[Cells, str]]:
        """Yield each row with its style."""
        return zip(self.rows, chain(self.styles, repeat("")), strict=False)


def with_total(rows: Sequence[Cells], total: Cells, title: str, heads: Sequence[str]) -> Table:
    """Return a table whose last row, in bold, is the total of the other rows."""
    return Table(title, heads, [*rows, total], words=heads[:1], styles=[*[""] * len(rows), "bold"])
