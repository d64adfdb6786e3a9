"""Export to the trace-event format that Perfetto and chrome://tracing open: a process per rank, a thread per lane."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from simfrontier.errors import InputError
from simfrontier.trace.table import Trace

MICROSECOND = 1e-6


def perfetto_events(trace: Trace) -> dict[str, Any]:
    """The trace as a JSON object; times in microseconds, rounded to a nanosecond."""
    events: list[dict[str, Any]] = []
    lanes = list(dict.fromkeys(span.lane for spans in trace.spans for span in spans))
    for rank, (who, spans) in enumerate(zip(trace.ranks, trace.spans, strict=True)):
        events.append({"ph": "M", "pid": rank, "name": "process_name", "args": {"name": who}})
        for number, lane in enumerate(lanes):
            events.append({"ph": "M", "pid": rank, "tid": number, "name": "thread_name", "args": {"name": lane}})
        for span in spans:
            label = f"{span.kind} {span.name}" if span.kind != span.name else span.kind
            args: dict[str, Any] = {"op": span.op, "call": span.call, "layer": span.layer, "micro_batch": span.micro}
            args |= {"bytes": span.num_bytes, "ready_us": round(span.ready_s / MICROSECOND, 3)}
            if span.axes:
                args |= {"axes": span.axes, "level": span.level}
            events.append(
                {
                    "ph": "X",
                    "pid": rank,
                    "tid": lanes.index(span.lane),
                    "name": label,
                    "cat": span.level or "local",
                    "ts": _rounded(span.start_s),
                    "dur": round(_rounded(span.end_s) - _rounded(span.start_s), 3),
                    "args": args,
                }
            )
    other = {"schedule_digest": trace.digest, "title": trace.title}
    return {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}


def _rounded(seconds: float) -> float:
    """Microseconds to a nanosecond; ends are rounded like starts, so that neighbours on a lane never overlap."""
    return round(seconds / MICROSECOND, 3)


def write_perfetto(trace: Trace, path: Path) -> None:
    """Write the trace; nothing half-written is left behind. Raises InputError where the file cannot be written."""
    text = json.dumps(perfetto_events(trace), separators=(",", ":"))
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
