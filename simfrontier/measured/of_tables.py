"""Rows out of files that other parts read: logs of nccl-tests, calibrations, and traces of real runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final, cast

from simfrontier.collectives import CallTable, load_calibration, read_log
from simfrontier.errors import InputError
from simfrontier.measured.place import RowPlace
from simfrontier.measured.reading import Reading
from simfrontier.measured.rows import CALL_KINDS, CallKind, CallRow
from simfrontier.measured.setup import Setup
from simfrontier.trace import Span, Trace, duration, read_perfetto

REAL_MODES: Final = ("replay", "train")  # how the notes of a real trace begin
_AXES: Final = ("node", "package", "gcd")
_Call = tuple[str, str, float]  # kind, axes, message bytes


def read_nccl_tests(path: Path, setup: Setup) -> Reading:
    """Times of a log of nccl-tests or rccl-tests, and what of it is left out; machine and library come from the setup.
    Raises InputError.

    A log does not say what packages its ranks are on: without `setup.packages` as many of the machine's as they fill.
    """
    log = read_log(path, setup.packages)
    rows = _rows(path, placed(log.tables, setup), setup, path.name)
    return Reading(files=(path,), rows=rows, said=log.left_out)


def placed(tables: Iterable[CallTable], setup: Setup) -> tuple[CallTable, ...]:
    """Tables of a log, the ranks of each node on as few packages as the machine has for them; as the log's reader has
    them where no known machine is told."""
    return tuple(
        replace(table, packages=setup.packages_of(table.ranks, table.nodes) or table.packages) for table in tables
    )


def read_calibration(path: Path, setup: Setup) -> Reading:
    """Times of calls of a calibration file; machine and library come from the setup. Raises InputError."""
    calibration = load_calibration(path)
    return Reading(files=(path,), rows=_rows(path, calibration.calls, setup, calibration.source))


def read_trace(path: Path, setup: Setup) -> Reading:
    """Times of the collectives of a real run: for each kind, group and size the median over its calls and ranks, from
    the moment when the last rank of the group was ready.

    Other work of the same step goes on meanwhile, so these are times in a step, not of calls alone; a call with scales
    counts their bytes too. The library is the noted backend, or "transfers" where the
    collectives were carried by explicit transfers. Raises InputError, for a simulated trace too.
    """
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
    rows = tuple(
        row
        for call, several in sorted(times.items())
        if (row := _traced(path, call, median(several), sizes, machine, library)) is not None
    )
    return Reading(files=(path,), rows=rows)


def _rows(path: Path, tables: Iterable[CallTable], setup: Setup, source: str) -> tuple[CallRow, ...]:
    machine, library = setup.machine_of(str(path)), setup.library_of(str(path))
    return tuple(
        CallRow(
            machine=machine,
            collective=table.kind,
            library=library,
            devices=table.ranks,
            num_bytes=point.bytes,
            seconds=point.seconds,
            source=source,
            place=RowPlace(str(path), part=f"{table.kind} among {table.ranks}"),
            nodes=table.nodes,
            packages=table.packages,
        )
        for table in tables
        for point in table.points
    )


def _library(trace: Trace) -> str:
    """What carried the collectives, as the trace notes it; "" where it does not."""
    return trace.notes.get("backend", "") if trace.notes.get("collectives", "native") == "native" else "transfers"


def _is_timed(span: Span) -> bool:
    return span.kind in CALL_KINDS and span.message_bytes >= 1.0 and duration(span) > 0.0


def _mesh(path: Path, trace: Trace) -> dict[str, int]:
    """Sizes of the axes as the trace notes them; they say what a group's ranks are on."""
    noted = trace.notes.get("mesh", "")
    parts = [part.rsplit(" ", 1) for part in noted.split(", ")]
    if any(len(part) != 2 or part[0] not in _AXES or not part[1].isdecimal() for part in parts):
        raise InputError(
            f"{path}: notes.mesh: got {noted!r}, allowed: sizes of {', '.join(_AXES)}, which place the ranks"
        )
    return {part[0]: int(part[1]) for part in parts}


def _traced(
    path: Path, call: _Call, seconds: float, sizes: Mapping[str, int], machine: str, library: str
) -> CallRow | None:
    """One kind of call; None where its group is of one rank."""
    kind, axes, message_bytes = call
    over = {axis: sizes.get(axis, 1) if axis in axes.split("+") else 1 for axis in _AXES}
    if over["node"] * over["package"] * over["gcd"] < 2:
        return None
    return CallRow(
        machine=machine,
        collective=cast(CallKind, kind),
        library=library,
        devices=over["node"] * over["package"] * over["gcd"],
        num_bytes=round(message_bytes),
        seconds=seconds,
        source=path.name,
        place=RowPlace(str(path), part=f"{kind} over {axes}"),
        nodes=over["node"],
        packages=over["node"] * over["package"],
    )
