"""Output of DeepSpeed's communication logger: a line for each call (`verbose`), or tables of its summary.

Format: deepspeedai/DeepSpeed, deepspeed/utils/comms_logging.py. Sizes are printed with two decimals of a unit of 1,024
bytes (convert_size), times in milliseconds with two decimals, rates in Gbit/s with two decimals: a time of 0.3 ms is
known to 2 % only. Size and rate give it more exactly: rate = factor x size / time, with the factor of the operation
(calc_bw_log). That time is taken where it agrees with the printed one and is more exact; see `Printed`.

Times are rank 0's own, its waiting for others included; the table of stragglers has the minimum over the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from simfrontier.base.io import log_text
from simfrontier.inputs.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.inputs.measured.deepspeed_ops import LEFT_OUT, Printed, kind_of_op, size_of, whole_bytes
from simfrontier.inputs.measured.format import FileStart, Format
from simfrontier.inputs.measured.reading import Reading, Setup

CALL: Final = "comm op: "
HEADER: Final = re.compile(r"Comm\. Op\s+Message Size\s+Count\s+Total (?:comm )?[Ll]at(?:ency)?\(ms\)\s")
_RECOGNISED: Final = re.compile(rf"{CALL}\S+ \| time \(ms\): |{HEADER.pattern}|{CALL}\S+ \| \[Caller Func")
_SECTION: Final = re.compile(r"[a-z_]{1,60}(?: \| \[Caller Func: [^\]]{1,200}\])?")
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_NOT_WHOLE: Final = "no size or no time in it, as in a line that is cut short"
_RATES: Final = ("algbw (Gbps)", "busbw (Gbps)")


class _Record(NamedTuple):
    """Calls of one operation and size, as printed. `is_least`: the time is the minimum over the ranks. The time is
    the mean of `num_calls`, and rates are of a single call (None otherwise)."""

    place: str
    op: str
    size: str
    num_calls: int
    milliseconds: str
    rates: tuple[str, str] | None
    is_least: bool = False


def read_deepspeed_log(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the calls of a log: of its lines, or, if it has none, of the last summary of each operation and size. The
    devices come from the setup. Raises InputError."""
    path = files[0]
    lines = log_text(path, "log of DeepSpeed's communication").splitlines()
    calls, devices = CallsOfRanks(), setup.devices_of(str(path))
    of_calls = [_record(line, f"{path} line {number}") for number, line in enumerate(lines, 1) if CALL in line]
    for record in of_calls or _last(_summary_records(str(path), lines)):
        _add(calls, record, devices, setup)
    return calls.reading(files, setup)


def _record(line: str, place: str) -> _Record:
    """Parse `comm op: NAME | time (ms): T | msg size: S | algbw (Gbps): A | busbw (Gbps): B`."""
    parts = (part.partition(":") for part in line[line.index(CALL) :].split(" | "))
    fields = {name.strip(): value.strip() for name, _, value in reversed(list(parts))}
    rate, bus = (fields.get(name, "") for name in _RATES)
    return _Record(
        place=place,
        op=fields["comm op"],
        size=fields.get("msg size", ""),
        num_calls=1,
        milliseconds=fields.get("time (ms)", ""),
        rates=(rate, bus),
    )


def _summary_records(where: str, lines: Sequence[str]) -> Iterator[_Record]:
    """Yield the rows of all summaries: below a head, a line with an operation's name, and indented lines of its
    sizes."""
    inside, least, op = False, False, ""
    for number, line in enumerate(lines, 1):
        words = line.split()
        if head := HEADER.search(line):
            inside, least, op = True, "comm lat" in head[0], ""
        elif inside and _SECTION.fullmatch(line.strip()):
            op = line.strip()
        elif inside and op and line.startswith(" ") and len(words) in (6, 7) and words[-5].isdecimal():
            count, _, mean, third, last = words[-5:]
            yield _Record(
                place=f"{where} line {number}",
                op=op,
                size=" ".join(words[:-5]),
                num_calls=int(count),
                milliseconds=third if least else mean,
                rates=(third, last) if count == "1" and not least else None,  # the mean of a rate is no rate of means
                is_least=least,
            )
        elif line.strip():
            inside = False


def _last(records: Iterator[_Record]) -> list[_Record]:
    """Return one record for each operation and size: of tables of stragglers, else with the most calls."""
    last: dict[tuple[str, str], _Record] = {}
    for record in records:
        before = last.get((record.op, record.size))
        if before is None or record.is_least or not before.is_least or record.num_calls > before.num_calls:
            last[record.op, record.size] = record
    return list(last.values())


def _add(calls: CallsOfRanks, record: _Record, devices: int, setup: Setup) -> None:
    kind, size = kind_of_op(record.op), size_of(record.size)
    milliseconds = _number(record.milliseconds)
    rates = None if record.rates is None else [_number(rate) for rate in record.rates]
    if size is None or milliseconds is None or (rates is not None and None in rates):
        calls.leave_out(_NOT_WHOLE, record.num_calls)
        return
    if kind is None:
        calls.leave_out(f"{record.op}, {LEFT_OUT}", record.num_calls)
        return
    seconds: float | None = milliseconds / 1e3
    if rates is not None:
        gbps, bus_gbps = (rate or 0.0 for rate in rates)
        seconds = Printed(
            kind=kind, devices=devices, milliseconds=milliseconds, size=size, gbps=gbps, bus_gbps=bus_gbps
        ).seconds()
    if size.num_bytes == 0:
        calls.leave_out("no bytes")
    elif not seconds:
        calls.leave_out("of 0.00 ms, which no rate says better")
    else:
        whole = whole_bytes(kind, size.num_bytes, devices)
        calls.add(record.place, What(kind=kind, devices=devices, nodes=setup.nodes, num_bytes=whole), seconds)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _recognises(start: FileStart) -> bool:
    return _RECOGNISED.search(start.log) is not None


FORMAT: Final = Format(
    name="deepspeed-log",
    title="logs of DeepSpeed's communication",
    recognises=_recognises,
    read=read_deepspeed_log,
)
