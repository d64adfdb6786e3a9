"""CSV tables of times of collectives: one row per measurement, in the columns below; others may be there too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.inputs.measured.format import FileStart, Format
from simfrontier.inputs.measured.reading import Reading, Setup
from simfrontier.inputs.measured.rows import CallRow
from simfrontier.inputs.measured.table_file import read_rows

COLUMNS: Final = ("machine", "collective", "library", "devices", "bytes", "time_s", "source")
SLOW_S: Final = 10.0  # no collective of a cluster takes so long and moves so few bytes per second
SLOW_BYTES_PER_S: Final = 1e6


def read_calls(path: Path, called: str = "") -> tuple[CallRow, ...]:
    """Read the rows of a table, in the file's order; columns `nodes`, `packages`, `groups` (of devices: 0-2 1-3) and
    `read_off` are optional, and a row without a source has the file as its source.

    `called`: the file's name in messages and places, instead of its path. Raises InputError.
    """
    rows = read_rows(path, CallRow, COLUMNS, called, {"source": called or str(path)})
    for row in rows:
        if row.groups and len(row.groups[0]) != row.devices:
            raise InputError(f"{row.place}: devices: got {row.devices}, allowed: as many as each group has")
        if row.seconds > SLOW_S and row.num_bytes / row.seconds < SLOW_BYTES_PER_S:
            said = f"{row.num_bytes} bytes among {row.devices} took {row.seconds:g} s"
            raise InputError(f"{row.place}: {said}: looks like microseconds, allowed: seconds in every row")
    return rows


def _recognises(start: FileStart) -> bool:
    return not start.is_json and (start.path.suffix == ".csv" or len(start.columns) > 1)


def _read(files: Sequence[Path], setup: Setup) -> Reading:
    """Read one table, whose rows say everything."""
    return Reading(files=tuple(files), rows=read_calls(files[0]))


FORMAT: Final = Format(name="table", title=f"a CSV table ({', '.join(COLUMNS)})", recognises=_recognises, read=_read)
