"""The trace file: the trace-event format that Perfetto and chrome://tracing open, a process per rank, a thread per
lane, with all that a program needs to read it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from simfrontier.trace.ranges import ranges_text
from simfrontier.trace.table import Span, Trace
from simfrontier.wholefile import write_whole

FORMAT: Final = "simfrontier.trace"
VERSION: Final = 1
MICROSECOND: Final = 1e-6


def perfetto_events(trace: Trace) -> dict[str, Any]:
    """The trace as a JSON object; times in microseconds, rounded to a nanosecond."""
    events: list[dict[str, Any]] = []
    lanes = {lane: i for i, lane in enumerate(dict.fromkeys(span.lane for spans in trace.spans for span in spans))}
    for number, (who, members, spans) in enumerate(zip(trace.ranks, trace.members, trace.spans, strict=True)):
        named = {"name": who, "members": ranges_text(members)}
        events.append({"ph": "M", "pid": number, "name": "process_name", "args": named})
        for lane, thread in lanes.items():
            events.append({"ph": "M", "pid": number, "tid": thread, "name": "thread_name", "args": {"name": lane}})
        events += [_event(span, number, lanes[span.lane]) for span in spans]
    other = {
        "format": FORMAT,
        "version": VERSION,
        "schedule_digest": trace.digest,
        "title": trace.title,
        "notes": dict(trace.notes),
    }
    return {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}


def _event(span: Span, process: int, thread: int) -> dict[str, Any]:
    start, end = _rounded(span.start_s), _rounded(span.end_s)
    args: dict[str, Any] = {
        "op": span.op,
        "kind": span.kind,
        "name": span.name,
        "call": span.call,
        "layer": span.layer,
        "micro_batch": span.micro,
        "bytes": span.num_bytes,
        "ready_us": _rounded(span.ready_s),
    }
    if span.message_bytes:
        args["message_bytes"] = span.message_bytes
    if span.axes or span.level:
        args |= {"axes": span.axes, "level": span.level}
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": f"{span.kind} {span.name}" if span.kind != span.name else span.kind,
        "cat": span.level or "local",
        "ts": start,
        "dur": round(end - start, 3) + 0.0,
        "args": args,
    }


def _rounded(seconds: float) -> float:
    """Microseconds to a nanosecond; ends are rounded like starts, so that neighbours on a lane never overlap."""
    return round(seconds / MICROSECOND, 3) + 0.0  # -0.0 is 0.0


def write_perfetto(trace: Trace, path: Path) -> None:
    """Write the trace; nothing half-written is left behind. Raises InputError where the file cannot be written."""
    write_whole(path, json.dumps(perfetto_events(trace), separators=(",", ":"), allow_nan=False))
