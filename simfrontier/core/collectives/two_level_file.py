"""The file of a library of two levels: every number is a table { value, kind, source } there, and a number here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simfrontier.base.io import SOURCED, Kind, Names, NotNegative, Part, Positive, Share, Text
from simfrontier.core.collectives.library import Residual
from simfrontier.core.program import HALVING, RING

BETWEEN_NODES = (RING, HALVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenLibrary:
    """The library between nodes, and whether its calls go by `ring` or by `halving` (recursive halving and doubling, in
    rounds of its direct messages); `low_latency`: whether its rings take the protocol for small blocks."""

    kind: Kind
    source: Text
    library: Text
    algorithm: Annotated[str, Names(*BETWEEN_NODES)] = RING
    low_latency: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLibrary:
    """The library inside nodes."""

    kind: Kind
    source: Text
    library: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsOfCall:
    """What a kind of call takes beside its two calls; `hop_between_nodes_s`: None is the library's own."""

    base_s: Annotated[NotNegative, SOURCED]
    reorder_bytes_per_s: Annotated[Positive, SOURCED]
    hop_between_nodes_s: Annotated[NotNegative, SOURCED] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsTable:
    """What differs between nodes from the library's own numbers while all devices of a node call at once, and the kinds
    of calls that go by two levels; the others are left to the library inside. `rate_share`: of what the library's
    shares of links say; `forwarded_share`: None is the library's own."""

    between: BetweenLibrary
    inside: InsideLibrary
    rate_share: Annotated[Share, SOURCED] | None = None
    forwarded_share: Annotated[Part, SOURCED] | None = None
    all_gather: LevelsOfCall | None = None
    reduce_scatter: LevelsOfCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelFile:
    """`machines` and `residual` as of a library of one level."""

    name: Text
    title: Text
    machines: tuple[Text, ...] = ()
    levels: LevelsTable
    residual: Residual | None = None
