"""Calibrations as simfrontier writes them (TOML), as rows of times of calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from simfrontier.core.collectives import CallTable, load_calibration
from simfrontier.inputs.measured.format import FileStart, Format
from simfrontier.inputs.measured.place import RowPlace
from simfrontier.inputs.measured.reading import Reading, Setup
from simfrontier.inputs.measured.rows import CallRow

_KEY: Final = re.compile(r"^(title\s*=|\[\[calls\]\])", re.MULTILINE)


def read_calibration(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the times of calls of a calibration; machine and library come from the setup. Raises InputError."""
    calibration = load_calibration(files[0])
    return Reading(files=tuple(files), rows=rows_of(files[0], calibration.calls, setup, calibration.source))


def rows_of(path: Path, tables: Iterable[CallTable], setup: Setup, source: str) -> tuple[CallRow, ...]:
    """Return the points of tables of calls as rows; machine and library come from the setup. Raises InputError."""
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


def _recognises(start: FileStart) -> bool:
    return not start.is_json and (start.path.suffix == ".toml" or _KEY.search(start.text) is not None)


FORMAT: Final = Format(name="calibration", title="a calibration (TOML)", recognises=_recognises, read=read_calibration)
