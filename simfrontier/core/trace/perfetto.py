"""Trace files in the trace-event format, which Perfetto and chrome://tracing open: writing and reading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge
from pydantic import Field, ValidationError

from simfrontier.base.errors import InputError
from simfrontier.base.io import External, NotNegative, fault_of, text_of
from simfrontier.base.wholefile import write_whole
from simfrontier.core.trace.table import (
    Counter,
    Place,
    Process,
    Span,
    Trace,
    TraceFile,
    file_of,
    ranges_text,
    ranks_of_text,
)

FORMAT: Final = "simfrontier.trace"
VERSION: Final = 1
MICROSECOND: Final = 1e-6
JOB: Final = "links of the job"
Event = dict[str, Any]


def perfetto_text(trace: Trace | TraceFile) -> str:
    """Return the trace as JSON text; times are in microseconds, rounded to a nanosecond."""
    file = file_of(trace) if isinstance(trace, Trace) else trace
    other = {
        "format": FORMAT,
        "version": VERSION,
        "schedule_digest": file.digest,
        "title": file.title,
        "notes": dict(file.notes),
    }
    document = {"displayTimeUnit": "ms", "otherData": other, "traceEvents": list(_Events(file).all())}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def write_perfetto(trace: Trace | TraceFile, path: Path) -> None:
    """Write the trace to a file atomically. Raises InputError if the file cannot be written."""
    write_whole(path, perfetto_text(trace))


class _Events:
    """The trace events of a file, in the order of its processes."""

    def __init__(self, file: TraceFile) -> None:
        self.file = file
        used = dict.fromkeys(span.lane for process in file.processes for span in process.spans)
        self.lanes = {lane: number for number, lane in enumerate(used)}

    def all(self) -> Iterator[Event]:
        for number, process in enumerate(self.file.processes):
            yield _process_name(number, {"name": process.name, "members": ranges_text(process.members)})
            for lane, thread in self.lanes.items():
                yield {"ph": "M", "pid": number, "tid": thread, "name": "thread_name", "args": {"name": lane}}
            yield from self._spans(number, process)
            yield from self._counts(number, number)
        if any(counter.process is None for counter in self.file.counters):
            last = len(self.file.processes)
            yield _process_name(last, {"name": JOB, "holds": "counters"})
            yield from self._counts(None, last)
        for mark in self.file.marks:
            yield {"ph": "i", "s": "g", "pid": 0, "tid": 0, "name": mark.text, "ts": _microseconds(mark.time_s)}
        for number, arrow in enumerate(self.file.arrows):
            yield {"ph": "s", "id": number, **self._end(arrow.source)}
            yield {"ph": "f", "id": number, "bp": "e", **self._end(arrow.target)}  # bound to the span that it lies in

    def _spans(self, number: int, process: Process) -> Iterator[Event]:
        times = zip(process.ready_s.tolist(), process.start_s.tolist(), process.end_s.tolist(), strict=True)
        for span, each in zip(process.spans, times, strict=True):
            ready_us, start_us, end_us = map(_microseconds, each)
            # Ends are rounded like starts, so that neighbours on a lane never overlap.
            took_us = round(end_us - start_us, 3) + 0.0
            args = {
                "op": span.op,
                "kind": span.kind,
                "name": span.name,
                "call": span.call,
                "layer": span.layer,
                "micro_batch": span.micro,
                "bytes": span.num_bytes,
                "ready_us": ready_us,
            }
            if span.message_bytes:
                args["message_bytes"] = span.message_bytes
            if span.axes or span.level:
                args |= {"axes": span.axes, "level": span.level}
            yield {"ph": "X", "pid": number, **self._named(span), "ts": start_us, "dur": took_us, "args": args}

    def _named(self, span: Span) -> Event:
        title = f"{span.kind} {span.name}" if span.kind != span.name else span.kind
        return {"tid": self.lanes[span.lane], "name": title, "cat": span.level or "local"}

    def _end(self, place: Place) -> Event:
        """Return one end point of an arrow, located at the start of a span."""
        process = self.file.processes[place[0]]
        start_us = _microseconds(float(process.start_s[place[1]]))
        return {"pid": place[0], **self._named(process.spans[place[1]]), "ts": start_us}

    def _counts(self, of: int | None, number: int) -> Iterator[Event]:
        """Yield one event for each time of each counter of process `of` (None: counters of the whole job)."""
        for counter in self.file.counters:
            if counter.process == of:
                yield from _counter_events(counter, number)


def _counter_events(counter: Counter, number: int) -> Iterator[Event]:
    for time_s, *values in zip(counter.times_s, *counter.values.values(), strict=True):
        args = dict(zip(counter.values, values, strict=True))
        yield {"ph": "C", "pid": number, "name": counter.name, "ts": _microseconds(time_s), "args": args}


def _process_name(number: int, args: Event) -> Event:
    return {"ph": "M", "pid": number, "name": "process_name", "args": args}


def _microseconds(seconds: float) -> float:
    """Return seconds converted to microseconds, rounded to a nanosecond; 0.0 for -0.0."""
    return round(float(seconds) / MICROSECOND, 3) + 0.0


_Whole = Annotated[int, Ge(0)]


class _Other(External):
    format: Literal["simfrontier.trace"]
    version: Literal[1]
    schedule_digest: str
    title: str
    notes: dict[str, str]


class _Name(External):
    name: str
    members: str | None = None


class _Metadata(External):
    """A process, or one of its lanes."""

    ph: Literal["M"]
    name: Literal["process_name", "thread_name"]
    pid: _Whole
    tid: _Whole = 0
    args: _Name


class _SpanArgs(External):
    op: _Whole
    kind: str
    name: str
    call: str
    layer: _Whole
    micro_batch: _Whole
    num_bytes: NotNegative = Field(alias="bytes")
    ready_us: float
    message_bytes: NotNegative = 0.0
    axes: str = ""
    level: str = ""


class _SpanEvent(External):
    ph: Literal["X"]
    pid: _Whole
    tid: _Whole
    ts: float
    dur: float
    args: _SpanArgs


class _Drawn(External):
    """Counters, marks and the ends of arrows, which are derived from the rest."""

    ph: Literal["C", "i", "s", "f"]


class _File(External):
    otherData: _Other
    traceEvents: list[Annotated[_Metadata | _SpanEvent | _Drawn, Field(discriminator="ph")]]


def read_perfetto(path: Path) -> Trace:
    """Read a file written by `write_perfetto`; times are accurate to a nanosecond. Raises InputError for an invalid
    file."""
    try:
        file = _File.model_validate_json(text_of(path, "trace"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            raise InputError(f"not a trace: {first['msg']}", where=str(path)) from None
        raise fault_of(error, _File).within(str(path)) from None
    try:
        return _trace(file)
    except (KeyError, ValueError) as error:
        raise InputError(f"not a whole trace: {error}", where=str(path)) from None


def _trace(file: _File) -> Trace:
    """Return the trace in a file. Raises KeyError for a span in an unknown process or lane, and ValueError if a text of
    ranks is invalid."""
    names: dict[int, str] = {}
    members: dict[int, tuple[int, ...]] = {}
    lanes: dict[tuple[int, int], str] = {}
    spans: dict[int, list[Span]] = {}
    for event in file.traceEvents:
        match event:
            case _Metadata(name="thread_name"):
                lanes[event.pid, event.tid] = event.args.name
            case _Metadata() if event.args.members is not None:
                names[event.pid], spans[event.pid] = event.args.name, []
                members[event.pid] = ranks_of_text(event.args.members)
            case _SpanEvent():
                spans[event.pid].append(_span(event, lanes[event.pid, event.tid]))
    return Trace(
        digest=file.otherData.schedule_digest,
        title=file.otherData.title,
        ranks=tuple(names.values()),
        members=tuple(members.values()),
        spans=tuple(map(tuple[Span, ...], spans.values())),
        notes=file.otherData.notes,
    )


def _span(event: _SpanEvent, lane: str) -> Span:
    args = event.args
    ready, start, took = (round(microseconds * 1e3) for microseconds in (args.ready_us, event.ts, event.dur))
    return Span(
        op=args.op,
        lane=lane,
        kind=args.kind,
        name=args.name,
        axes=args.axes,
        level=args.level,
        call=args.call,
        layer=args.layer,
        micro=args.micro_batch,
        num_bytes=args.num_bytes,
        message_bytes=args.message_bytes,
        ready_s=ready / 1e9,
        start_s=start / 1e9,
        end_s=(start + took) / 1e9,
    )
