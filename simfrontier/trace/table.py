"""The trace table: one span per op and rank (or class of ranks), with the digest of the schedule that was run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One op on one rank. Times in seconds from the start of the step: ready, started (its group was ready too), ended.

    `level` is the coarsest boundary that a collective crosses: package, intra_node or inter_node; "" for local work.
    `num_bytes` is what the rank sends, or the memory traffic of local work.
    """

    op: int
    lane: str
    kind: str
    name: str
    axes: str
    level: str
    call: str
    layer: int
    micro: int
    num_bytes: float
    ready_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All spans of a run by rank; `ranks` says whom each list of spans stands for ("ranks 0, 2, 4 … (192)")."""

    digest: str
    title: str
    ranks: tuple[str, ...]
    spans: tuple[tuple[Span, ...], ...]
