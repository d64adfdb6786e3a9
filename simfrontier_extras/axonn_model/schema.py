"""The file of a table of bandwidths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Len

from simfrontier.io import SOURCED, Kind, NotNegative, Text

Ranks = Annotated[int, Ge(1)]
Rate = Annotated[float, Gt(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`inner`: ranks of all dimensions inside this one; `size`: of this dimension."""

    inner: Ranks
    size: Annotated[int, Ge(2)]
    gib_per_s: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class InNode:
    """Bandwidths of groups within a node."""

    kind: Kind
    source: Text
    rows: Annotated[tuple[Row, ...], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenNodes:
    """gib_per_s / min(shared_by_at_most, inner): of every group that has no row."""

    kind: Kind
    source: Text
    gib_per_s: Rate
    shared_by_at_most: Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBandwidths:
    """`also_of`: machines that differ in nothing that a bandwidth rests on."""

    also_of: tuple[Text, ...] = ()
    latency_s_per_rank: Annotated[NotNegative, SOURCED]
    in_node: InNode
    between_nodes: BetweenNodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """By machine."""

    machines: Annotated[Mapping[str, MachineBandwidths], Len(1)]
