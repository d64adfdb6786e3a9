"""The tables of single calls of whole-machine.md: gathers, scatters and all-reduces alone, by algorithm."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from simfrontier.core.collectives import Library, algorithm, load_library
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import load_machine
from simfrontier.core.program import CollectiveKind

SIZES = (64, 512, 4096, 32_768, 65_536)
MIB = 2**20
MESSAGES = (16 * MIB, 128 * MIB, 1024 * MIB)
WAYS: dict[str, tuple[str, str]] = {
    "flat ring": ("rccl", "ring"),
    "tree": ("rccl", "tree"),
    "two levels, rings": ("hierarchical-mpi-rccl", "two_level"),
    "two levels, halving": ("hierarchical-halving-mpi-rccl", "two_level"),
}
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")


def table() -> Iterator[str]:
    """Milliseconds of calls of all devices, alone on the machine."""
    machine = load_machine("frontier")
    libraries = {name: load_library(name) for name, _ in WAYS.values()}
    groups = {size: EqualGroups(machine, size) for size in SIZES}
    yield "| call | MiB | by | " + " | ".join(f"{size:,}" for size in SIZES) + " |"
    yield "| --- " * (len(SIZES) + 3) + "|"
    for kind in KINDS:
        for num_bytes in MESSAGES:
            for title, (name, way) in WAYS.items():
                if way != "tree" or kind == "all_reduce":
                    cells = [_ms(groups[size], libraries[name], way, kind, num_bytes) for size in SIZES]
                    yield f"| {kind} | {num_bytes // MIB:,} | {title} | {' | '.join(cells)} |"


def overtaken() -> Iterator[str]:
    """The least power of two of GCDs on which a flat ring's start-up takes longer than its bytes."""
    machine, library = load_machine("frontier"), load_library("rccl")
    for kind in KINDS:
        for num_bytes in MESSAGES:
            for size in (2**power for power in range(4, 17)):
                alone = EqualGroups(machine, size)
                rate = alone.sent_per_s("ring", library)
                waits_s = algorithm("ring").latency_s(library, kind, num_bytes, alone.shape, rate)
                if waits_s > alone.seconds_by("ring", library, kind, num_bytes) - waits_s:
                    yield f"| {kind} | {num_bytes // MIB:,} | {size:,} |"
                    break


def _ms(groups: EqualGroups, library: Library, way: str, kind: CollectiveKind, num_bytes: int) -> str:
    return f"{groups.seconds_by(way, library, kind, num_bytes) * 1e3:,.3g}"


if __name__ == "__main__":
    sys.stdout.write("\n".join((*overtaken(), "", *table(), "")))
