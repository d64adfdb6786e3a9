"""Reading what OSU micro-benchmarks print of collectives: a header per benchmark, then a table of sizes and times.

Format and the meaning of sizes: osu-micro-benchmarks 3 to 7, c/util/osu_util.c (print_header, print_stats) and
c/mpi/collective. Latencies are averages over ranks in microseconds. Sizes are bytes of one rank for an all-gather and
of one rank for one other in an all-to-all; the whole input for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError, nearest, wrong
from simfrontier.limits import LOG_LINE
from simfrontier.measured.csv_calls import refuse_too_few
from simfrontier.measured.csvfile import read_text
from simfrontier.measured.place import RowPlace
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
_HEADER: Final = re.compile(r"#\s*OSU\s+\S+\s(.*)")  # the rest is taken apart word by word, in linear time
_VERSION: Final = re.compile(r"v[0-9.]+$")
_COLUMNS: Final = re.compile(r"#\s*Size\s(.*)")
_ROW: Final = re.compile(r"\s*([0-9]{1,18})\s+(\S+)(?:\s.*)?")
_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One line of a table: what the benchmark calls itself, the size, and the number that is read."""

    test: str
    place: RowPlace
    num_bytes: int
    value: float


def read_osu(path: Path, setup: Setup) -> tuple[CallRow, ...]:
    """Times of collectives; machine, library and devices are not in the output and come from the setup.

    Sizes of 0 bytes are left out: they move nothing. Raises InputError: one line that names file, line and fault.
    """
    entries = list(_entries(path))
    for entry in entries:
        if entry.test not in COLLECTIVES:
            text = "is of copies between two devices" if entry.test in COPIES else nearest(entry.test, COLLECTIVES)
            raise InputError(f'{entry.place}: "{entry.test}": {text}; here collectives are expected')
    machine, library, devices = setup.machine_of(str(path)), setup.library_of(str(path)), setup.devices_of(str(path))
    rows = tuple(
        CallRow(
            machine=machine,
            collective=COLLECTIVES[entry.test],
            library=library,
            devices=devices,
            num_bytes=entry.num_bytes * (devices if COLLECTIVES[entry.test] in PER_PEER else 1),
            seconds=entry.value / 1e6,
            source=path.name,
            place=entry.place,
            nodes=setup.nodes,
            packages=setup.packages,
        )
        for entry in entries
    )
    refuse_too_few(rows, str(path))
    return rows


def _entries(path: Path) -> Iterator[_Entry]:
    """All lines of all tables. A table starts below `# Size` and ends with the first line that is no row of it."""
    test, inside, has_rows = "", False, False
    for number, line in enumerate(read_text(path, "OSU output").splitlines(), 1):
        place = RowPlace(str(path), number)
        if LOG_LINE.fault(len(line)):
            inside = False  # nothing that these benchmarks print
            continue
        if header := _HEADER.fullmatch(line):
            test, inside = _without_version(header[1]), False
        elif columns := _COLUMNS.fullmatch(line):
            _check_unit(columns[1].strip(), test, place)
            inside = True
        elif inside and (row := _ROW.fullmatch(line)):
            has_rows = True
            if int(row[1]) > 0:
                yield _Entry(test=test, place=place, num_bytes=int(row[1]), value=_value(row[2], test, place))
        elif not line.lstrip().startswith("#"):
            inside = False
    if not has_rows:
        raise InputError(
            f'{path}: no table of OSU micro-benchmarks in it, allowed: their output, with its "# Size" lines'
        )


def _without_version(text: str) -> str:
    """What a header says behind the first word, less the version at its end."""
    text = text.strip()
    version = _VERSION.search(text)
    return text if version is None else text[: version.start()].rstrip()


def _check_unit(columns: str, test: str, place: RowPlace) -> None:
    """The first column after the size is the one that is read."""
    if not test:
        raise InputError(f'{place}: a table below no "# OSU ... Test" line, allowed: the whole output')
    if test in COLLECTIVES and "(us)" not in columns.split("  ")[0]:
        raise InputError(f'{place}: columns "{columns}", allowed: first a column in (us)')


def _value(text: str, test: str, place: RowPlace) -> float:
    if not _NUMBER.fullmatch(text) or float(text) <= 0.0:
        raise InputError(f"{test}: {wrong(text, 'a number above 0')}", where=str(place))
    return float(text)
