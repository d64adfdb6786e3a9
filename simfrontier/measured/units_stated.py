"""Times that are in another unit than seconds: found by what their neighbours in the same file say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from simfrontier.errors import InputError
from simfrontier.measured.rows import CallRow

# How many times slower than its neighbour allows a row must be. Milliseconds among seconds are 1,000, at least 500 next
# to a neighbour of half or twice the bytes; the wildest step of the shipped tables is 49 (1 MiB on 1,024 GCDs).
MIXED: Final = 400.0
MICROSECONDS: Final = 2e4  # beyond what milliseconds can explain
# No collective of a cluster is that slow: a table all in microseconds.
SLOW_S: Final = 10.0
SLOW_BYTES_PER_S: Final = 1e6


def refuse_other_units(rows: Sequence[CallRow]) -> None:
    """Raise InputError where a time cannot be in seconds as its neighbours are.

    Neighbours are the next sizes of one series (machine, collective, library, devices), and the next numbers of devices
    at one size. Bytes and devices explain a longer time in proportion; see `excess`.
    """
    for a, b in _neighbours(rows):
        slow, fast = (a, b) if a.seconds > b.seconds else (b, a)
        factor = excess(slow, fast)
        if factor > MIXED:
            unit = "microseconds" if factor > MICROSECONDS else "milliseconds"
            raise InputError(
                f"{slow.place}: {_said(slow)}, but {_said(fast)} in line {fast.place.line}: "
                f"looks like {unit}, allowed: seconds in every row"
            )
    for row in rows:
        if row.seconds > SLOW_S and row.num_bytes / row.seconds < SLOW_BYTES_PER_S:
            raise InputError(f"{row.place}: {_said(row)}: looks like microseconds, allowed: seconds in every row")


def excess(slow: CallRow, fast: CallRow) -> float:
    """How many times longer `slow` took than `fast` and their bytes and devices explain."""
    bytes_more = max(1.0, slow.num_bytes / fast.num_bytes)
    devices_more = max(1.0, slow.devices / fast.devices)
    return slow.seconds / fast.seconds / bytes_more / devices_more


def _neighbours(rows: Sequence[CallRow]) -> Iterator[tuple[CallRow, CallRow]]:
    def series(row: CallRow) -> tuple[object, ...]:
        return row.machine, row.collective, row.library, row.nodes or 0, row.devices

    def size(row: CallRow) -> tuple[object, ...]:
        return row.machine, row.collective, row.library, row.num_bytes

    by_size = sorted(rows, key=lambda row: (series(row), row.num_bytes, row.seconds))
    by_devices = sorted(rows, key=lambda row: (size(row), row.devices, row.seconds))
    for key, ordered in ((series, by_size), (size, by_devices)):
        for _, alike in groupby(ordered, key=key):
            yield from pairwise(alike)


def _said(row: CallRow) -> str:
    return f"{row.num_bytes} bytes among {row.devices} took {row.seconds:g} s"
