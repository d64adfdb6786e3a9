"""Reading a trace file back: the inverse of `write_perfetto`; every fault is one InputError that names the place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from simfrontier.limits import RANK_NAMES
from simfrontier.trace.fields import Fault, read_json, shown
from simfrontier.trace.perfetto import FORMAT, VERSION
from simfrontier.trace.ranges import ranks_of_text
from simfrontier.trace.table import Span, Trace

MAX_US: Final = 1e12  # 11 days; beyond, microseconds to a nanosecond are no longer exact in a float


def read_perfetto(path: Path) -> Trace:
    """The trace of a file that `write_perfetto` wrote, times to a nanosecond. Raises InputError: file, place, fault."""
    return read_json(path, "trace", _trace)


def _trace(value: Any) -> Trace:
    top = _object(value, "the file")
    other = _object(_key(top, "otherData", "the file"), "otherData")
    if other.get("format") != FORMAT:
        raise Fault(f'not a trace of simfrontier: otherData.format is not "{FORMAT}"')
    if other.get("version") != VERSION or isinstance(other["version"], bool):
        raise Fault(f"version {shown(other.get('version'))}; this simfrontier reads version {VERSION}")
    notes = _object(_key(other, "notes", "otherData"), "otherData.notes")
    events = _key(top, "traceEvents", "the file")
    if not isinstance(events, list):
        raise Fault(f"traceEvents: {shown(events)} is not a list")
    processes = _Processes()
    for number, event in enumerate(events):
        processes.add(event, f"traceEvents[{number}]")
    return Trace(
        digest=_text(other, "schedule_digest", "otherData"),
        title=_text(other, "title", "otherData"),
        ranks=tuple(processes.names),
        members=tuple(processes.members),
        spans=tuple(map(tuple, processes.spans)),
        notes={name: _text(notes, name, "otherData.notes") for name in notes},
    )


class _Processes:
    """Ranks, lanes and spans, event by event; a rank is named before its lanes, a lane before its spans."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.members: list[tuple[int, ...]] = []
        self.lanes: list[dict[int, str]] = []
        self.spans: list[list[Span]] = []
        self.taken: set[int] = set()

    def add(self, value: Any, place: str) -> None:
        event = _object(value, place)
        args = _object(_key(event, "args", place), f"{place}.args")
        process, what = _whole(event, "pid", place), (event.get("ph"), event.get("name"))
        if what == ("M", "process_name"):
            self._open(process, args, place)
        elif process >= len(self.names):
            raise Fault(f"{place}.pid: {process} has no process_name before it")
        elif what == ("M", "thread_name"):
            self.lanes[process][_whole(event, "tid", place)] = _text(args, "name", f"{place}.args")
        elif event.get("ph") == "X":
            thread = _whole(event, "tid", place)
            if thread not in self.lanes[process]:
                raise Fault(f"{place}.tid: {thread} has no thread_name before it")
            self.spans[process].append(_span(event, args, self.lanes[process][thread], place))
        else:
            raise Fault(
                f"{place}: an event {shown(event.get('ph'))} {shown(event.get('name'))}; allowed: X, and M with "
                "process_name or thread_name"
            )

    def _open(self, process: int, args: Mapping[str, Any], place: str) -> None:
        if process != len(self.names):
            raise Fault(f"{place}.pid: {process} out of order; expected {len(self.names)}")
        self.names.append(_text(args, "name", f"{place}.args"))
        try:
            members = ranks_of_text(_text(args, "members", f"{place}.args"))
        except ValueError as error:
            raise Fault(f"{place}.args.members: {error}") from None
        if fault := RANK_NAMES.fault(len(self.taken) + len(members)):
            raise Fault(f"{place}.args.members: {fault} in all")
        twice = self.taken.intersection(members)
        if twice:
            raise Fault(f"{place}.args.members: rank {min(twice)} stands in two processes")
        self.taken.update(members)
        self.members.append(members)
        self.lanes.append({})
        self.spans.append([])


def _span(event: Mapping[str, Any], args: Mapping[str, Any], lane: str, place: str) -> Span:
    inside = f"{place}.args"
    start = _time(event, "ts", place)
    return Span(
        op=_whole(args, "op", inside),
        lane=lane,
        kind=_text(args, "kind", inside),
        name=_text(args, "name", inside),
        axes=_text(args, "axes", inside) if "axes" in args else "",
        level=_text(args, "level", inside) if "level" in args else "",
        call=_text(args, "call", inside),
        layer=_whole(args, "layer", inside),
        micro=_whole(args, "micro_batch", inside),
        num_bytes=_number(args, "bytes", inside, least=0.0),
        message_bytes=_number(args, "message_bytes", inside, least=0.0) if "message_bytes" in args else 0.0,
        ready_s=_time(args, "ready_us", inside) / 1e9,
        start_s=start / 1e9,
        end_s=(start + _time(event, "dur", place)) / 1e9,
    )


def _time(values: Mapping[str, Any], key: str, place: str) -> int:
    """Nanoseconds out of microseconds."""
    return round(_number(values, key, place, least=-MAX_US, most=MAX_US) * 1e3)


def _key(values: Mapping[str, Any], key: str, place: str) -> Any:
    if key not in values:
        raise Fault(f"{place}: key {key!r} is missing")
    return values[key]


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Fault(f"{place}: {shown(value)} is not an object")
    return cast("dict[str, Any]", value)


def _text(values: Mapping[str, Any], key: str, place: str) -> str:
    value = _key(values, key, place)
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Fault(f"{place}.{key}: {shown(value)} is not a text")
    return value


def _whole(values: Mapping[str, Any], key: str, place: str) -> int:
    value = _key(values, key, place)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise Fault(f"{place}.{key}: {shown(value)} is not a whole number of 0 or more")
    return value


def _number(values: Mapping[str, Any], key: str, place: str, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number. An int of JSON may be longer than any float: it is compared before it becomes one."""
    value = _key(values, key, place)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fault(f"{place}.{key}: {shown(value)} is not a number")
    if not least <= value <= most or abs(value) > 1e300:
        raise Fault(f"{place}.{key}: {shown(value)} is out of range")
    return float(value)
