"""Times of calls that several ranks report: the minimum over the ranks of a call, then the median over equal calls.

A rank that arrives early waits in the call for the others, and its time includes the waiting. The rank that arrives
last waits for none: the minimum is the time closest to that of the call alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from simfrontier.base.io import left_out
from simfrontier.inputs.measured.place import RowPlace
from simfrontier.inputs.measured.reading import Reading, Setup, name_of
from simfrontier.inputs.measured.rows import CallKind, CallRow

UNLIKE: Final = "ranks report different kinds or sizes"


class What(NamedTuple):
    """Identity of a call; calls that are equal in it become one row. `num_bytes`: the whole message."""

    kind: CallKind
    devices: int
    nodes: int | None
    num_bytes: int


class CallsOfRanks:
    """Calls of one or many files, by a key that all ranks of a call share, with counts of what was left out."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, tuple[What, float]] = {}
        self._unlike: set[Hashable] = set()
        self._left_out: Counter[str] = Counter()

    def add(self, key: Hashable, what: What, seconds: float) -> None:
        """Add a rank's time of a call."""
        known = self._calls.get(key)
        if known is None:
            self._calls[key] = (what, seconds)
        elif known[0] != what:
            self._unlike.add(key)
        elif seconds < known[1]:
            self._calls[key] = (what, seconds)

    @property
    def is_empty(self) -> bool:
        """Whether no call is known yet."""
        return not self._calls

    def leave_out(self, why: str, count: int = 1) -> None:
        """Count something that is no time of a call."""
        self._left_out[why] += count

    def reading(self, files: Sequence[Path], setup: Setup) -> Reading:
        """Return a row for each kind, group and size, and what was left out. Raises InputError if too little is
        left."""
        counts = self._left_out + Counter({UNLIKE: len(self._unlike)})
        return Reading(files=tuple(files), rows=self._rows(name_of(files), setup), said=left_out(counts))

    def _rows(self, name: str, setup: Setup) -> tuple[CallRow, ...]:
        """Return the rows; `name` stands for the files in places and sources."""
        alike: dict[What, list[float]] = {}
        for key, (what, seconds) in self._calls.items():
            if key not in self._unlike:
                alike.setdefault(what, []).append(seconds)
        if not alike:
            return ()
        machine, library = setup.machine_of(name), setup.library_of(name)
        return tuple(
            _row(name, what, median(alike[what]), machine, library, setup) for what in sorted(alike, key=_order)
        )


def _order(what: What) -> tuple[str, int, int, int]:
    return what.kind, what.devices, what.nodes or 0, what.num_bytes


def _row(name: str, what: What, seconds: float, machine: str, library: str, setup: Setup) -> CallRow:
    nodes = setup.nodes if what.nodes is None else what.nodes
    return CallRow(
        machine=machine,
        collective=what.kind,
        library=library,
        devices=what.devices,
        num_bytes=what.num_bytes,
        seconds=seconds,
        source=name,
        place=RowPlace(name, part=f"{what.kind} among {what.devices}"),
        nodes=nodes,
        packages=setup.packages_of(what.devices, nodes),
    )
