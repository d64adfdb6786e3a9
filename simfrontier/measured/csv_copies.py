"""Reading copies between two devices from CSV: bandwidths and latencies as point-to-point benchmarks print them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from simfrontier.measured.csvfile import Line, read_lines
from simfrontier.measured.rows import BENCHMARKS, Benchmark, CopyRow, Unit, refuse_repeats

COLUMNS: Final = (
    "machine",
    "benchmark",
    "scope",
    "path_class",
    "gcd_pair",
    "bytes",
    "library",
    "value",
    "unit",
    "source",
)
SCOPES: Final = ("intra-node", "inter-node")
RATES: Final[tuple[Unit, ...]] = ("GB/s", "MB/s")
LATENCIES: Final[tuple[Unit, ...]] = ("us",)


def read_copies(path: Path, called: str = "") -> tuple[CopyRow, ...]:
    """The rows of a table, in the file's order; `gcd_pair` may be empty. Raises InputError as read_calls does."""
    lines = read_lines(path, COLUMNS, called)
    rows = tuple(_row(line) for line in lines)
    refuse_repeats(rows)
    return rows


def _row(line: Line) -> CopyRow:
    benchmark = cast(Benchmark, line.choice("benchmark", BENCHMARKS))
    return CopyRow(
        machine=line.machine(),
        path_class=line.text("path_class"),
        pair=line.cells["gcd_pair"],
        scope=line.choice("scope", SCOPES),
        benchmark=benchmark,
        num_bytes=line.integer("bytes"),
        library=line.text("library"),
        value=line.above_zero("value", "a number above 0"),
        unit=_unit(line, benchmark),
        source=line.text("source"),
        place=line.place,
    )


def _unit(line: Line, benchmark: Benchmark) -> Unit:
    """A rate's or a latency's unit, whichever the benchmark prints."""
    units = LATENCIES if benchmark == "osu_latency" else RATES
    unit = next((unit for unit in units if unit == line.cells["unit"]), None)
    if unit is None:
        raise line.fault("unit", f"{' or '.join(units)} of {benchmark}")
    return unit
