"""Output of the OSU micro-benchmarks of collectives: for each benchmark a header, then a table of sizes and times.

Format and meaning of sizes: osu-micro-benchmarks 3 to 7, c/util/osu_util.c (print_header, print_stats) and
c/mpi/collective. Latencies are averages over ranks, in microseconds. The size is one rank's part in bytes for an
all-gather, the part that one rank sends to one other rank for an all-to-all, and the whole input for the other
collectives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import log_text
from simfrontier.inputs.measured.reading import Call, Format, Reading, Setup, Unusable, counted_faults, log_with
from simfrontier.inputs.measured.rows import CallKind, CallRow, RowPlace

COLLECTIVES: Final[dict[str, CallKind]] = {
    "Allgather Latency Test": "all_gather",
    "Allreduce Latency Test": "all_reduce",
    "Reduce_scatter Latency Test": "reduce_scatter",
    "All-to-All Personalized Exchange Latency Test": "all_to_all",
    "Broadcast Latency Test": "broadcast",
}
PER_PEER: Final = ("all_gather", "all_to_all")  # sizes are of one rank's part: devices times that is the message
_HEADER: Final = re.compile(r"#\s*OSU\s+\S+\s(.*?\bTest|.*)")  # behind the test's name there is a version
_COLUMNS: Final = re.compile(r"#\s*Size\s(.*)")
_ROW: Final = re.compile(r"\s*([0-9]{1,18})\s+(\S+)(?:\s.*)?")
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]+)?")

_Entry = tuple[str, RowPlace, int, str]  # test, place, bytes, and the number behind the size, as printed


def read_osu(files: Sequence[Path], setup: Setup) -> Reading:
    """Read collective times; lines of other tests and lines without a time are left out.

    Machine, library and number of devices are not in the output and come from the setup. Sizes of 0 bytes move no data
    and give no rows. Raises InputError if nothing is left.
    """
    path = files[0]
    rows: list[CallRow] = []
    faults: list[Unusable] = []
    for entry in _entries(path):
        try:
            rows.append(_row(entry, path, setup))
        except Unusable as fault:
            faults.append(fault)
    if faults and not rows:
        raise faults[0]
    return Reading(files=(path,), rows=tuple(rows), said=counted_faults(faults, "line"))


def _row(entry: _Entry, path: Path, setup: Setup) -> CallRow:
    """Return the row of a line. Raises Unusable for a line without a time of a collective."""
    test, place, num_bytes, value = entry
    if test not in COLLECTIVES:
        raise Unusable(f"of {test}; {nearest(test, COLLECTIVES)}", where=str(place), why=f"of {test}")
    if not _NUMBER.fullmatch(value) or float(value) <= 0.0:
        raise Unusable(f"of {test} without a time above 0, allowed: microseconds", where=str(place))
    kind, devices = COLLECTIVES[test], setup.devices_of(str(path))
    call = Call(kind, devices, setup.nodes, num_bytes * (devices if kind in PER_PEER else 1))
    return setup.row(str(path), call, float(value) / 1e6, setup.packages, place, path.name)


def _entries(path: Path) -> Iterator[_Entry]:
    """Yield the lines of all tables. A table starts below `# Size` and ends before the first line that is not a table
    row."""
    test, inside, has_rows = "", False, False
    for number, line in enumerate(log_text(path, "OSU output").splitlines(), 1):
        place = RowPlace(str(path), number)
        if header := _HEADER.search(line):
            test, inside = header[1].strip(), False
        elif columns := _COLUMNS.fullmatch(line):
            _refuse_unit(columns[1].strip(), test, place)
            inside = True
        elif inside and (row := _ROW.fullmatch(line)):
            has_rows = True
            if int(row[1]) > 0:
                yield test, place, int(row[1]), row[2]
        elif not line.lstrip().startswith("#"):
            inside = False
    if not has_rows:
        raise InputError(
            f'{path}: no table of OSU micro-benchmarks in it, allowed: their output, with its "# Size" lines'
        )


def _refuse_unit(columns: str, test: str, place: RowPlace) -> None:
    """Raise InputError unless the first column after the size, from which the time is read, is in microseconds."""
    if not test:
        raise InputError(f'{place}: a table below no "# OSU ... Test" line, allowed: the whole output')
    if test in COLLECTIVES and "(us)" not in columns.split("  ")[0]:
        raise InputError(f'{place}: columns "{columns}", allowed: first a column in (us)')


FORMAT: Final = Format(
    name="osu",
    title="output of OSU micro-benchmarks",
    recognises=log_with(r"^#\s*OSU\s+\S+\s.*Test"),
    read=read_osu,
)
