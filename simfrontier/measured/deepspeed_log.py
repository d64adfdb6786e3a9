"""Reading what DeepSpeed's communication logger prints: a line for each call (`verbose`), or tables of its summary.

Format: deepspeedai/DeepSpeed, deepspeed/utils/comms_logging.py. Sizes are printed with two decimals of a unit of 1,024
bytes (convert_size), times in milliseconds with two decimals, rates in Gbit/s with two decimals: a time of 0.3 ms is
known to 2 % only. Size and rate say it better: rate = factor x size / time, with the factor of the operation
(calc_bw_log). That time is taken where it agrees with the printed one and is known better; see `Printed`.

Times are rank 0's own, its waiting for others included; the table of stragglers has the least over the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError, wrong
from simfrontier.io import log_text
from simfrontier.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.measured.deepspeed_ops import LEFT_OUT, kind_of_op, whole_bytes
from simfrontier.measured.printed_time import Printed, size_of
from simfrontier.measured.reading import Reading
from simfrontier.measured.rows import CallKind
from simfrontier.measured.setup import Setup
from simfrontier.records import dataclass

TITLE: Final = "log of DeepSpeed's communication"
CALL: Final = "comm op: "
HEADER: Final = re.compile(r"Comm\. Op\s+Message Size\s+Count\s+Total (?:comm )?[Ll]at(?:ency)?\(ms\)\s")
_SECTION: Final = re.compile(r"[a-z_]{1,60}(?: \| \[Caller Func: [^\]]{1,200}\])?")
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_NOT_WHOLE: Final = "no size or no time in it, as in a line that is cut short"
_UNTIMED: Final = "of 0.00 ms, which no rate says better"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of a summary: calls of one operation and size. `least`: whether times are the least over the ranks."""

    place: str
    op: str
    size: str
    count: int
    cells: tuple[str, ...]
    least: bool


def read_deepspeed_log(path: Path, setup: Setup) -> Reading:
    """The calls of a log: of its lines, or, where it has none, of the last summary of each operation and size. The
    devices come from the setup. Raises InputError: one line that names file, line and fault."""
    lines = log_text(path, TITLE).splitlines()
    calls, devices = CallsOfRanks(), setup.devices_of(str(path))
    of_calls = [(number, line) for number, line in enumerate(lines, 1) if CALL in line]
    for number, line in of_calls:
        _read_call(calls, line, f"{path} line {number}", devices, setup)
    if not of_calls:
        _read_summary(calls, str(path), lines, devices, setup)
    return calls.reading([path], setup)


def _read_call(calls: CallsOfRanks, line: str, place: str, devices: int, setup: Setup) -> None:
    """A line `comm op: NAME | time (ms): T | msg size: S | algbw (Gbps): A | busbw (Gbps): B`."""
    fields: dict[str, str] = {}
    for part in line[line.index(CALL) :].split(" | "):
        name, _, value = part.partition(":")
        fields.setdefault(name.strip(), value.strip())
    missing = [name for name in ("time (ms)", "msg size", "algbw (Gbps)", "busbw (Gbps)") if name not in fields]
    kind = kind_of_op(fields["comm op"])
    if missing:
        calls.leave_out(_NOT_WHOLE)
    elif kind is None:
        calls.leave_out(f"{fields['comm op']}, {LEFT_OUT}")
    else:
        try:
            time, rate, bus = (_number(fields[name]) for name in ("time (ms)", "algbw (Gbps)", "busbw (Gbps)"))
            size = size_of(fields["msg size"])
        except InputError:
            calls.leave_out(_NOT_WHOLE)
            return
        printed = Printed(kind=kind, devices=devices, milliseconds=time, size=size, gbps=rate, bus_gbps=bus)
        _add(calls, place, kind, size.num_bytes, printed.seconds(), devices, setup)


def _read_summary(calls: CallsOfRanks, where: str, lines: list[str], devices: int, setup: Setup) -> None:
    last: dict[tuple[str, str], _Row] = {}
    for row in _rows(where, lines):
        before = last.get((row.op, row.size))
        if before is None or row.least or not before.least or row.count > before.count:
            last[row.op, row.size] = row
    for row in last.values():
        kind = kind_of_op(row.op)
        if kind is None:
            calls.leave_out(f"{row.op}, {LEFT_OUT}", row.count)
            continue
        try:
            size, seconds = size_of(row.size), _seconds_of(row, kind, devices)
        except InputError:
            calls.leave_out(_NOT_WHOLE, row.count)
            continue
        _add(calls, row.place, kind, size.num_bytes, seconds, devices, setup)


def _seconds_of(row: _Row, kind: CallKind, devices: int) -> float | None:
    """The time of a call of a row; None where it is 0. Raises InputError."""
    milliseconds = _number(row.cells[2 if row.least else 1])
    if row.count > 1 or row.least:  # the mean of a rate is not the rate of the mean
        return milliseconds / 1e3
    size, (rate, bus) = size_of(row.size), map(_number, row.cells[2:4])
    return Printed(kind=kind, devices=devices, milliseconds=milliseconds, size=size, gbps=rate, bus_gbps=bus).seconds()


def _rows(where: str, lines: list[str]) -> Iterator[_Row]:
    """The rows of all summaries: below a head, a line with an operation's name, and indented lines of its sizes."""
    inside, least, op = False, False, ""
    for number, line in enumerate(lines, 1):
        words = line.split()
        if head := HEADER.search(line):
            inside, least, op = True, "comm lat" in head[0], ""
        elif inside and _SECTION.fullmatch(line.strip()):
            op = line.strip()
        elif inside and op and line.startswith(" ") and len(words) in (6, 7):
            cells = words[-5:]
            if not cells[0].isdecimal() or len(cells[0]) > 18:
                raise InputError(f"{where} line {number}: count: {wrong(cells[0], 'a whole number')}")
            size = " ".join(words[:-5])
            place = f"{where} line {number}"
            yield _Row(place=place, op=op, size=size, count=int(cells[0]), cells=tuple(cells[1:]), least=least)
        elif line.strip():
            inside = False


def _add(
    calls: CallsOfRanks,
    place: str,
    kind: CallKind,
    num_bytes: int,
    seconds: float | None,
    devices: int,
    setup: Setup,
) -> None:
    if num_bytes == 0:
        calls.leave_out("no bytes")
    elif not seconds:
        calls.leave_out(_UNTIMED)
    else:
        whole = whole_bytes(kind, num_bytes, devices)
        calls.add(place, What(kind=kind, devices=devices, nodes=setup.nodes, num_bytes=whole), seconds)


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise InputError(wrong(text, "a number, 0 or more"))
    return float(text)
