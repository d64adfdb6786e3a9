"""Events of a trace of PyTorch's profiler: JSON, plain or gzipped, of which one event at a time is in memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, Final

import ijson
from annotated_types import Ge
from pydantic import ConfigDict, Field

from simfrontier.base.errors import InputError, shown
from simfrontier.base.io import External, checked, reading
from simfrontier.base.limits import FILE
from simfrontier.core.trace import kineto as form

EVENTS: Final = "traceEvents"
HEAD: Final = ("distributedInfo", "deviceProperties", form.OWN)
_GZIP: Final = b"\x1f\x8b"


class EventArgs(External):
    """The `args` of an event that are read; numbers may stand in texts."""

    model_config = ConfigDict(strict=False)

    correlation: int | None = None
    stream: int | str | None = None
    collective: str | None = Field(default=None, alias=form.COLLECTIVE)
    dtype: str | None = Field(default=None, alias=form.DTYPE)
    in_elements: Annotated[int, Ge(0)] | None = Field(default=None, alias=form.IN_ELEMENTS)
    out_elements: Annotated[int, Ge(0)] | None = Field(default=None, alias=form.OUT_ELEMENTS)
    group_size: Annotated[int, Ge(1)] | None = Field(default=None, alias=form.GROUP_SIZE)
    group_name: int | str = Field(default="", alias=form.GROUP_NAME)
    group_ranks: str | list[int] | None = Field(default=None, alias=form.GROUP_RANKS)
    sequence: int | None = Field(default=None, alias=form.SEQUENCE)
    source_rank: int | None = Field(default=None, alias=form.SOURCE_RANK)
    target_rank: int | None = Field(default=None, alias=form.TARGET_RANK)
    wait_stream: int | str | None = Field(default=None, alias=form.WAIT_STREAM)
    wait_record: int | None = Field(default=None, alias=form.WAIT_RECORD)
    own: dict[str, Any] | None = Field(default=None, alias=form.OWN)


class TraceEvent(External):
    """An event with a duration; times in microseconds."""

    model_config = ConfigDict(strict=False)

    name: str
    pid: int | str | None = None
    tid: int | str | None = None
    begin_us: float = Field(alias="ts")
    lasts_us: Annotated[float, Ge(0)] = Field(default=0.0, alias="dur")
    args: EventArgs = EventArgs()

    @property
    def end_us(self) -> float:
        return self.begin_us + self.lasts_us

    @property
    def correlation(self) -> int | None:
        """Number that a launch and its kernel share; None if the event has none."""
        return None if self.args.correlation in (None, 0, -1) else self.args.correlation

    @property
    def stream(self) -> str:
        return str(self.tid if self.args.stream is None else self.args.stream)

    @property
    def thread(self) -> str:
        return f"{self.pid}/{self.tid}"


def event_of(raw: dict[str, Any], where: str) -> TraceEvent:
    """Return an event with checked types. Raises InputError."""
    try:
        event: TraceEvent = checked(raw, TraceEvent)
    except InputError as error:
        raise error.within(where) from None
    return event


def head_of(path: Path) -> dict[str, Any]:
    """Return the values that stand before the events, by their keys in `HEAD`. Raises InputError."""
    builders: dict[str, ijson.ObjectBuilder] = {}
    with _opened(path) as file:
        for prefix, event, value in ijson.parse(file, use_float=True):
            key = prefix.partition(".")[0]
            if key == EVENTS:
                return {name: builder.value for name, builder in builders.items()}
            if key in HEAD:
                builders.setdefault(key, ijson.ObjectBuilder()).event(event, value)
    raise InputError(f"no list {EVENTS}; allowed: a trace of PyTorch's profiler", where=str(path))


def events_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every event. Raises InputError for a file that is no trace, is cut short, or is larger than the limit."""
    with _opened(path) as file:
        for number, event in enumerate(ijson.items(file, f"{EVENTS}.item", use_float=True)):
            if not isinstance(event, dict):
                raise InputError(f"got {shown(event)}, allowed: an object", where=f"{path}: {EVENTS}[{number}]")
            yield event


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    """Open a file, unpacked if it is gzipped; faults that show while it is read become InputErrors."""
    try:
        with reading(path, "trace"), path.open("rb") as raw:
            if path.stat().st_size > FILE.most_bytes:
                text = f"a trace of {path.stat().st_size:,} bytes; allowed: up to {FILE.most_bytes:,}"
                raise InputError(text, where=str(path))
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if packed else nullcontext(raw) as file:
                yield file
    except (EOFError, zlib.error):
        raise InputError("cannot unpack this trace: it is cut short or damaged", where=str(path)) from None
    except ijson.JSONError as error:
        said = " ".join(str(error).split())[:100]
        raise InputError(f"not a trace of PyTorch's profiler: not JSON: {said}", where=str(path)) from None
