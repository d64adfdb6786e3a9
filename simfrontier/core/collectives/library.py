"""Collective libraries as numbers: the algorithms that each takes, their latencies and rates, and measured times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from simfrontier.base.io import SOURCED, Deviation, NotNegative, Part
from simfrontier.core.collectives.calibration import CallTable, Group
from simfrontier.core.collectives.laws import GroupShape, HopTimes, LowLatency, RingTimes, TreeTimes
from simfrontier.core.collectives.tuning import TuningModel
from simfrontier.core.machine import Provenance
from simfrontier.core.program import RING, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.core.network import RingOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """How far a library's law is from measurements, as standard deviations of log time.

    `model_sd`: of kinds of calls, against measurements that were left out of the fit. Over several nodes that of the
    kind itself where `of_kind` has it, and at least `small_sd` for messages below `small_bytes`. `common_share` of the
    variance is the same for all sizes of message of one kind in one group. `run_sd`: of single calls, from one run to
    the next.
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
        """Instead of `model_sd` over several nodes, of the kinds of calls that have their own."""
        own: dict[CollectiveKind, float | None] = {
            "all_gather": self.all_gather_sd,
            "reduce_scatter": self.reduce_scatter_sd,
            "all_reduce": self.all_reduce_sd,
            "all_to_all": self.all_to_all_sd,
        }
        return {kind: sd for kind, sd in own.items() if sd is not None}

    def sd(self, kind: CollectiveKind, num_bytes: float, num_nodes: int) -> float:
        """How far the law is off for a kind of call with messages of that size in a group on so many nodes."""
        if num_nodes == 1:
            return self.model_sd
        own = self.of_kind.get(kind, self.model_sd)
        return max(own, self.small_sd) if num_bytes < self.small_bytes else own


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """How one kind of call is made: by `between` among the ranks with the same place on each node, and what it takes
    beside its two calls, base_s and a pass over all S bytes that puts them in order."""

    between: Library
    base_s: float
    reorder_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRates:
    """What a rank sends per second in each of the two calls, when nothing else runs; between nodes, all of a node's
    ranks at once."""

    between: float
    inside: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevel:
    """An all-gather of S bytes over k nodes of p ranks gathers S/p between the nodes, by p groups at once, and then S
    inside each; a reduce-scatter goes the other way. An all-reduce is the second and then the first. Inside by rings;
    between nodes by `between_by`, rings or recursive halving in log2 k rounds, in each of which a node's ranks exchange
    with those of one other node.

    `rates`: by shape of the group; of the machine, which the library does not know (`algorithms.levels.with_rates`).
    """

    library_inside: Library
    calls: Mapping[CollectiveKind, Levels]
    between_by: str = RING
    rates: Mapping[GroupShape, LevelRates] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A collective library: its algorithms' latencies, its channels, the share of each link class that its rings
    reach, and the bus bandwidth that its rings inside a node do not exceed, by group size (`ring_caps`).

    A ring passes blocks of c = S/n bytes through n - 1 hops; `ring_law` says how long a step takes with the Simple
    protocol and with LL. `tuning` says which of the two a call takes, and whether an all-reduce goes by tree, as the
    library decides it; a library without one takes what is faster. `ring_ll` and `tree_ll` are None in a library
    without LL, `tree` in one without trees. `residual`: how wrong all this was found to be (None: not known).

    `choices`: the algorithms that may carry each kind of call, by name (`collectives.algorithms`). `tables`: measured
    times of calls, which win over the law above.

    `ring_shares`: the share of link classes that rings reach, where it was measured apart from `link_shares`.

    `least_bytes`: of messages from this size on the law was fitted; what it says of smaller ones is a guess.
    `machines`: those whose measurements it was fitted to; none where the library's file does not say it.
    `environment_of`: the library that jobs take it for that find it in this state (None: it is no such state).

    `ring_order`: rings follow the orders that the machine's links suggest, or the ranks' own in one channel. `paced`: a
    rank hands blocks on at the pace of its ring's slowest link, not as fast as its own links would; only single
    messages feel that, and that its channels have connections of their own. `in_flight`: how many messages may be under
    way on one connection (None: any number). `reduces_backwards`: rings that sum go against the order, from each rank
    to the one before it (only single messages know it: fluid loads are of the mirrored ring).

    `two_level`: the two libraries behind a call in two levels.
    """

    name: str
    title: str
    num_channels: int
    units_per_channel: float
    ring: RingTimes
    ring_ll: LowLatency | None
    link_shares: Mapping[str, float]
    ring_caps: Mapping[tuple[int, int], float]
    tree: TreeTimes | None
    tree_ll: HopTimes | None
    direct: HopTimes
    sources: tuple[Provenance, ...]
    choices: Mapping[CollectiveKind, tuple[str, ...]]
    environment_of: str | None = None
    tuning: TuningModel | None = None
    residual: Residual | None = None
    ring_shares: Mapping[str, float] = field(default_factory=dict)
    machines: tuple[str, ...] = ()
    tables: Mapping[Group, CallTable] = field(default_factory=dict)
    ring_order: RingOrder = "links"
    paced: bool = True
    in_flight: int | None = None
    reduces_backwards: bool = False
    least_bytes: float = 0.0
    two_level: TwoLevel | None = None

    def provenance(self) -> tuple[Provenance, ...]:
        """Every number of the library with its source."""
        return self.sources

    def table(self, call: CollectiveKind | None, group: GroupShape) -> CallTable | None:
        """The measured times of a call (None: of no call of the library) in a group of that shape, if there are any."""
        if call is None:
            return None
        return self.tables.get((call, group.size, group.num_nodes, group.num_packages))
