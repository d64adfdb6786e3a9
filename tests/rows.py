"""Rows of calls that tests make up."""

from __future__ import annotations

from simfrontier.inputs.measured import CallRow, RowPlace

MIB = 1 << 20

HERE = RowPlace("here", 2)


def call(
    seconds: float = 1e-3,
    devices: int = 16,
    num_bytes: int = MIB,
    library: str = "rccl",
    source: str = "somebody",
    place: RowPlace = HERE,
) -> CallRow:
    """A row of an all-gather on Frontier by a program of no harness."""
    return CallRow(
        machine="frontier",
        collective="all_gather",
        library=library,
        devices=devices,
        num_bytes=num_bytes,
        seconds=seconds,
        source=source,
        place=place,
    )
