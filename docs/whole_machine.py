"""The figure and the tables of whole-machine.md, out of the data sets of its two studies (folders, in their order)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from simfrontier.interfaces.report.summary import scaling_drawing
from simfrontier.interfaces.report.theme import marks
from simfrontier.interfaces.report.view import RATE as DRAWN

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "whole-machine.svg"
WAYS = {
    ("rccl", "library"): "RCCL's choice",
    ("rccl", "ring"): "flat rings",
    ("rccl", "tree"): "trees",
    ("hierarchical-mpi-rccl", "library"): "two levels, rings",
    ("hierarchical-halving-mpi-rccl", "library"): "two levels, halving",
}
LINES = {
    "hsdp, RCCL": ("hsdp", "RCCL's choice"),
    "zero3, halving": ("zero3", "two levels, halving"),
    "zero3, levels": ("zero3", "two levels, rings"),
    "zero3, flat": ("zero3", "RCCL's choice"),
    "zero-topo, RCCL": ("zero-topo", "RCCL's choice"),
    "zeropp, RCCL": ("zeropp", "RCCL's choice"),
}
RATE, UNIT = "neox_tflops_per_device", "TFLOPS per GCD"
Row = Mapping[str, Any]
Table = Mapping[tuple[str, str, int], Row]  # by plan, way and devices


def rows_of(folder: Path) -> Table:
    """The rows of a study's data set."""
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    keys = ("axis:library.name", "axis:library.algorithms.all_reduce")
    return {(row["plan"], WAYS[row[keys[0]], row[keys[1]]], row["devices"]): row for row in rows if row["plan"]}


def picture(table: Table) -> str:
    """GPT-NeoX's TFLOPS per GCD of some plans by some ways of collectives."""
    scaling = {
        label: tuple(_scaled(table[plan, way, size]) for size in _sizes(table) if (plan, way, size) in table)
        for label, (plan, way) in LINES.items()
    }
    return scaling_drawing(scaling, marks(tuple(LINES)), "GCD", UNIT, paper="#ffffff") + "\n"


def _sizes(table: Table) -> Sequence[int]:
    sizes = sorted({size for _, _, size in table})
    return [size for size in sizes if size in (64, 256, 1024, 4096, 16384, 75264)]


def _scaled(row: Row) -> Row:
    return {"devices": row["devices"], "fits": row["fits"] and not row["error"], DRAWN: row[RATE]}


def rates(table: Table, sizes: Sequence[int]) -> str:
    """GPT-NeoX's TFLOPS per GCD of every plan, by way and size, as a table of Markdown; ways that change a plan's rate
    by less than 2 % at all of them are left out."""
    heads = " | ".join(f"{size:,}" for size in sizes)
    lines = [f"| plan | collectives | {heads} |", "| --- " * (len(sizes) + 2) + "|"]
    for plan in dict.fromkeys(plan for plan, _, _ in table):
        for way in WAYS.values():
            cells = [_cell(table.get((plan, way, size))) for size in sizes]
            if way == WAYS["rccl", "library"] or not _is_alike(table, plan, way, sizes):
                lines.append(f"| {plan} | {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _is_alike(table: Table, plan: str, way: str, sizes: Sequence[int]) -> bool:
    """Whether a way of collectives gives a plan the rates that it has by the library's own, or is not there."""
    pairs = [(table.get((plan, way, size)), table[plan, WAYS["rccl", "library"], size]) for size in sizes]
    return all(one is None or _rate(one) == _rate(own) or _is_near(_rate(one), _rate(own)) for one, own in pairs)


def _rate(row: Row) -> float:
    return row[RATE] or 0.0


def _is_near(one: float, other: float) -> bool:
    return abs(one - other) < 0.02 * other


def _cell(row: Row | None) -> str:
    if row is None or row["error"]:
        return "–"
    return f"{row[RATE]:.1f}" if row["fits"] else "too large"


def exposed(table: Table, size: int) -> str:
    """Seconds of a step, of its kernels, and waited for messages between nodes, at one size."""
    heads = ("plan", "collectives", "step, s", "kernels, s", "exposed between nodes, s", "memory, GB")
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    times = ("step_time_s", "compute_time_s", "exposed_inter_node_s")
    for (plan, way, devices), row in table.items():
        if devices == size and not row["error"] and row["fits"] and not way.startswith(("flat", "trees")):
            seconds = " | ".join(f"{row[name]:.2f}" for name in times)
            lines.append(f"| {plan} | {way} | {seconds} | {row['peak_memory_bytes'] / 1e9:.0f} |")
    return "\n".join(lines)


SHOWN = (64, 512, 1024, 2048, 8192, 16_384, 65_536, 75_264)

if __name__ == "__main__":
    small, large = (rows_of(Path(folder)) for folder in sys.argv[1:3])
    PICTURE.write_text(picture(small), encoding="utf-8")
    for table in (small, large):
        sizes = sorted({size for _, _, size in table} & {*SHOWN, 128 if table is large else 64})
        sys.stdout.write(f"{rates(table, sizes)}\n\n{exposed(table, sizes[-1])}\n\n")
