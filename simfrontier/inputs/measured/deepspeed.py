"""DeepSpeed's communication logger: its log (lines of calls, or tables of its summary), and its dictionary (JSON).

Format: deepspeedai/DeepSpeed, deepspeed/utils/comms_logging.py. A log prints sizes with two decimals of a unit of 1,024
bytes (convert_size), times in milliseconds with two decimals, rates in Gbit/s with two decimals: a time of 0.3 ms is
known to 2 % only. Size and rate give it more exactly: rate = factor x size / time, with the factor of the operation
(calc_bw_log). That time is taken where it agrees with the printed one and is more exact; see `Printed`. The dictionary
of `log_summary(return_dict=True)` has exact bytes and times, means without the outermost tenths.

Times are rank 0's own, its waiting for others included; the table of stragglers has the minimum over the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from annotated_types import Ge
from pydantic import Field

from simfrontier.base.io import External, NotNegative, log_text, read_json, typed
from simfrontier.inputs.measured.reading import Call, CallsOfRanks, Format, Reading, Setup, json_with, log_with
from simfrontier.inputs.measured.rows import CallKind

KINDS: Final[dict[str, CallKind]] = {
    "all_gather": "all_gather",
    "all_gather_base": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "inference_all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}
_CALL: Final = "comm op: "
_HEADER: Final = re.compile(r"Comm\. Op\s+Message Size\s+Count\s+Total (?:comm )?[Ll]at(?:ency)?\(ms\)\s")
_SECTION: Final = re.compile(r"[a-z_]{1,60}(?: \| \[Caller Func: [^\]]{1,200}\])?")
_NUMBER: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_NOT_WHOLE: Final = "no size or no time in it, as in a line that is cut short"
_HALF: Final = 0.005  # of the last of two decimals
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB", "EB")
_SIZE: Final = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,2})?) ?([KMGTPE]?B)")
_GBPS: Final = 8.0 / 1e6  # bytes per millisecond in Gbit/s


class PrintedSize(NamedTuple):
    """Message size in bytes, and its largest relative error: half of 0.01 of the printed unit; 0.0 if the size is
    printed in bytes."""

    num_bytes: int
    off: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A collective call as printed: `gbps` is factor x size / time, `bus_gbps` is (n - 1) / n of `gbps` (also for an
    all-reduce), where n is the number of ranks of the job, which need not be that of the call's group."""

    kind: CallKind
    devices: int
    milliseconds: float
    size: PrintedSize
    gbps: float
    bus_gbps: float

    def seconds(self) -> float:
        """Return the time computed from size and rate if exactly one of the possible factors agrees with the printed
        time, to half a unit of its last decimal, and the computed time is more exact; else the printed time, which may
        be 0."""
        if self.gbps > 0.0:
            off = self.size.off + _HALF / self.gbps  # largest relative error of the time that follows
            found = [factor * self.size.num_bytes * _GBPS / self.gbps for factor in self._factors()]
            agreeing = [each for each in found if abs(each - self.milliseconds) <= _HALF * 1.001 + each * off]
            if len(agreeing) == 1 and agreeing[0] * off < _HALF:
                return agreeing[0] / 1e3
        return self.milliseconds / 1e3

    def _factors(self) -> Iterable[int]:
        """Return the factors that calc_bw_log may have used. Until 2025 the factor of a reduce-scatter included the
        number of ranks, and in 2022 the factor of both a reduce-scatter and an all-gather was 2 (the lines in
        DeepSpeed's tutorial on the logger). The number of ranks is known only if the ratio of the two printed rates is
        (n - 1) / n for the number n of devices."""
        bus_gbps = self.gbps * (self.devices - 1) / self.devices
        of_all = (self.devices,) if abs(self.bus_gbps - bus_gbps) <= 2.0 * _HALF else ()
        match self.kind:
            case "all_reduce":
                return (2,)
            case "all_gather":
                return {2, *of_all}
            case "reduce_scatter":
                return {1, 2, *of_all}
            case _:
                return (1,)


class _Record(NamedTuple):
    """Calls of one operation and size: the mean over `num_calls` calls, or, with `is_least`, the minimum over the
    ranks. `rates`: (algbw, busbw) as printed for a single call, else None. `size` and `milliseconds` are None if the
    line is cut short."""

    key: Hashable
    op: str
    num_calls: int
    size: PrintedSize | None
    milliseconds: float | None
    rates: tuple[str, str] | None = None
    is_least: bool = False


def _add(calls: CallsOfRanks, record: _Record, devices: int, nodes: int | None) -> None:
    """Add a record to the calls, or count why it is left out. In debug mode the logger prints, after the name of an
    operation, the function that called the operation. The size logged for an all-gather is that of one rank's part."""
    size, milliseconds = record.size, record.milliseconds
    rates = [_number(rate) for rate in record.rates or ()]
    if size is None or milliseconds is None or None in rates:
        calls.leave_out(_NOT_WHOLE, record.num_calls)
        return
    kind, seconds = KINDS.get(record.op.partition(" | ")[0].strip()), milliseconds / 1e3
    if rates and kind is not None:
        gbps, bus_gbps = (rate or 0.0 for rate in rates)
        seconds = Printed(
            kind=kind, devices=devices, milliseconds=milliseconds, size=size, gbps=gbps, bus_gbps=bus_gbps
        ).seconds()
    whole = size.num_bytes * devices if kind == "all_gather" else size.num_bytes
    calls.add(record.key, record.op, Call(kind, devices, nodes, whole), seconds, record.num_calls)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


