"""Models of collective libraries: the algorithms of each library, their latencies and rates, and measured times.

The fields of `Library` and `TwoLevelFile` are the keys of a library's file."""

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
from simfrontier.core.collectives.in_node import InNode
from simfrontier.core.collectives.laws import (
    CHANNELS,
    Dispatcher,
    GroupShape,
    HopTimes,
    LevelRates,
    LowLatency,
    RingTimes,
    TreeTimes,
)
from simfrontier.core.collectives.tuning import TuningModel
from simfrontier.core.machine import Provenance
from simfrontier.core.program import DISPATCHERS, HALVING, RING, CollectiveKind, Routing

Count = Annotated[int, Ge(1), Le(COUNT.most), SOURCED]
_CAP: Final = "ranks_([1-9][0-9]*)_packages_([1-9][0-9]*)_bytes_per_s"
CapName = Annotated[
    str,
    Rule(lambda name: re.fullmatch(_CAP, name) is not None, "ranks_N_packages_M_bytes_per_s", pattern=f"^{_CAP}$"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmsTable:
    """Algorithms that a library may use for each kind of collective; of several, the one that is fastest while nothing
    else runs is used."""

    kind: Kind
    source: Text
    all_gather: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_gather"))], ...], Len(1)]
    reduce_scatter: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "reduce_scatter"))], ...], Len(1)]
    all_reduce: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_reduce"))], ...], Len(1)]
    all_to_all: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_to_all"))], ...], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """Deviations of measured times from a library's time laws, as standard deviations of log time.

    `model_sd`: deviation for any kind of collective, from measurements left out of the fit. Over several nodes a kind
    in `of_kind` has its own value, and the deviation of any kind is at least `small_sd` for messages below
    `small_bytes`. `common_share` of the variance is common to all message sizes of one kind in one group. `run_sd`:
    deviation of single calls from one run to the next.
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
        """Standard deviations that replace `model_sd` over several nodes, for those kinds of collectives for which they
        are known."""
        own: dict[CollectiveKind, float | None] = {
            "all_gather": self.all_gather_sd,
            "reduce_scatter": self.reduce_scatter_sd,
            "all_reduce": self.all_reduce_sd,
            "all_to_all": self.all_to_all_sd,
        }
        return {kind: sd for kind, sd in own.items() if sd is not None}

    def sd(self, kind: CollectiveKind, num_bytes: float, num_nodes: int) -> float:
        """Return the standard deviation of log time for one kind of collective with a message of `num_bytes` in a group
        on `num_nodes` nodes."""
        if num_nodes == 1:
            return self.model_sd
        own = self.of_kind.get(kind, self.model_sd)
        return max(own, self.small_sd) if num_bytes < self.small_bytes else own


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Parameters of a two-level call of one kind: the library `between` for the call among the ranks with the same
    position on each node, and the time in addition to both calls, which is base_s and one pass over all S bytes that
    reorders them."""

    between: Library
    base_s: float
    reorder_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevel:
    """Parameters of a two-level library. An all-gather of S bytes over k nodes of p ranks gathers S/p bytes between the
    nodes, in p groups at once, and then S bytes inside each node; a reduce-scatter runs in the reverse order. An
    all-reduce is a reduce-scatter and then an all-gather. Calls inside nodes use rings; calls between nodes use
    `between_by`: rings, or recursive halving in log2 k rounds, in each of which the ranks of a node exchange data with
    the ranks of one other node.

    `rates`: rates of both calls by shape of the group; they depend on the machine, which is not part of the library
    (`algorithms.two_level.with_rates`).
    """

    library_inside: Library
    calls: Mapping[CollectiveKind, Levels]
    between_by: str = RING
    rates: Mapping[GroupShape, LevelRates] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Model of a collective library: the latencies of its algorithms, its channels, the share of nominal bandwidth that
    it achieves on each link class, and the maximum bus bandwidth of its rings inside a node, by group size
    (`ring_caps`).

    A ring passes blocks of c = S/n bytes through n - 1 hops; `Ring.step` gives the time of a step with the Simple
    protocol and with LL. `tuning` decides, as the library does, which of the two protocols a call uses, and whether an
    all-reduce uses trees; a library without `tuning` uses the faster option. `ring_ll` and `tree_ll` are None in a
    library without LL, `tree` in one without trees. `residual`: measured errors of these laws (None: not known).

    `algorithms`: names of the allowed algorithms for each kind of collective (`collectives.algorithms`); by default
    rings, for all-reduces also trees, and direct messages for all-to-alls. `choices`: the algorithms in use. `tables`:
    measured times of calls, which take precedence over the time laws.

    `in_node`: time laws of calls among devices of one node, in place of the others (None: the others hold there, too).

    `direct_caps`: as `ring_caps`, of direct messages.

    `ring_shares`: the share of nominal bandwidth that rings achieve, for link classes where it was measured separately
    from `shares`.

    `least_bytes`: smallest message size to which the time laws were fitted; for smaller messages they are a guess.
    `machines`: the machines to whose measurements the laws were fitted; empty if the library's file does not list them.
    `environment_of`: the library of which this model is a variant, a state of the system that a job may find without
    knowing (None: not a variant).

    `ring_order`: rings follow the orders that the machine's links suggest ("links"), or the rank order in one channel
    ("ranks"). `paced`: a rank forwards blocks at the rate of its ring's slowest link, not as fast as its own links
    allow, and its channels have separate connections; this affects single messages only. `in_flight`: maximum number of
    messages in flight on one connection (None: unlimited). `reduces_backwards`: rings that sum move data against the
    order, from each rank to the preceding rank (this affects single messages only: fluid loads are those of the
    mirrored ring).

    `two_level`: the two libraries that carry out a two-level call (None: no two-level calls).

    `dispatchers`: those of experts' rows that may stand beside this library. `routing`: the choice of experts in the
    model whose rows they dispatch (None: a dense model).
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
    direct_caps: Mapping[CapName, Annotated[Positive, SOURCED]] = field(default_factory=dict)
    tree: TreeTimes | None = None
    tree_ll: HopTimes | None = None
    direct: HopTimes
    in_node: InNode | None = None
    choices: Annotated[Mapping[CollectiveKind, tuple[str, ...]], Derived({})] = field(default_factory=dict)
    sources: Annotated[tuple[Provenance, ...], Derived(())] = ()
    tables: Annotated[Mapping[Group, CallTable], Derived({})] = field(default_factory=dict)
    two_level: Annotated[TwoLevel | None, Derived(None)] = None
    dispatchers: Mapping[Annotated[str, Names(*DISPATCHERS)], Dispatcher] = field(default_factory=dict)
    routing: Annotated[Routing | None, Derived(None)] = None

    def provenance(self) -> tuple[Provenance, ...]:
        """Return the sources of all numbers of the library."""
        return self.sources

    def table(self, call: CollectiveKind | None, group: GroupShape) -> CallTable | None:
        """Return the measured times of a kind of collective in a group of this shape; None if there are none, or if
        `call` is None because the op is not a call of the library."""
        if call is None:
            return None
        return self.tables.get((call, group.size, group.num_nodes, group.num_packages))

    def ring_cap(self, group: GroupShape) -> float:
        """Return the highest rate, in bytes/s, at which a rank can send around rings; infinite if it is not known, as
        for groups on several nodes."""
        return _cap(self.ring_caps, group)

    def direct_cap(self, group: GroupShape) -> float:
        """Return the highest rate, in bytes/s, at which a rank can send direct messages, as `ring_cap`."""
        return _cap(self.direct_caps, group)


def _cap(caps: Mapping[str, float], group: GroupShape) -> float:
    if group.num_nodes > 1:
        return math.inf
    return caps.get(f"ranks_{group.size}_packages_{group.num_packages}_bytes_per_s", math.inf)


# ── the file of a library of two levels ──


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenLibrary:
    """Library of the calls between nodes. Its calls use `ring` or `halving` (recursive halving and doubling, in rounds
    of direct messages); `low_latency`: whether its rings use the LL protocol for small blocks."""

    kind: Kind
    source: Text
    library: Text
    algorithm: Annotated[str, Names(RING, HALVING)] = RING
    low_latency: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLibrary:
    """Library of the calls inside nodes."""

    kind: Kind
    source: Text
    library: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsOfCall:
    """Time of a two-level call of one kind in addition to its two calls; `hop_between_nodes_s`: start-up time of a hop
    between nodes (None: as in the library between nodes)."""

    base_s: Annotated[NotNegative, SOURCED]
    reorder_bytes_per_s: Annotated[Positive, SOURCED]
    hop_between_nodes_s: Annotated[NotNegative, SOURCED] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsTable:
    """Kinds of collectives that use two levels, and changes to the parameters of the library between nodes for the case
    that all devices of a node call at the same time; other kinds use the library inside nodes. `rate_share`: factor on
    the library's achieved shares of links; `forwarded_share`: None for the library's own value."""

    between: BetweenLibrary
    inside: InsideLibrary
    rate_share: Annotated[Share, SOURCED] | None = None
    forwarded_share: Annotated[Part, SOURCED] | None = None
    all_gather: LevelsOfCall | None = None
    reduce_scatter: LevelsOfCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelFile:
    """File of a two-level library; `machines` and `residual` are those of `Library`."""

    name: Text
    title: Text
    machines: tuple[Text, ...] = ()
    levels: LevelsTable
    residual: Residual | None = None
