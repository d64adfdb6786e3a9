"""Collective libraries as numbers: the algorithms, latencies, rates, and overrides by scenarios and calibrations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from simfrontier.base.errors import InputError, shown
from simfrontier.base.io import SOURCED, Deviation, NotNegative, Part
from simfrontier.core.collectives.algorithms import algorithm, all_algorithms, in_plans
from simfrontier.core.collectives.calibration import Calibration, CallTable, Group
from simfrontier.core.collectives.laws import GroupShape, HopTimes, LowLatency, RingTimes, TreeTimes
from simfrontier.core.collectives.tuning import TuningModel
from simfrontier.core.collectives.volume import sent_part
from simfrontier.core.machine import Machine, MeasuredNumbers, Provenance
from simfrontier.core.program import DIRECT, LIBRARY, RING, TREE, CollectiveKind

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


def carriers(kind: CollectiveKind) -> tuple[str, ...]:
    """Names of the algorithms by which some library carries a kind of call."""
    return tuple(each.name for each in all_algorithms() if kind in each.in_libraries)


def allowed_algorithms(library: Library, kind: CollectiveKind, added_later: bool, via: str) -> tuple[str, ...]:
    """Return what may carry a collective: the library's choices, unless the schedule says `via`, or what is coded
    cannot be summed on the way. Raises InputError for a `via` that carries no such collective, or by which no plan can
    go, and where the library has no numbers of it."""
    if kind == "all_to_all" or (kind == "reduce_scatter" and added_later):
        return (DIRECT,)
    if via == LIBRARY:
        return library.choices[kind]
    by, allowed = algorithm(via), ", ".join(library.choices[kind])
    if not by.in_plans or kind not in by.collectives:
        others = [LIBRARY, *(name for name in in_plans() if kind in algorithm(name).collectives)]
        raise InputError(f"{kind} by {via}: {by.title}: no plan's {kind} goes so; allowed: {', '.join(others)}")
    if lacked := by.lacks(library, kind):
        raise InputError(f"{kind} by {via}: library {library.name} has no {lacked}, allowed: {allowed}")
    return (via,)


def candidate_algorithms(
    library: Library, kind: CollectiveKind, added_later: bool, via: str, message_bytes: float, group: GroupShape
) -> tuple[str, ...]:
    """Return what may carry a call with its largest message, less what the library's own rule of trees excludes; of
    what is left the fastest is taken. Raises InputError as `allowed_algorithms`."""
    left = algorithms_left(library, kind, added_later, via, message_bytes, group)
    return tuple([name for name, is_left in left.items() if is_left])


def algorithms_left(
    library: Library, kind: CollectiveKind, added_later: bool, via: str, message_bytes: float, group: GroupShape
) -> dict[str, bool]:
    """Return of each algorithm that may carry the call whether the library's own rule of trees leaves it; for a library
    whose numbers vary an array of that. Raises InputError as `allowed_algorithms`."""
    options = allowed_algorithms(library, kind, added_later, via)
    if library.tuning is None or TREE not in options or set(options) == {TREE}:
        return dict.fromkeys(options, True)
    by_tree = library.tuning.takes_tree(message_bytes, group)
    return {name: by_tree == (name == TREE) for name in options}


def with_algorithms(library: Library, chosen: Mapping[CollectiveKind, tuple[str, ...]]) -> Library:
    """The library with other `choices`: of several algorithms the one that is fastest alone is taken, and trees beside
    others where the library's own rule takes them.

    A plan's `via` wins over it, and messages that cannot be summed on their way go directly all the same.
    Raises InputError, under the kind of call, where the library has no numbers of an algorithm, or no schedule can be
    simulated with it.
    """
    for kind, names in chosen.items():
        for name in names:
            if fault := _fault(library, kind, name):
                allowed = ", ".join([LIBRARY, *(each for each in carriers(kind) if not _fault(library, kind, each))])
                raise InputError(f"got {shown(name)}, but {fault}; allowed: {allowed}", key=(kind,))
    return replace(library, choices={**library.choices, **chosen})


def _fault(library: Library, kind: CollectiveKind, name: str) -> str:
    """Why the library cannot carry a kind of call by an algorithm, "" where it can."""
    by = algorithm(name)
    if lacked := by.lacks(library, kind):
        return f"library {library.name} has no {lacked}"
    return by.not_as_loads.partition(";")[0]


BUS_RATE = "link_classes.bus.bytes_per_s"


def machine_numbers(calibration: Calibration, machine: Machine, library: Library) -> MeasuredNumbers:
    """The numbers of the machine's file that the calibration replaces.

    On a machine with a bus, all groups of a table share it, and each takes its time alone; so the bus carries at least
    the largest total rate over all tables. It is set to that rate where the calibration does not say it. Calls that
    have a table keep the whole bus while they run, so the rate matters to groups without one. Raises InputError where
    the calibration says less than that.
    """
    numbers = dict(calibration.machine)
    rates = {table.group: total_bytes_per_s(table, machine, library) for table in calibration.calls if table.nodes == 1}
    if machine.node.has_bus and rates:
        fastest = max(rates, key=lambda group: rates[group])
        needed = rates[fastest] / machine.link_classes["bus"].share
        if numbers.setdefault(BUS_RATE, needed) < needed:
            raise InputError(
                f'machine."{BUS_RATE}": got {numbers[BUS_RATE]:g}, allowed: at least {needed:g}, the total rate of '
                f"{fastest[0]} over {fastest[1]} ranks"
            )
    return MeasuredNumbers(numbers=numbers, source=calibration.source)


def total_bytes_per_s(table: CallTable, machine: Machine, library: Library) -> float:
    """What all ranks of a node together send at the fastest point of a table: its groups fill the node."""
    name = library.choices[table.kind][0]
    sent = float(sent_part(table.kind, name, table.ranks))
    return machine.devices_per_node * sent * table.fastest_bytes_per_s
