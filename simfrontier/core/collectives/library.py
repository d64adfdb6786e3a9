"""Collective libraries as numbers: the algorithms of each, their latencies and rates, and measured times.

`Library` and `TwoLevelFile` have the keys of a library's file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le, Len

from simfrontier.base.io import SOURCED, Derived, Deviation, Kind, Names, NotNegative, Part, Positive, Rule, Share, Text
from simfrontier.base.limits import COUNT
from simfrontier.core.collectives.algorithms import in_libraries
from simfrontier.core.collectives.calibration import CallTable, Group
from simfrontier.core.collectives.laws import (
    CHANNELS,
    GroupShape,
    HopTimes,
    LevelRates,
    LowLatency,
    RingTimes,
    TreeTimes,
)
from simfrontier.core.collectives.tuning import TuningModel
from simfrontier.core.machine import Provenance
from simfrontier.core.program import HALVING, RING, CollectiveKind

Count = Annotated[int, Ge(1), Le(COUNT.most), SOURCED]
_CAP: Final = "ranks_([1-9][0-9]*)_packages_([1-9][0-9]*)_bytes_per_s"
CapName = Annotated[
    str,
    Rule(lambda name: re.fullmatch(_CAP, name) is not None, "ranks_N_packages_M_bytes_per_s", pattern=f"^{_CAP}$"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmsTable:
    """Algorithms that a library may use for each kind of call; of several the one that is fastest alone is used."""

    kind: Kind
    source: Text
    all_gather: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_gather"))], ...], Len(1)]
    reduce_scatter: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "reduce_scatter"))], ...], Len(1)]
    all_reduce: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_reduce"))], ...], Len(1)]
    all_to_all: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_to_all"))], ...], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """Deviations of measurements from a library's law, as standard deviations of log time.

    `model_sd`: of kinds of calls, from measurements left out of the fit. Over several nodes that of the kind itself if
    it is in `of_kind`, and at least `small_sd` for messages below `small_bytes`. `common_share` of the variance is
    common to all message sizes of one kind in one group. `run_sd`: of single calls, from one run to the next.
    """

    model_sd: Annotated[Deviation, SOURCED]
    run_sd: Annotated[Deviation, SOURCED]
    common_share: Annotated[Part, SOURCED] = 1.0
    small_sd: Annotated[Deviation, SOURCED] = 0.0
    small_bytes: Annotated[NotNegative, SOURCED] = 0.0
    all_gather_sd: Annotated[Deviation, SOURCED] | None = None
    reduce_scatter_sd: Annotated[Deviation, SOURCED] | None = None
    all_reduce_sd: Annotated[Deviation, SOURCED] | None = None
    all_to_all_sd: Annotated[Deviation, SOURCED] | None = None

    @property
    def of_kind(self) -> dict[CollectiveKind, float]:
        """Standard deviations that replace `model_sd` over several nodes, by kind of call, as far as known."""
        own: dict[CollectiveKind, float | None] = {
            "all_gather": self.all_gather_sd,
            "reduce_scatter": self.reduce_scatter_sd,
            "all_reduce": self.all_reduce_sd,
            "all_to_all": self.all_to_all_sd,
        }
        return {kind: sd for kind, sd in own.items() if sd is not None}

    def sd(self, kind: CollectiveKind, num_bytes: float, num_nodes: int) -> float:
        """Return the standard deviation of log time for a kind of call with messages of that size in a group on
        `num_nodes`."""
        if num_nodes == 1:
            return self.model_sd
        own = self.of_kind.get(kind, self.model_sd)
        return max(own, self.small_sd) if num_bytes < self.small_bytes else own


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Two levels of one kind of call: the call by `between` among the ranks with the same place on each node, and the
    time in addition to both calls, base_s and a pass over all S bytes that reorders them."""

    between: Library
    base_s: float
    reorder_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevel:
    """An all-gather of S bytes over k nodes of p ranks gathers S/p between the nodes, by p groups at once, and then S
    inside each; a reduce-scatter goes the other way. An all-reduce is the second and then the first. Inside by rings;
    between nodes by `between_by`, rings or recursive halving in log2 k rounds, in each of which a node's ranks exchange
    with those of one other node.

    `rates`: by shape of the group; they depend on the machine, which the library does not know
    (`algorithms.two_level.with_rates`).
    """

    library_inside: Library
    calls: Mapping[CollectiveKind, Levels]
    between_by: str = RING
    rates: Mapping[GroupShape, LevelRates] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A collective library: its algorithms' latencies, its channels, the share of each link class that it reaches, and
    the bus bandwidth that its rings inside a node do not exceed, by group size (`ring_caps`).

    A ring passes blocks of c = S/n bytes through n - 1 hops; `Ring.step` says how long a step takes with the Simple
    protocol and with LL. `tuning` says which of the two a call takes, and whether an all-reduce goes by tree, as the
    library decides it; a library without one takes what is faster. `ring_ll` and `tree_ll` are None in a library
    without LL, `tree` in one without trees. `residual`: measured errors of these laws (None: not known).

    `algorithms`: names of those allowed for each kind of call (`collectives.algorithms`); without the table rings, for
    all-reduces also trees, and direct messages for all-to-alls. `choices`: those in use. `tables`: measured
    times of calls, which take precedence over the law above.

    `ring_shares`: the share of link classes that rings reach, where it was measured apart from `shares`.

    `least_bytes`: message size from which on the law was fitted; for smaller ones it is a guess.
    `machines`: those whose measurements it was fitted to; none where the library's file does not say it.
    `environment_of`: the library of which this is a state that a job may find without knowing (None: no such state).

    `ring_order`: rings follow the orders that the machine's links suggest, or the ranks' own in one channel. `paced`: a
    rank hands blocks on at the pace of its ring's slowest link, not as fast as its own links would; only single
    messages feel that, and that its channels have connections of their own. `in_flight`: how many messages may be under
    way on one connection (None: any number). `reduces_backwards`: rings that sum go against the order, from each rank
    to the one before it (only single messages know it: fluid loads are of the mirrored ring).

    `two_level`: the two libraries behind a call in two levels.
    """

    name: Text
    title: Text
    machines: tuple[Text, ...] = ()
    environment_of: Text | None = None
    ring_order: Literal["links", "ranks"] = "links"
    paced: bool = True
    reduces_backwards: bool = False
    in_flight: Count | None = None
    num_channels: Annotated[int, Ge(1), Le(CHANNELS), SOURCED]
    units_per_channel: Annotated[NotNegative, SOURCED]
    least_bytes: Annotated[NotNegative, SOURCED] = 0.0
    algorithms: AlgorithmsTable | None = None
    ring: RingTimes
    ring_ll: LowLatency | None = None
    tuning: TuningModel | None = None
    residual: Residual | None = None
    shares: Mapping[str, Annotated[Share, SOURCED]] = field(default_factory=dict)
    ring_shares: Mapping[str, Annotated[Share, SOURCED]] = field(default_factory=dict)
    ring_caps: Mapping[CapName, Annotated[Positive, SOURCED]] = field(default_factory=dict)
    tree: TreeTimes | None = None
    tree_ll: HopTimes | None = None
    direct: HopTimes
    choices: Annotated[Mapping[CollectiveKind, tuple[str, ...]], Derived({})] = field(default_factory=dict)
    sources: Annotated[tuple[Provenance, ...], Derived(())] = ()
    tables: Annotated[Mapping[Group, CallTable], Derived({})] = field(default_factory=dict)
    two_level: Annotated[TwoLevel | None, Derived(None)] = None

    def provenance(self) -> tuple[Provenance, ...]:
        """Return every number of the library with its source."""
        return self.sources

    def table(self, call: CollectiveKind | None, group: GroupShape) -> CallTable | None:
        """Return the measured times of a call in a group of that shape, None if there are none or it is no call of the
        library (None)."""
        if call is None:
            return None
        return self.tables.get((call, group.size, group.num_nodes, group.num_packages))

    def ring_cap(self, group: GroupShape) -> float:
        """Return the highest rate, in bytes/s, at which a rank sends around rings; infinite where it is not known, as
        over several nodes."""
        if group.num_nodes > 1:
            return math.inf
        return self.ring_caps.get(f"ranks_{group.size}_packages_{group.num_packages}_bytes_per_s", math.inf)


# ── the file of a library of two levels ──


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenLibrary:
    """Library between nodes, and whether its calls use `ring` or `halving` (recursive halving and doubling, in rounds
    of its direct messages); `low_latency`: whether its rings use the protocol for small blocks."""

    kind: Kind
    source: Text
    library: Text
    algorithm: Annotated[str, Names(RING, HALVING)] = RING
    low_latency: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLibrary:
    """Library inside nodes."""

    kind: Kind
    source: Text
    library: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsOfCall:
    """Time of a kind of call in addition to its two calls; `hop_between_nodes_s`: None for the library's own."""

    base_s: Annotated[NotNegative, SOURCED]
    reorder_bytes_per_s: Annotated[Positive, SOURCED]
    hop_between_nodes_s: Annotated[NotNegative, SOURCED] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsTable:
    """Differences from the library's own numbers between nodes while all devices of a node call at once, and the kinds
    of calls that use two levels; the others use the library inside. `rate_share`: factor on the library's shares of
    links; `forwarded_share`: None for the library's own."""

    between: BetweenLibrary
    inside: InsideLibrary
    rate_share: Annotated[Share, SOURCED] | None = None
    forwarded_share: Annotated[Part, SOURCED] | None = None
    all_gather: LevelsOfCall | None = None
    reduce_scatter: LevelsOfCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelFile:
    """File of a two-level library; `machines` and `residual` as in `Library`."""

    name: Text
    title: Text
    machines: tuple[Text, ...] = ()
    levels: LevelsTable
    residual: Residual | None = None
