"""Limits of what is read: one on the size of a file, one on its depth, and ranges of numbers that several packages
share. A reader counts before it expands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest number of something that is accepted."""

    most: int
    what: str
    why: str = ""

    def fault(self, got: int) -> str | None:
        """Return what is wrong with such a number, if anything."""
        return f"{got:,} {self.what}; allowed: up to {self.most:,}" if got > self.most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimit:
    """The largest number of bytes of a file."""

    most_bytes: int
    why: str = ""

    def read(self, path: Path) -> bytes:
        """Return all bytes of a file. Raises OSError, and ValueError where there are more than the limit."""
        with path.open("rb") as file:
            data = file.read(self.most_bytes + 1)
        if len(data) > self.most_bytes:
            raise ValueError(f"more than {self.most_bytes:,} bytes, which is the limit of a file")
        return data

    def text(self, path: Path) -> str:
        """Return the same as UTF-8 with any ends of lines; raises UnicodeDecodeError (a ValueError) for other bytes."""
        return self.read(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


FILE: Final = FileLimit(most_bytes=1 << 30)  # traces of a step with stacks of calls have some 100 MB
DEPTH: Final = 40  # levels of tables, lists or elements: scenarios have 5, XML dumps 8

COUNT: Final = Limit(most=1 << 40, what="of it")  # counts become sizes and products of sizes
SIZE: Final = Limit(most=1 << 62, what="elements or bytes")  # what a whole number of 8 bytes holds
RANKS: Final = Limit(most=1 << 21, what="ranks")  # 28 times Frontier; some arrays have an entry for every rank
NODES: Final = Limit(most=1 << 20, what="nodes")  # 100 times Frontier; some arrays have an entry for every node
DEVICES_OF_NODE: Final = Limit(most=128, what="devices")  # every pair of a node's devices has its route
NICS_OF_NODE: Final = Limit(most=128, what="NICs")  # nodes have up to 16; every device looks for its nearest
SWITCH_LEVELS: Final = Limit(most=32, what="levels of switches")  # networks have up to 5; a file may go in circles
KINETO_OPS: Final = Limit(most=200_000, what="kernels in the step of a rank")  # a step of 70B has 100,000

LARGEST: Final = 1e30  # of any number of a machine, library or table: far beyond the meaningful, far from overflow
SMALLEST: Final = 1e-30  # of those above zero, which are divided by
LARGEST_SD: Final = 3.0  # of the logarithm of a time: a factor of 20 either way
LARGEST_S: Final = 1e9  # of one time: thirty years
