"""Limits on input: the size of a file, its nesting depth, and ranges of numbers that several packages share. Readers
count entries before they expand them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Largest allowed number of something."""

    most: int
    what: str
    why: str = ""

    def fault(self, got: int) -> str | None:
        """Return the error message if a number exceeds the limit; None if it does not."""
        return f"{got:,} {self.what}; allowed: up to {self.most:,}" if got > self.most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimit:
    """Largest allowed size of a file in bytes."""

    most_bytes: int
    why: str = ""

    def read(self, path: Path) -> bytes:
        """Return the content of a file as bytes. Raises OSError, and ValueError if the file is larger than the
        limit."""
        with path.open("rb") as file:
            data = file.read(self.most_bytes + 1)
        if len(data) > self.most_bytes:
            raise ValueError(f"more than {self.most_bytes:,} bytes, which is the limit of a file")
        return data

    def text(self, path: Path) -> str:
        """Return the content of a file as UTF-8 text, with any line endings converted to newlines. Raises as `read`,
        and UnicodeDecodeError (a ValueError) for bytes that are not UTF-8."""
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
