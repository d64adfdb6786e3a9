"""Reading a trace file back: the inverse of `write_perfetto`; every fault is one InputError that names file and key.

Read value by value: a trace has millions, and no class of its events is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from simfrontier.errors import InputError, Key, shown, wrong
from simfrontier.io import read_json
from simfrontier.limits import RANK_NAMES
from simfrontier.trace.perfetto import COUNTERS, FORMAT, VERSION
from simfrontier.trace.ranges import ranks_of_text
from simfrontier.trace.table import Span, Trace

MAX_NUMBER: Final = 1e300  # far beyond anything measured
FLOWS: Final = ("s", "f")  # the two ends of an arrow
INSTANT: Final = "i"  # what happens to the whole job at a time
MAX_US: Final = 1e12  # 11 days; beyond, microseconds to a nanosecond are no longer exact in a float


def read_perfetto(path: Path) -> Trace:
    """The trace of a file that `write_perfetto` wrote, times to a nanosecond. Raises InputError: file, key, fault."""
    value = read_json(path, "trace")
    try:
        return _trace(value)
    except InputError as error:
        raise error.within(str(path)) from None


def _trace(value: Any) -> Trace:
    top = _object(value, ())
    if "otherData" not in top and "format" in top:
        raise InputError(wrong(top["format"], "a trace"), key=("format",))
    other = _object(_key(top, "otherData", ()), ("otherData",))
    if other.get("format") != FORMAT:
        raise InputError(f"{wrong(other.get('format'), shown(FORMAT))}, of a trace", key=("otherData", "format"))
    if other.get("version") != VERSION or isinstance(other["version"], bool):
        text = wrong(other.get("version"), f"{VERSION}, which this simfrontier reads")
        raise InputError(text, key=("otherData", "version"))
    notes = _object(_key(other, "notes", ("otherData",)), ("otherData", "notes"))
    events = _key(top, "traceEvents", ())
    if not isinstance(events, list):
        raise InputError(wrong(events, "a list"), key=("traceEvents",))
    processes = _Processes()
    for number, event in enumerate(events):
        processes.add(event, ("traceEvents", number))
    return Trace(
        digest=_text(other, "schedule_digest", ("otherData",)),
        title=_text(other, "title", ("otherData",)),
        ranks=tuple(processes.names),
        members=tuple(processes.members),
        spans=tuple(map(tuple, processes.spans)),
        notes={name: _text(notes, name, ("otherData", "notes")) for name in notes},
    )


class _Processes:
    """Ranks, lanes and spans, event by event; a rank is named before its lanes, a lane before its spans. Arrows,
    counters and marks are passed over: they follow from the rest."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.members: list[tuple[int, ...]] = []
        self.lanes: list[dict[int, str]] = []
        self.spans: list[list[Span]] = []
        self.taken: set[int] = set()
        self.without_ranks: set[int] = set()  # processes of nothing but counters

    def add(self, value: Any, at: Key) -> None:
        event, inside = _object(value, at), (*at, "args")
        process, what = _whole(event, "pid", at), (event.get("ph"), event.get("name"))
        if event.get("ph") in (*FLOWS, INSTANT):
            self._known(process, at)
            return
        args = _object(_key(event, "args", at), inside)
        if what == ("M", "process_name"):
            self._open(process, args, at)
        elif event.get("ph") == "C":
            if process not in self.without_ranks:
                self._known(process, at)
        elif what == ("M", "thread_name"):
            self._known(process, at)
            self.lanes[process][_whole(event, "tid", at)] = _text(args, "name", inside)
        elif event.get("ph") == "X":
            self._known(process, at)
            thread = _whole(event, "tid", at)
            if thread not in self.lanes[process]:
                raise InputError(f"got {thread}, which has no thread_name before it", key=(*at, "tid"))
            self.spans[process].append(_span(event, args, self.lanes[process][thread], at))
        else:
            text = f"got an event {shown(event.get('ph'))} {shown(event.get('name'))}"
            allowed = "X, C, i, s, f, M with process_name or thread_name"
            raise InputError(f"{text}, allowed: {allowed}", key=at)

    def _known(self, process: int, at: Key) -> None:
        """Refuse a process that is no rank's."""
        if process >= len(self.names):
            raise InputError(f"got {process}, which has no process_name before it", key=(*at, "pid"))

    def _open(self, process: int, args: Mapping[str, Any], at: Key) -> None:
        after = len(self.names) + len(self.without_ranks)
        if process != after or (self.without_ranks and args.get("holds") != COUNTERS):
            raise InputError(f"got {process}, allowed: {after}, the next process, ranks first", key=(*at, "pid"))
        if args.get("holds") == COUNTERS:
            self.without_ranks.add(process)
            return
        inside = (*at, "args")
        self.names.append(_text(args, "name", inside))
        try:
            members = ranks_of_text(_text(args, "members", inside))
        except ValueError as error:
            raise InputError(str(error), key=(*inside, "members")) from None
        if fault := RANK_NAMES.fault(len(self.taken) + len(members)):
            raise InputError(f"{fault} in all", key=(*inside, "members"))
        twice = self.taken.intersection(members)
        if twice:
            text = f"got rank {min(twice)} in two processes, allowed: every rank once"
            raise InputError(text, key=(*inside, "members"))
        self.taken.update(members)
        self.members.append(members)
        self.lanes.append({})
        self.spans.append([])


def _span(event: Mapping[str, Any], args: Mapping[str, Any], lane: str, at: Key) -> Span:
    inside = (*at, "args")
    start = _time(event, "ts", at)
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
        end_s=(start + _time(event, "dur", at)) / 1e9,
    )


def _time(values: Mapping[str, Any], key: str, at: Key) -> int:
    """Nanoseconds out of microseconds."""
    return round(_number(values, key, at, least=-MAX_US, most=MAX_US) * 1e3)


def _key(values: Mapping[str, Any], key: str, at: Key) -> Any:
    if key not in values:
        raise InputError("missing", key=(*at, key))
    return values[key]


def _object(value: Any, at: Key) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(wrong(value, "a table"), key=at)
    return cast("dict[str, Any]", value)


def _text(values: Mapping[str, Any], key: str, at: Key) -> str:
    value = _key(values, key, at)
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InputError(wrong(value, "a text that can be shown"), key=(*at, key))
    return value


def _whole(values: Mapping[str, Any], key: str, at: Key) -> int:
    value = _key(values, key, at)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise InputError(wrong(value, "a whole number of 0 or more"), key=(*at, key))
    return value


def _number(
    values: Mapping[str, Any], key: str, at: Key, least: float = -MAX_NUMBER, most: float = MAX_NUMBER
) -> float:
    """A finite number. An int of JSON may be longer than any float: it is compared before it becomes one."""
    value = _key(values, key, at)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(wrong(value, "a number"), key=(*at, key))
    if not least <= value <= most:
        raise InputError(wrong(value, f"{least:g} to {most:g}"), key=(*at, key))
    return float(value)
