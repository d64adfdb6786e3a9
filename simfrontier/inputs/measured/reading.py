"""Rows of calls that were read from files, and facts that benchmarks do not print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError, Key
from simfrontier.base.io import left_out
from simfrontier.core.machine import is_machine, machine_named
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Facts that the user states; None where not stated. What a file says itself takes precedence."""

    machine: str | None = None
    library: str | None = None
    devices: int | None = None
    nodes: int | None = None
    packages: int | None = None

    def machine_of(self, name: str) -> str:
        """Return the machine, of a file that does not say it. Raises InputError."""
        if not self.machine:
            raise InputError(f"{name}: does not say on which machine, allowed: --machine NAME beside it")
        return self.machine

    def library_of(self, name: str, text: str = "") -> str:
        """Return the library; `text` is what the file says. Raises InputError if neither is known."""
        library = text or self.library
        if not library:
            raise InputError(f"{name}: does not say which library, allowed: --library NAME beside it")
        return library

    def devices_of(self, name: str) -> int:
        """Return the number of devices of a call, of a file that does not say it. Raises InputError."""
        if self.devices is None:
            raise InputError(f"{name}: does not say among how many devices, allowed: --devices N beside it")
        if self.devices < 2:
            raise InputError(f"{name}: --devices: got {self.devices}, allowed: 2 or more")
        return self.devices

    def packages_of(self, devices: int, nodes: int | None) -> int | None:
        """Return the number of packages of a group on so many nodes; None if not stated and not derivable.

        If only the nodes are stated, the devices of each node are on as few packages as the machine has for them.
        """
        if self.packages is not None or nodes is None or self.machine is None or not is_machine(self.machine):
            return self.packages
        return nodes * -(-(devices // nodes) // machine_named(self.machine).devices_per_package)
