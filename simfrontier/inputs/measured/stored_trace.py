"""Traces of real runs as simfrontier writes them (Perfetto's JSON), as rows of times of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, cast

from simfrontier.base.errors import InputError
from simfrontier.core.trace import Span, Trace, axis_sizes, duration, read_perfetto
from simfrontier.inputs.measured.format import FileStart, Format
from simfrontier.inputs.measured.place import RowPlace
from simfrontier.inputs.measured.reading import Reading, Setup
from simfrontier.inputs.measured.rows import CALL_KINDS, CallKind, CallRow

REAL_MODES: Final = ("replay", "train")  # how the notes of a real trace begin
_AXES: Final = ("node", "package", "gcd")
_Call = tuple[str, str, float]  # kind, axes, message bytes


def read_trace(files: Sequence[Path], setup: Setup) -> Reading:
    """Read times of the collectives of a real run: for each kind, group and size the median over its calls and ranks,
    from the moment when the last rank of the group was ready.

    Other work of the same step goes on meanwhile, so these are times in a step, not of calls alone; a call with scales
    counts their bytes too. The library is the noted backend, or "transfers" where the collectives were carried by
    explicit transfers. Raises InputError, for a simulated trace too.
    """
    path = files[0]
    trace = read_perfetto(path)
    mode = trace.notes.get("mode", "")
    if not mode.startswith(REAL_MODES):
        raise InputError(f"{path}: a trace of mode {mode!r}, allowed: a real one ({' or '.join(REAL_MODES)})")
    sizes = _mesh(path, trace)
    times: dict[_Call, list[float]] = {}
    for span in (span for spans in trace.spans for span in spans if _is_timed(span)):
        times.setdefault((span.kind, span.axes, span.message_bytes), []).append(duration(span))
    machine = setup.machine_of(str(path))
    library = setup.library_of(str(path), _library(trace))
    rows = (_row(path, call, median(several), sizes, machine, library) for call, several in sorted(times.items()))
    return Reading(files=(path,), rows=tuple(row for row in rows if row.devices > 1))


def _library(trace: Trace) -> str:
    """Return what carried the collectives, as the trace notes it; empty if it does not."""
    return trace.notes.get("backend", "") if trace.notes.get("collectives", "native") == "native" else "transfers"


def _is_timed(span: Span) -> bool:
    return span.kind in CALL_KINDS and span.message_bytes >= 1.0 and duration(span) > 0.0


def _mesh(path: Path, trace: Trace) -> Mapping[str, int]:
    """Sizes of the axes as the trace notes them; they say what a group's ranks are on. Raises InputError."""
    sizes = axis_sizes(trace)
    if not sizes or not set(sizes) <= set(_AXES):
        noted = trace.notes.get("mesh", "")
        raise InputError(
            f"{path}: notes.mesh: got {noted!r}, allowed: sizes of {', '.join(_AXES)}, which place the ranks"
        )
    return sizes


def _row(path: Path, call: _Call, seconds: float, sizes: Mapping[str, int], machine: str, library: str) -> CallRow:
    kind, axes, message_bytes = call
    nodes, packages, gcds = (sizes.get(axis, 1) if axis in axes.split("+") else 1 for axis in _AXES)
    return CallRow(
        machine=machine,
        collective=cast(CallKind, kind),
        library=library,
        devices=nodes * packages * gcds,
        num_bytes=round(message_bytes),
        seconds=seconds,
        source=path.name,
        place=RowPlace(str(path), part=f"{kind} over {axes}"),
        nodes=nodes,
        packages=nodes * packages,
    )


def _recognises(start: FileStart) -> bool:
    return start.text.startswith("{")


FORMAT: Final = Format(name="trace", title="a trace of a real run (JSON)", recognises=_recognises, read=read_trace)
