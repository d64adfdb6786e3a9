"""Times of calls that several ranks tell of: the least over the ranks of a call, then the median over calls alike.

A rank that comes early waits in the call for the others, and its time holds the waiting. The rank that comes last waits
for none: the least time of a call is the one closest to that of the call alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from simfrontier.io import left_out
from simfrontier.measured.place import RowPlace
from simfrontier.measured.reading import Reading, name_of
from simfrontier.measured.rows import CallKind, CallRow
from simfrontier.measured.setup import Setup

TWO_JOBS: Final = "told by more ranks than the group has, as by those of two jobs"
UNLIKE: Final = "ranks give different kinds or sizes"


class What(NamedTuple):
    """What a call is; calls of which all of this is the same become one row. `num_bytes`: the whole message."""

    kind: CallKind
    devices: int
    nodes: int | None
    num_bytes: int


class CallsOfRanks:
    """The calls of one or many files, by a key that is the same on all ranks of a call, and what was left out."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, tuple[What, float]] = {}
        self._unlike: set[Hashable] = set()
        self._too_often: set[Hashable] = set()
        self._left_out: Counter[str] = Counter()

    def refuse_repeats(self, ranks_of: Mapping[Hashable, int]) -> None:
        """Leave out calls that more ranks tell than are in their group; `ranks_of`: how many tell each, by its key."""
        self._too_often = {key for key, (what, _) in self._calls.items() if ranks_of.get(key, 0) > what.devices}

    def add(self, key: Hashable, what: What, seconds: float) -> None:
        """A rank's time of a call."""
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
        """Something that is no time of a call, and why."""
        self._left_out[why] += count

    def reading(self, files: Sequence[Path], setup: Setup) -> Reading:
        """A row for all calls alike, by kind, group and size, and what was left out. Raises InputError where too little
        is left."""
        counts = self._left_out + Counter({UNLIKE: len(self._unlike - self._too_often), TWO_JOBS: len(self._too_often)})
        return Reading(files=tuple(files), rows=self._rows(name_of(files), setup), said=left_out(counts))

    def _rows(self, name: str, setup: Setup) -> tuple[CallRow, ...]:
        """The rows; `name` is what places and sources call the files."""
        alike: dict[What, list[float]] = {}
        for key, (what, seconds) in self._calls.items():
            if key not in self._unlike and key not in self._too_often:
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
