"""Reading a trace file back: the inverse of `write_perfetto`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge
from pydantic import Field, ValidationError

from simfrontier.base.errors import InputError
from simfrontier.base.io import External, NotNegative, fault_of, text_of
from simfrontier.core.trace.ranges import ranks_of_text
from simfrontier.core.trace.table import Span, Trace

_Whole = Annotated[int, Ge(0)]


class _Other(External):
    format: Literal["simfrontier.core.trace"]
    version: Literal[1]
    schedule_digest: str
    title: str
    notes: dict[str, str]


class _Name(External):
    name: str
    members: str | None = None


class _Metadata(External):
    """A process, or a lane of one."""

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
    """Counters, marks and the ends of arrows, which follow from the rest."""

    ph: Literal["C", "i", "s", "f"]


class _File(External):
    otherData: _Other
    traceEvents: list[Annotated[_Metadata | _SpanEvent | _Drawn, Field(discriminator="ph")]]


def read_perfetto(path: Path) -> Trace:
    """Read a file that `write_perfetto` wrote, times to a nanosecond. Raises InputError."""
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
    """Raises KeyError for a span in an unknown process or lane, ValueError for a text that is no ranks."""
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
