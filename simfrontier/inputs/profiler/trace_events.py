"""Events of a PyTorch profiler trace, read one at a time to save memory, and the steps in which they were launched."""

from __future__ import annotations

import gzip
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from statistics import median_high
from typing import Annotated, Any, Final, Literal

import ijson
from annotated_types import Ge
from pydantic import ConfigDict, Field

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import External, checked, reading, typed
from simfrontier.base.limits import FILE
from simfrontier.core.trace import kineto as form, ranges_text

EVENTS: Final = "traceEvents"
JOB: Final = "distributedInfo"
HEAD: Final = (JOB, "deviceProperties", form.OWN)
_GZIP: Final = b"\x1f\x8b"


class ProcessGroup(External):
    """A process group of the job; its ranks may be cut short, or written as text."""

    model_config = ConfigDict(strict=False)

    name: int | str = Field(default="", alias="pg_name")
    size: int | None = Field(default=None, alias="pg_size")
    ranks: str | list[int] | None = None
    backend: str | None = Field(default=None, alias="backend_config")


class JobInfo(External):
    """The trace's place in its job."""

    rank: Annotated[int, Ge(0)] = 0
    num_ranks: Annotated[int, Ge(1)] | None = Field(default=None, alias="world_size")
    backend: str | None = None
    groups: tuple[ProcessGroup, ...] | None = Field(default=None, alias="pg_config")


class EventArgs(External):
    """Those of an event's `args` that are read; numbers may also be given as strings."""

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
    dims: list[Any] | None = Field(default=None, alias=form.DIMS)  # shapes of operands; [] for what is no tensor
    types: list[str] | None = Field(default=None, alias=form.TYPES)
    own: dict[str, Any] | None = Field(default=None, alias=form.OWN)


class TraceEvent(External):
    """An event with a duration; times in microseconds."""

    model_config = ConfigDict(strict=False)

    name: str
    category: str = Field(default="", alias="cat")
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
    """Return an event, validated from its JSON object. Raises InputError."""
    try:
        event: TraceEvent = checked(raw, TraceEvent)
    except InputError as error:
        raise error.within(where) from None
    return event


def head_of(path: Path) -> dict[str, Any]:
    """Return the values before the list of events in a trace file, by key in `HEAD`. Raises InputError."""
    builders: dict[str, ijson.ObjectBuilder] = {}
    with _opened(path) as file:
        for prefix, event, value in ijson.parse(file, use_float=True):
            key = prefix.partition(".")[0]
            if key == EVENTS:
                return {name: builder.value for name, builder in builders.items()}
            if key in HEAD:
                builders.setdefault(key, ijson.ObjectBuilder()).event(event, value)
    raise InputError(f"no list {EVENTS}; allowed: a trace of PyTorch's profiler", where=str(path))


def job_of(head: Mapping[str, Any], where: str) -> JobInfo:
    """Return the trace's place in its job. Raises InputError."""
    return typed(head.get(JOB, {}), JobInfo, where, (JOB,))


