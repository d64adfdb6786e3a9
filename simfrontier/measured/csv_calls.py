"""Reading times of collectives from CSV: one row per measurement, in the columns below; others may be there too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError, unknown, wrong
from simfrontier.measured.csvfile import Line, read_lines
from simfrontier.measured.rows import CALL_KINDS, CallRow, kind_of, refuse_repeats

COLUMNS: Final = ("machine", "collective", "library", "devices", "bytes", "time_s", "source")
SLOW_S: Final = 10.0  # no collective of a cluster takes so long and moves so few bytes per second
SLOW_BYTES_PER_S: Final = 1e6


def read_calls(path: Path, called: str = "") -> tuple[CallRow, ...]:
    """The rows of a table, in the file's order; columns `nodes`, `packages`, `groups` (of devices: 0-2 1-3) and
    `read_off` are read where there are any.

    `called`: what messages and places call the file instead of its path. Raises InputError: one line that names file,
    line, what was got and what is allowed.
    """
    lines = read_lines(path, COLUMNS, called)
    rows = tuple(_row(line) for line in lines)
    refuse_repeats(rows)
    for row in rows:
        if row.seconds > SLOW_S and row.num_bytes / row.seconds < SLOW_BYTES_PER_S:
            said = f"{row.num_bytes} bytes among {row.devices} took {row.seconds:g} s"
            raise InputError(f"{row.place}: {said}: looks like microseconds, allowed: seconds in every row")
    return rows


def _row(line: Line) -> CallRow:
    kind = kind_of(line.text("collective"))
    if kind is None:
        raise InputError(f"collective: {unknown(line.cells['collective'], CALL_KINDS)}", where=str(line.place))
    return CallRow(
        machine=line.machine(),
        collective=kind,
        library=line.text("library"),
        devices=line.integer("devices", least=2),
        num_bytes=line.integer("bytes"),
        seconds=line.above_zero("time_s", "a number of seconds above 0, e.g. 0.000151"),
        source=line.cells["source"] or line.place.file,
        place=line.place,
        nodes=line.optional("nodes"),
        packages=line.optional("packages"),
        groups=_groups(line),
        read_off=line.cells.get("read_off", ""),
    )


def _groups(line: Line) -> tuple[tuple[int, ...], ...]:
    """Groups of devices, with `-` between the devices of one; () where the row tells none."""
    given = line.cells.get("groups", "")
    if given and not re.fullmatch(r"\d{1,4}(-\d{1,4})+( \d{1,4}(-\d{1,4})+)*", given):
        raise InputError(f"groups: {wrong(given, 'devices, e.g. 0-2 1-3')}", where=str(line.place))
    groups = tuple(tuple(map(int, group.split("-"))) for group in given.split())
    devices = [device for group in groups for device in group]
    if len(set(map(len, groups))) > 1 or len(set(devices)) < len(devices):
        raise InputError(f"groups: {wrong(given, 'groups of one size, every device once')}", where=str(line.place))
    if groups and len(groups[0]) != line.integer("devices", least=2):
        raise InputError(
            f"devices: got {line.cells['devices']}, allowed: as many as each group has", where=str(line.place)
        )
    return groups