# ── logs ──


def read_deepspeed_log(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the collective calls of a log: from its lines of calls, or, if it has none, from the last summary of each
    operation and size. The number of devices comes from the setup. Raises InputError."""
    path = files[0]
    lines = log_text(path, "log of DeepSpeed's communication").splitlines()
    calls, devices = CallsOfRanks(), setup.devices_of(str(path))
    of_calls = [_record(line, number) for number, line in enumerate(lines) if _CALL in line]
    for record in of_calls or _last(_summary_records(lines)):
        _add(calls, record, devices, setup.nodes)
    return calls.reading(files, setup)


def _record(line: str, number: int) -> _Record:
    """Parse a line `comm op: NAME | time (ms): T | msg size: S | algbw (Gbps): A | busbw (Gbps): B`."""
    parts = (part.partition(":") for part in line[line.index(_CALL) :].split(" | "))
    fields = {name.strip(): value.strip() for name, _, value in reversed(list(parts))}
    return _Record(
        key=number,
        op=fields["comm op"],
        num_calls=1,
        size=_size(fields.get("msg size", "")),
        milliseconds=_number(fields.get("time (ms)", "")),
        rates=(fields.get("algbw (Gbps)", ""), fields.get("busbw (Gbps)", "")),
    )


def _summary_records(lines: Sequence[str]) -> Iterator[_Record]:
    """Yield the rows of all summary tables: below a table's header, each line with an operation's name is followed by
    indented lines, one for each message size."""
    inside, least, op = False, False, ""
    for number, line in enumerate(lines):
        words = line.split()
        if head := _HEADER.search(line):
            inside, least, op = True, "comm lat" in head[0], ""
        elif inside and _SECTION.fullmatch(line.strip()):
            op = line.strip()
        elif inside and op and line.startswith(" ") and len(words) in (6, 7) and words[-5].isdecimal():
            count, _, mean, third, last = words[-5:]
            yield _Record(
                key=number,
                op=op,
                num_calls=int(count),
                size=_size(" ".join(words[:-5])),
                milliseconds=_number(third if least else mean),
                rates=(third, last) if count == "1" and not least else None,  # the mean of a rate is no rate of means
                is_least=least,
            )
        elif line.strip():
            inside = False


def _last(records: Iterator[_Record]) -> list[_Record]:
    """Return one record for each operation and size: that of the straggler table if there is one, else the record with
    the most calls."""
    last: dict[tuple[str, PrintedSize | None], _Record] = {}
    for record in records:
        before = last.get((record.op, record.size))
        if before is None or record.is_least or not before.is_least or record.num_calls > before.num_calls:
            last[record.op, record.size] = record
    return list(last.values())


def _size(text: str) -> PrintedSize | None:
    """Parse a size such as `512.0 MB` or `0B`; None for any other text."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    unit = 1024 ** _UNITS.index(match[2])
    num_bytes = round(float(match[1]) * unit)
    return PrintedSize(num_bytes, _HALF * unit / num_bytes if unit > 1 and num_bytes else 0.0)


# ── dictionaries ──


class _Calls(External):
    """Calls of one size in the dictionary. `milliseconds` is the mean time, or, in `straggler_analysis`, the mean of
    the minimum over the ranks."""

    count: Annotated[int, Ge(1)]
    msg_size_bytes: Annotated[int, Ge(0)]


class _Means(_Calls):
    milliseconds: NotNegative = Field(alias="avg_latency_ms")


class _Least(_Calls):
    milliseconds: NotNegative = Field(alias="avg_comm_lat_ms")


class _Metadata(External):
    world_size: Annotated[int, Ge(2)]


class _Summary(External):
    summary: dict[str, dict[str, _Means]]
    straggler_analysis: dict[str, dict[str, _Least]] | None = None
    metadata: _Metadata


def read_deepspeed_summary(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the collective calls of a summary dictionary; the number of devices comes from the setup, by default all
    ranks of the job. Raises InputError."""
    where = str(files[0])
    top = typed(read_json(files[0], "summary of DeepSpeed's communication"), _Summary, where)
    devices = top.metadata.world_size if setup.devices is None else setup.devices_of(where)
    calls = CallsOfRanks()
    for op, sizes in (top.straggler_analysis or top.summary).items():
        for key, each in sizes.items():
            record = _Record((op, key), op, each.count, PrintedSize(each.msg_size_bytes), each.milliseconds)
            _add(calls, record, devices, setup.nodes)
    return calls.reading(files, setup)


LOG: Final = Format(
    name="deepspeed-log",
    title="logs of DeepSpeed's communication",
    recognises=log_with(rf"{_CALL}\S+ \| time \(ms\): |{_HEADER.pattern}|{_CALL}\S+ \| \[Caller Func"),
    read=read_deepspeed_log,
)
SUMMARY: Final = Format(
    name="deepspeed-summary",
    title="summaries of DeepSpeed's communication (JSON)",
    recognises=json_with(r'"tput_avg_gbps"\s*:'),
    read=read_deepspeed_summary,
)
