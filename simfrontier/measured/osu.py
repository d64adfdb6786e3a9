"""Reading what OSU micro-benchmarks print of collectives: a header per benchmark, then a table of sizes and times.

Format and the meaning of sizes: osu-micro-benchmarks 3 to 7, c/util/osu_util.c (print_header, print_stats) and
c/mpi/collective. Latencies are averages over ranks in microseconds. Sizes are bytes of one rank for an all-gather and
of one rank for one other in an all-to-all; the whole input for the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from simfrontier.collectives import Unusable
from simfrontier.errors import InputError, nearest, wrong
from simfrontier.io import left_out, log_text
from simfrontier.measured.place import RowPlace
from simfrontier.measured.reading import Reading
from simfrontier.measured.rows import CallKind, CallRow
from simfrontier.measured.setup import Setup
from simfrontier.records import dataclass

COLLECTIVES: Final[dict[str, CallKind]] = {
    "Allgather Latency Test": "all_gather",
    "Allreduce Latency Test": "all_reduce",
    "Reduce_scatter Latency Test": "reduce_scatter",
    "All-to-All Personalized Exchange Latency Test": "all_to_all",
    "Broadcast Latency Test": "broadcast",
}
COPIES: Final = ("Bandwidth Test", "Bi-Directional Bandwidth Test", "Latency Test")
PER_PEER: Final = ("all_gather", "all_to_all")  # sizes are of one rank's part: devices times that is the message
_HEADER: Final = re.compile(r"#\s*OSU\s+\S+\s(.*?\bTest|.*)")  # behind the test's name there is a version
_COLUMNS: Final = re.compile(r"#\s*Size\s(.*)")
_ROW: Final = re.compile(r"\s*([0-9]{1,18})\s+(\S+)(?:\s.*)?")
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One line of a table: what the benchmark calls itself, the size, and the number that is read, as it is printed."""

    test: str
    place: RowPlace
    num_bytes: int
    value: str

    @property
    def fault(self) -> str:
        """Why the line gives no time; empty where it gives one."""
        if self.test not in COLLECTIVES:
            return f"of {self.test}"
        if not _NUMBER.fullmatch(self.value) or float(self.value) <= 0.0:
            return f"of {self.test} without a time above 0"
        return ""


def read_osu(path: Path, setup: Setup) -> Reading:
    """Return times of collectives; left out are lines of other tests and without a time.

    Machine, library and devices are not in the output and come from the setup. Sizes of 0 bytes move nothing and are no
    rows. Raises InputError where nothing is left: one line that names file, line and fault.
    """
    every = list(_entries(path))
    entries = [entry for entry in every if not entry.fault]
    if every and not entries:
        raise Unusable(_said(every[0]), where=str(every[0].place))
    said = left_out(Counter(entry.fault for entry in every if entry.fault), "line")
    machine, library, devices = setup.machine_of(str(path)), setup.library_of(str(path)), setup.devices_of(str(path))
    rows = tuple(
        CallRow(
            machine=machine,
            collective=COLLECTIVES[entry.test],
            library=library,
            devices=devices,
            num_bytes=entry.num_bytes * (devices if COLLECTIVES[entry.test] in PER_PEER else 1),
            seconds=float(entry.value) / 1e6,
            source=path.name,
            place=entry.place,
            nodes=setup.nodes,
            packages=setup.packages,
        )
        for entry in entries
    )
    return Reading(files=(path,), rows=rows, said=said)


def _said(entry: _Entry) -> str:
    """What is wrong with a line of a file that has no other ones."""
    if entry.test in COLLECTIVES:
        return f"{entry.test}: {wrong(entry.value, 'a number above 0')}"
    text = "is of copies between two devices" if entry.test in COPIES else nearest(entry.test, COLLECTIVES)
    return f'"{entry.test}": {text}; here collectives are expected'


def _entries(path: Path) -> Iterator[_Entry]:
    """All lines of all tables. A table starts below `# Size` and ends with the first line that is no row of it."""
    test, inside, has_rows = "", False, False
    for number, line in enumerate(log_text(path, "OSU output").splitlines(), 1):
        place = RowPlace(str(path), number)
        if header := _HEADER.search(line):
            test, inside = header[1].strip(), False
        elif columns := _COLUMNS.fullmatch(line):
            _check_unit(columns[1].strip(), test, place)
            inside = True
        elif inside and (row := _ROW.fullmatch(line)):
            has_rows = True
            if int(row[1]) > 0:
                yield _Entry(test=test, place=place, num_bytes=int(row[1]), value=row[2])
        elif not line.lstrip().startswith("#"):
            inside = False
    if not has_rows:
        raise InputError(
            f'{path}: no table of OSU micro-benchmarks in it, allowed: their output, with its "# Size" lines'
        )


def _check_unit(columns: str, test: str, place: RowPlace) -> None:
    """The first column after the size is the one that is read."""
    if not test:
        raise InputError(f'{place}: a table below no "# OSU ... Test" line, allowed: the whole output')
    if test in COLLECTIVES and "(us)" not in columns.split("  ")[0]:
        raise InputError(f'{place}: columns "{columns}", allowed: first a column in (us)')
