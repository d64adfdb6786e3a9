"""The trace file: the trace-event format that Perfetto and chrome://tracing open, a process per rank, a thread per
lane, with all that a program needs to read it back.

An arrow is a flow event `s` at the start of the span that it leaves, and one `f` of the same id at the start of the
span that it reaches. These may be at one time: viewers then go by the order in the file, so arrows follow all spans.
Counters that are not a rank's are those of a process of their own, the last one. A mark is a global instant event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simfrontier.trace.ranges import ranges_text
from simfrontier.trace.table import Span, Trace
from simfrontier.trace.trace_file import Counter, Place, Process, TraceFile, file_of
from simfrontier.wholefile import write_whole

if TYPE_CHECKING:
    from simfrontier.arrays import Floats

FORMAT: Final = "simfrontier.trace"
VERSION: Final = 1
MICROSECOND: Final = 1e-6
COUNTERS: Final = "counters"  # what a process without ranks has
LARGE: Final = 1e12  # nanoseconds; beyond, a product's rounding may reach 1e-3 of one
JOB: Final = "links of the job"


def perfetto_text(trace: Trace | TraceFile) -> str:
    """The trace as JSON; times in microseconds, rounded to a nanosecond. Text by text: a file has some 100,000 events,
    which share most of theirs."""
    file = file_of(trace) if isinstance(trace, Trace) else trace
    other = {
        "format": FORMAT,
        "version": VERSION,
        "schedule_digest": file.digest,
        "title": file.title,
        "notes": dict(file.notes),
    }
    events = ",".join(_Events(file).all())
    return f'{{"displayTimeUnit":"ms","otherData":{_json(other)},"traceEvents":[{events}]}}'


def write_perfetto(trace: Trace | TraceFile, path: Path) -> None:
    """Write the trace; nothing half-written is left behind. Raises InputError where the file cannot be written."""
    write_whole(path, perfetto_text(trace))


class _Events:
    """The events of a file as text, process by process."""

    def __init__(self, file: TraceFile) -> None:
        self.file = file
        used = dict.fromkeys(span.lane for spans in _distinct(file.processes) for span in spans)
        self.lanes = {lane: number for number, lane in enumerate(used)}
        self.forms: dict[int, list[tuple[str, str, str]]] = {}  # by id of the list of spans
        self.texts: dict[str, str] = {}
        self.numbers: dict[float, str] = {}
        self.starts: list[list[float]] = []  # of every process, in microseconds

    def all(self) -> Iterator[str]:
        for number, process in enumerate(self.file.processes):
            named = {"name": process.name, "members": ranges_text(process.members)}
            yield _json({"ph": "M", "pid": number, "name": "process_name", "args": named})
            for lane, thread in self.lanes.items():
                yield _json({"ph": "M", "pid": number, "tid": thread, "name": "thread_name", "args": {"name": lane}})
            yield from self._spans(number, process)
            for counter in self.file.counters:
                if counter.process == number:
                    yield from self._counts(counter, number)
        of_job = [counter for counter in self.file.counters if counter.process is None]
        if of_job:
            last = len(self.file.processes)
            named = {"name": JOB, "holds": COUNTERS}
            yield _json({"ph": "M", "pid": last, "name": "process_name", "args": named})
            for counter in of_job:
                yield from self._counts(counter, last)
        for mark in self.file.marks:
            (at,) = _rounded([mark.time_s]).tolist()
            yield _json({"ph": "i", "s": "g", "pid": 0, "tid": 0, "name": mark.text, "ts": at})
        for number, arrow in enumerate(self.file.arrows):
            yield self._end("s", number, arrow.source)
            yield self._end("f", number, arrow.target)

    def _spans(self, number: int, process: Process) -> Iterator[str]:
        if id(process.spans) not in self.forms:
            self.forms[id(process.spans)] = [self._form(span) for span in process.spans]
        forms = self.forms[id(process.spans)]
        ready_us, start_us, end_us = (_rounded(each) for each in (process.ready_s, process.start_s, process.end_s))
        self.starts.append(start_us.tolist())
        times = (ready_us.tolist(), self.starts[-1], _nearest(end_us - start_us).tolist())
        for (named, said, rest), ready, start, took in zip(forms, *times, strict=True):
            yield f'{{"ph":"X","pid":{number},{named},"ts":{start!r},"dur":{took!r},{said}{ready!r}{rest}'

    def _end(self, kind: str, number: int, place: Place) -> str:
        """An end of an arrow: `e` says that it is bound to the span that it lies in, as is every `s`."""
        process, span = place
        named = self.forms[id(self.file.processes[process].spans)][span][0]
        bound = ',"bp":"e"' if kind == "f" else ""
        return f'{{"ph":"{kind}","id":{number}{bound},"pid":{process},{named},"ts":{self.starts[process][span]!r}}}'

    def _form(self, span: Span) -> tuple[str, str, str]:
        """What stands in the event of a span, and of arrows there, before its times, before its readiness and after
        it."""
        text = self._text
        title = f"{span.kind} {span.name}" if span.kind != span.name else span.kind
        named = f'"tid":{self.lanes[span.lane]},"name":{text(title)},"cat":{text(span.level or "local")}'
        said = (
            f'"args":{{"op":{span.op},"kind":{text(span.kind)},"name":{text(span.name)},"call":{text(span.call)},'
            f'"layer":{span.layer},"micro_batch":{span.micro},"bytes":{self._number(span.num_bytes)},"ready_us":'
        )
        rest = f',"message_bytes":{self._number(span.message_bytes)}' if span.message_bytes else ""
        if span.axes or span.level:
            rest += f',"axes":{text(span.axes)},"level":{text(span.level)}'
        return named, said, rest + "}}"

    def _text(self, text: str) -> str:
        known = self.texts.get(text)
        if known is None:
            known = self.texts[text] = _json(text)
        return known

    def _number(self, number: float) -> str:
        known = self.numbers.get(number)
        if known is None:
            known = self.numbers[number] = _json(number)
        return known

    def _counts(self, counter: Counter, number: int) -> Iterator[str]:
        """One event for each time."""
        name, *keys = (_json(text).replace("%", "%%") for text in (counter.name, *counter.values))
        args = ",".join(f"{key}:%r" for key in keys)
        form = f'{{"ph":"C","pid":{number},"name":{name},"ts":%r,"args":{{{args}}}}}'
        rows = zip(_rounded(counter.times_s).tolist(), *counter.values.values(), strict=True)
        return map(form.__mod__, rows)


def _distinct(processes: Sequence[Process]) -> list[Sequence[Span]]:
    """The lists of spans, each once."""
    return list({id(process.spans): process.spans for process in processes}.values())


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _rounded(seconds: Floats | Sequence[float]) -> Floats:
    """Microseconds to a nanosecond; ends are rounded like starts, so that neighbours on a lane never overlap."""
    import numpy as np

    times = np.asarray(seconds, float)
    assert np.isfinite(times).all(), "a time that is no finite number"
    return _nearest(times / MICROSECOND)


def _nearest(microseconds: Floats) -> Floats:
    """As Python's `round(each, 3)`, which tells halves apart that a product has rounded; and 0.0 for -0.0."""
    import numpy as np

    nanoseconds = 1e3 * microseconds
    whole = np.rint(nanoseconds)
    out: Floats = whole / 1e3
    is_close = np.abs(np.abs(nanoseconds - whole) - 0.5) < 1e-3
    for place in np.flatnonzero(is_close | (np.abs(nanoseconds) > LARGE)).tolist():
        out[place] = round(float(microseconds[place]), 3)
    return out + 0.0
