"""Harness terms: what a measuring program adds to the time of a collective, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import SOURCED, Derived, NotNegative, Positive, Text, read_toml, typed
from simfrontier.core.machine import Provenance, sources_of
from simfrontier.inputs.measured import CallRow

FILE = Path(__file__).parent / "harnesses.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """One thing that a program adds: a time per call, and a copy of every rank's block.

    The copies of the n blocks follow one another: each takes as long as starting it, or as its bytes.
    """

    name: Annotated[str, Derived("")]  # its key in the file
    title: Text
    source: str
    library: Text
    machine: Text
    collectives: tuple[str, ...]
    base_s: Annotated[NotNegative, SOURCED]
    per_rank_s: Annotated[NotNegative, SOURCED] = 0.0
    copy_bytes_per_s: Annotated[Positive, SOURCED] = math.inf
    provenance: Annotated[tuple[Provenance, ...], Derived(())] = ()

    def covers(self, row: CallRow) -> bool:
        """Return whether the row was measured by this program."""
        return row.source.startswith(self.source) and self.may_cover(row)

    def may_cover(self, row: CallRow) -> bool:
        """Return whether the row could have been measured by it, whatever its source says."""
        return (row.library, row.machine) == (self.library, self.machine) and row.collective in self.collectives

    def seconds(self, devices: int, num_bytes: float) -> float:
        """base + n max(per rank, c / copy), c = S/n."""
        block_s = num_bytes / devices / self.copy_bytes_per_s
        return self.base_s + devices * max(self.per_rank_s, block_s)


@lru_cache(maxsize=1)
def shipped_harnesses() -> tuple[Harness, ...]:
    """The harnesses of the shipped tables."""
    document = read_toml(FILE, "harness file")
    return tuple(
        replace(harness, name=name, provenance=tuple(sources_of(document[name], len, f"harness.{name}.")))
        for name, harness in typed(document, dict[str, Harness], str(FILE)).items()
    )


def named_harnesses(text: str) -> tuple[Harness, ...]:
    """The shipped harnesses of the names a,b ..., for rows of any source; of "none" no harness. Raises InputError."""
    shipped = {harness.name: harness for harness in shipped_harnesses()}
    names = [name.strip() for name in text.split(",")]
    if names == ["none"]:
        return ()
    for name in names:
        if name not in shipped:
            raise InputError(f"--harness: got {name!r}; {nearest(name, [*shipped, 'none'])}")
    return tuple(replace(shipped[name], source="") for name in dict.fromkeys(names))


def harnesses_of(row: CallRow, harnesses: tuple[Harness, ...]) -> tuple[Harness, ...]:
    """Return the harnesses that add to the time of a row."""
    return tuple(harness for harness in harnesses if harness.covers(row))
