"""Readers of collective times in files that simfrontier writes: calibrations (TOML), and traces of real runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, cast

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import load_calibration
from simfrontier.core.trace import Span, Trace, axis_sizes, duration, read_perfetto
from simfrontier.inputs.measured.reading import Call, FileStart, Format, Reading, Setup
from simfrontier.inputs.measured.rows import CALL_KINDS, CallKind, RowPlace

REAL_MODES: Final = ("replay", "train")  # how the notes of a real trace begin
_AXES: Final = ("node", "package", "gcd")
_CALIBRATION_KEY: Final = re.compile(r"^(title\s*=|\[\[calls\]\])", re.MULTILINE)


def read_calibration(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the collective times of a calibration file; machine and library come from the setup. Raises InputError."""
    calibration = load_calibration(files[0])
    return Reading(files=tuple(files), rows=setup.rows_of(files[0], calibration.calls, calibration.source))


def _is_calibration(start: FileStart) -> bool:
    return not start.is_json and (start.path.suffix == ".toml" or _CALIBRATION_KEY.search(start.text) is not None)


def read_trace(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the collective times of a trace of a real run: for each kind of collective, group and size, the median over
    calls and ranks of the time from the moment when the last rank of the group was ready.

    Other work of the same step goes on at the same time, so these are times within a step, not of isolated collectives;
    for a call with scales, the bytes of the scales are counted, too. The library is the backend named in the trace, or
    "transfers" if explicit transfers carried out the collectives. Raises InputError, also for a simulated trace.
    """
    path = files[0]
    trace = read_perfetto(path)
    mode = trace.notes.get("mode", "")
    if not mode.startswith(REAL_MODES):
        raise InputError(f"{path}: a trace of mode {mode!r}, allowed: a real one ({' or '.join(REAL_MODES)})")
    sizes = _mesh(path, trace)
    is_native = trace.notes.get("collectives", "native") == "native"
    library = trace.notes.get("backend", "") if is_native else "transfers"
    times: dict[tuple[str, str, float], list[float]] = {}
    for span in (span for spans in trace.spans for span in spans if _is_timed(span)):
        times.setdefault((span.kind, span.axes, span.message_bytes), []).append(duration(span))
    rows = []
    for (kind, axes, num_bytes), several in sorted(times.items()):
        nodes, packages, gcds = (sizes.get(axis, 1) if axis in axes.split("+") else 1 for axis in _AXES)
        call = Call(cast(CallKind, kind), nodes * packages * gcds, nodes, round(num_bytes))
        place = RowPlace(str(path), part=f"{kind} over {axes}")
        rows.append(setup.row(str(path), call, median(several), nodes * packages, place, path.name, library))
    return Reading(files=(path,), rows=tuple(row for row in rows if row.devices > 1))


def _is_timed(span: Span) -> bool:
    return span.kind in CALL_KINDS and span.message_bytes >= 1.0 and duration(span) > 0.0


def _mesh(path: Path, trace: Trace) -> Mapping[str, int]:
    """Return the sizes of the mesh axes from the notes of a trace; they determine the nodes of a group's ranks. Raises
    InputError."""
    sizes = axis_sizes(trace)
    if not sizes or not set(sizes) <= set(_AXES):
        text = f"got {trace.notes.get('mesh', '')!r}, allowed: sizes of {', '.join(_AXES)}, which place the ranks"
        raise InputError(f"{path}: notes.mesh: {text}")
    return sizes


CALIBRATION: Final = Format(
    name="calibration", title="a calibration (TOML)", recognises=_is_calibration, read=read_calibration
)
TRACE: Final = Format(
    name="trace",
    title="a trace of a real run (JSON)",
    recognises=lambda start: start.text.startswith("{"),
    read=read_trace,
)