def events_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every event of a trace file. Raises InputError for a file that is not a trace, is cut short, or exceeds the
    size limit."""
    with _opened(path) as file:
        for number, event in enumerate(ijson.items(file, f"{EVENTS}.item", use_float=True)):
            if not isinstance(event, dict):
                raise InputError(f"got {shown(event)}, allowed: an object", where=f"{path}: {EVENTS}[{number}]")
            yield event


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    """Open a file, decompressing gzip; errors that occur while the file is read become InputErrors."""
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


_COMPLETE: Final = 0.9  # a step with a smaller share of the usual number of kernels was cut off by the profiler

MeasuredBy = Literal["period", "period of the next", "host", "kernels"]


@dataclass(slots=True)
class TraceStep:
    """A step as the host annotated it, and the events that were launched in it."""

    name: str
    begin_us: float
    end_us: float
    events: list[TraceEvent] = field(default_factory=list)

    @property
    def number(self) -> int | None:
        """Number of the step, from its name."""
        text = self.name.removeprefix(form.STEP_PREFIX)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None

    @property
    def last_end_us(self) -> float:
        return max(event.end_us for event in self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """Begin and end of a step in microseconds, and how they were measured: by the period of the step, by the period of
    the next step for the first step, or, for a step without neighbours, by the host's annotation or the span of the
    kernels."""

    begin_us: float
    end_us: float
    measured_by: MeasuredBy


@dataclass(frozen=True, eq=False)
class TraceSteps:
    """The steps of a trace in order of time; a single step without a name if the host annotated none."""

    steps: Sequence[TraceStep]
    where: str

    def taken(self, name: str | None) -> TraceStep:
        """Return the step with this name (`ProfilerStep#3`); without a name, the last complete step, preferably one
        whose previous step is also in the trace. Raises InputError for a step without kernels; the message names the
        steps that have kernels."""
        if name is None:
            if not self._with_kernels and self.steps[0].name:
                raise InputError("no kernel was launched in any step of this trace", where=self.where)
            complete = [step for step in self._with_kernels if self._is_complete(step)]
            with_period = (step for step in reversed(complete) if self._neighbour(step, -1) is not None)
            return next(with_period, (complete or self.steps)[-1])
        named = {step.name: step for step in self.steps if step.name}
        if name not in named:
            text = nearest(name, named) if named else "allowed: none, as the trace has no steps (ProfilerStep#0 ...)"
            raise InputError(f"step {shown(name)}: {text}", where=self.where)
        if not named[name].events:
            some = f"{form.STEP_PREFIX}{ranges_text(sorted(self._by_number))}" if self._by_number else "none"
            text = f"no kernel was launched in it; allowed: steps with kernels, here {some}"
            raise InputError(f"step {shown(name)}: {text}", where=self.where)
        return named[name]

    def window(self, step: TraceStep, on_device: bool) -> StepWindow:
        """Return begin and end of a step with kernels. For a job on the host, the step is exactly the host's
        annotation."""
        last_us = step.last_end_us
        before, behind = self._neighbour(step, -1), self._neighbour(step, 1)
        if on_device and before is not None and before.last_end_us < last_us:
            return StepWindow(begin_us=before.last_end_us, end_us=last_us, measured_by="period")
        if on_device and behind is not None and self._is_complete(behind) and last_us < behind.last_end_us:
            begin_us = last_us - (behind.last_end_us - last_us)
            return StepWindow(begin_us=begin_us, end_us=last_us, measured_by="period of the next")
        first_us = min(event.begin_us for event in step.events)
        if first_us >= step.begin_us and last_us <= step.end_us:
            return StepWindow(begin_us=step.begin_us, end_us=step.end_us, measured_by="host")
        begin_us = min(first_us, last_us - (step.end_us - step.begin_us))
        return StepWindow(begin_us=begin_us, end_us=last_us, measured_by="kernels" if on_device else "host")

    @cached_property
    def _with_kernels(self) -> list[TraceStep]:
        return [step for step in self.steps if step.events]

    @cached_property
    def _by_number(self) -> dict[int, TraceStep]:
        return {step.number: step for step in self._with_kernels if step.number is not None}

    @cached_property
    def _usual_kernels(self) -> int:
        return median_high(len(step.events) for step in self._with_kernels)

    def _is_complete(self, step: TraceStep) -> bool:
        return len(step.events) >= _COMPLETE * self._usual_kernels

    def _neighbour(self, step: TraceStep, offset: int) -> TraceStep | None:
        """Return the step whose number is greater by `offset` than that of `step`, if that step has kernels; else
        None."""
        return None if step.number is None else self._by_number.get(step.number + offset)


def steps_of(
    annotated: Mapping[str, tuple[float, float]], launched: Iterable[tuple[float, TraceEvent]], where: str
) -> TraceSteps:
    """Return the steps of a trace, each with the events that were launched in it; `launched` holds the launch times."""
    if not annotated:
        events = [event for _, event in launched]
        begin_us = min((event.begin_us for event in events), default=0.0)
        end_us = max((event.end_us for event in events), default=0.0)
        return TraceSteps([TraceStep("", begin_us, end_us, events)], where)
    steps = sorted((TraceStep(name, *edges) for name, edges in annotated.items()), key=lambda step: step.begin_us)
    begins = [step.begin_us for step in steps]
    for launched_us, event in launched:
        place = bisect_right(begins, launched_us) - 1
        if place >= 0 and launched_us <= steps[place].end_us:
            steps[place].events.append(event)
    return TraceSteps(steps, where)
