"""Position of a measured row in the charts: its chart, its line in the chart, its size on the axis, and its name in
words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simfrontier.answers.accuracy import Residual, grouped, harnesses_of, shipped_harnesses
from simfrontier.inputs.measured import CallRow, ClassRow, CopyRow, KernelRow, RateRow, Row
from simfrontier.interfaces.report.phrases import binary

_COPIES = {"kernel_copy": "copy by kernels", "sdma_copy": "copy by SDMA engines"}  # others are names of benchmarks


_SCOPES = {"intra-node": "in a node", "inter-node": "between nodes"}


MESSAGE_BYTES, EDGE = "message (bytes)", "edge of a cube of equal work (elements)"


MOVED = "read and written (bytes)"


class RowPosition(NamedTuple):
    """Position of a row in the charts of its table.

    `chart`: the measured quantity and where it was measured; `line`: the series of sizes to which the row belongs;
    lines are sorted by `order`; `size`: the row's coordinate on the axis, whose title is `size_title`; `size_words`:
    the size as text for readers.
    """

    chart: str
    line: str
    order: float
    size: float
    size_title: str
    size_words: str


def standing(row: Row) -> RowPosition:
    """Return the position of a row: a chart per collective (or benchmark, kernel), library, machine and element type, a
    line per number of devices, path or statistic. A rate without a known shape has size 0."""
    match row:
        case CallRow():
            is_known = bool(harnesses_of(row, shipped_harnesses()))  # of a program that adds to the time
            program = f" ({row.source.partition('@')[0].rpartition('/')[2]})" if is_known else ""
            first = f", {'-'.join(map(str, row.groups[0]))} and others" if row.groups else ""
            chart = f"{row.collective.replace('_', '-')}, {row.library}, {row.machine}{program}"
            line = f"{row.devices:,} devices{first}"
            return RowPosition(chart, line, row.devices, row.num_bytes, MESSAGE_BYTES, binary(row.num_bytes))
        case CopyRow():
            pair = row.pair if not row.pair.startswith("median") else "median of pairs"
            what = _COPIES.get(row.benchmark, row.benchmark)
            chart = f"{what}, {row.library}, {row.machine}, {_SCOPES[row.scope]}"
            line = ", ".join(filter(None, (row.path_class, pair)))
            return RowPosition(chart, line, 0.0, row.num_bytes, MESSAGE_BYTES, binary(row.num_bytes))
        case RateRow():
            edge = 0.0 if row.flops is None else (row.flops / 2) ** (1 / 3)
            words = f"{row.m:,} × {row.n:,} × {row.k:,}" if row.m and row.n and row.k else "shape not told"
            chart = f"matrix products, {row.machine}, {row.dtype}"
            return RowPosition(chart, row.statistic, 0.0, edge, EDGE, words)
        case KernelRow():
            words = f"{row.shape.replace('x', ' × ')}, {binary(row.num_bytes)}"
            chart = f"{row.kernel}, {row.machine}, {row.dtype}"
            return RowPosition(chart, row.statistic, 0.0, row.num_bytes, MOVED, words)
        case ClassRow():
            kernels = row.kernels.replace("_", "-")
            return RowPosition(row.step, kernels, 0.0, 0.0, "", f"{row.runs} runs")


def row_name(row: Row) -> str:
    """Return a row in words: all-gather, rccl, frontier, 32 devices, 4 MiB."""
    if isinstance(row, RateRow) and row.what == "training":
        devices = "" if row.devices is None else f" on {row.devices:,}"
        return f"{row.model}, {row.plan}{devices}, {row.machine}"
    stands = standing(row)
    return f"{stands.chart}, {stands.line}, {stands.size_words}"


def charts_of(rows: Sequence[Residual[Row]]) -> dict[str, list[Residual[Row]]]:
    """Return the rows of a table that have a time and a size, by chart, in the table's order."""
    shown = (row for row in rows if row.measured is not None and standing(row.row).size > 0)
    return grouped(shown, lambda row: standing(row.row).chart)
