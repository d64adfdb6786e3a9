"""Interface of a collective algorithm: other modules use these methods and do not depend on any particular
algorithm."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from simfrontier.core.collectives.laws import GroupShape, StepLaw
from simfrontier.core.collectives.transfers import Lowered, Recipe
from simfrontier.core.program import CollectiveKind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from simfrontier.core.collectives.library import Library
    from simfrontier.core.machine import Machine
    from simfrontier.core.network import Fabric, Pattern, RingOrder

    Ranks = NDArray[np.integer]


class CallsAlone(Protocol):
    """Groups of equal shape that perform the same collective at the same time, with no other traffic on their
    machine."""

    @property
    def fabric(self) -> Fabric:
        """Fabric of the machine on which the collectives run."""

    @property
    def groups(self) -> Ranks:
        """Ranks of the groups, [num_groups, n]."""

    @property
    def shape(self) -> GroupShape:
        """Shape of every group."""

    def sent_per_s(self, name: str, library: Library) -> float:
        """Return the highest rate, in bytes/s, at which a rank of the slowest group sends data if the collective uses
        the named algorithm."""

    def seconds_by(self, name: str, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Return the time of the collective, in seconds, if it uses the named algorithm."""

    def split(self, name: str, into: Callable[[Fabric, Ranks], Iterable[Ranks]]) -> Sequence[CallsAlone]:
        """Return the same ranks split into other groups by the function `into`, as the named algorithm does for its
        sub-calls; the layout is computed once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm(ABC):
    """Base class of collective algorithms.

    name           name in schedules, libraries and recipes
    title          readable title, e.g. "recursive halving and doubling"
    collectives    supported kinds of calls; their transfers are proved
    lowered        function from a kind of collective and a recipe to the transfers of one group
    in_libraries   kinds of calls for which a library's file may choose it, in its table `said_in`
    in_plans       whether a plan's hop, or a collective of a schedule file, may request it
    laws           parts of a library's file that determine the time of the algorithm
    not_as_loads   reason why no schedule can be simulated with it, "" if it can; single calls always have a law
    not_as_chunks  reason why its calls have no law of single messages (fidelity `chunk`), "" if they have one
    adds_in_place  whether a rank that adds reads the operand that it adds to
    has_floor      whether a call takes at least its least latency and its bytes at the cap (`least_latency_s`)

    All methods refer to a collective call with a message of S bytes in a group of n ranks; `Library` documents the
    parameters of a library.
    """

    name: str
    title: str
    collectives: tuple[CollectiveKind, ...]
    lowered: Callable[[CollectiveKind, Recipe], Lowered]
    in_libraries: tuple[CollectiveKind, ...] = ()
    said_in: str = "algorithms"
    in_plans: bool = False
    laws: tuple[str, ...] = ()
    not_as_loads: str = ""
    not_as_chunks: str = ""
    adds_in_place: bool = True
    has_floor: bool = True

    def runs_as_loads(self, kind: CollectiveKind) -> bool:
        """Return whether schedules with this kind of collective can be simulated at fidelity `flow` and `analytic`."""
        return not self.not_as_loads and (kind in self.in_libraries or (self.in_plans and kind in self.collectives))

    def runs_as_chunks(self, kind: CollectiveKind) -> bool:
        """Return whether schedules with this kind of collective can be simulated at fidelity `chunk`."""
        return self.runs_as_loads(kind) and not self.not_as_chunks

    # ── what it moves ──

    def rounds(self, kind: CollectiveKind) -> int:
        """Return the number of passes of the message's blocks around the group: 2 for an all-reduce, which is a
        reduce-scatter and an all-gather, else 1."""
        return 2 if kind == "all_reduce" else 1

    def sent_part(self, kind: CollectiveKind, num_ranks: int) -> Fraction:
        """Return the bytes that a rank sends per byte of the message. The bytes that a rank sends are the volume, to
        which loads on links refer."""
        return self.rounds(kind) * Fraction(num_ranks - 1, num_ranks)

    def num_transfers(self, kind: CollectiveKind, recipe: Recipe) -> int:
        """Return an upper bound on the number of transfers of `lowered`, without building them."""
        size = recipe.size
        if kind == "all_to_all":  # copies within a member too, or one level after the other
            return 2 * size * size * recipe.parts
        return self.rounds(kind) * size * max(1, size - 1) * recipe.parts

    def memory_per_byte(self, kind: CollectiveKind) -> float:
        """Return the bytes of device memory read and written per byte of the volume: sent data is read, received data
        is written, and an addition also reads its other operand."""
        if not self.adds_in_place or kind not in ("reduce_scatter", "all_reduce"):
            return 2.0
        return 2.0 + 1.0 / self.rounds(kind)

    def loads(
        self, fabric: Fabric, groups: Ranks, library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        """Return the load pattern of one call in each group ([num_groups, n] ranks), per byte of the volume. `shares`:
        the share of nominal bandwidth that the call achieves on each link class (None: as in the library)."""
        raise AssertionError(self.not_as_loads or f"{self.name} has no loads")

    def knowing(self, library: Library, calls: CallsAlone) -> Library:
        """Return the library with the parameters for these groups that the algorithm needs to compute the time of their
        calls."""
        return library

    # ── how long a library takes by it ──

    @abstractmethod
    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the latency of a call, in seconds: its time minus volume / bytes_per_s, where bytes_per_s is the rate
        at which a rank sends while nothing else runs."""

    def least_latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return a lower bound on `latency_s` at this rate and at any higher rate: here the minimum of the latencies at
        this rate and at an infinite one, for latencies that are monotonic in the rate."""
        rates = (bytes_per_s, math.inf)
        return min([self.latency_s(library, kind, message_bytes, group, rate) for rate in rates])

    def step_law(
        self,
        library: Library,
        kind: CollectiveKind,
        message_bytes: float,
        group: GroupShape,
        bytes_per_s: float,
        num_orders: int,
    ) -> StepLaw:
        """Return the time law of the call's single messages, whose times add up to `latency_s`; `num_orders` channels
        share `bytes_per_s`. Every algorithm has such a law unless `not_as_chunks` gives the reason why it has none."""
        raise AssertionError(self.not_as_chunks or f"{self.name} has no law of single messages")

    def seconds_alone(self, calls: CallsAlone, library: Library, kind: CollectiveKind, message_bytes: float) -> float:
        """Return the time, in seconds, of a call that all groups perform at the same time while nothing else runs.
        Raises InputError for unsupported groups."""
        return self.seconds_at(library, kind, message_bytes, calls.shape, calls.sent_per_s(self.name, library))

    def seconds_at(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the time, in seconds, of a call whose ranks send at the rate `bytes_per_s`."""
        latency_s = self.latency_s(library, kind, message_bytes, group, bytes_per_s)
        return latency_s + self.sent(kind, group.size) * message_bytes / bytes_per_s

    def sent(self, kind: CollectiveKind, num_ranks: int) -> float:
        """Return `sent_part` as a float."""
        return _sent(self, kind, num_ranks)

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        """Return the highest rate, in bytes/s, at which a rank can send, independent of the links."""
        return math.inf

    def shares(self, library: Library) -> Mapping[str, float]:
        """Return the share of nominal bandwidth that the algorithm achieves on each link class that the library
        specifies."""
        return library.shares

    def shares_ratio(self, library: Library) -> float:
        """Return the factor of this algorithm on the achieved shares of all link classes."""
        return 1.0

    def shares_of(self, library: Library, point_to_point: Mapping[str, float]) -> Mapping[str, float]:
        """Return the share of nominal bandwidth that the library achieves by this algorithm on each link class.
        `point_to_point`: the shares of a plain copy, which are the default."""
        known, ratio = self.shares(library), self.shares_ratio(library)
        return {link: ratio * known.get(link, share) for link, share in point_to_point.items()}

    def shares_on(self, library: Library, machine: Machine) -> Mapping[str, float]:
        """Return the share of nominal bandwidth that the library achieves by this algorithm on each of a machine's link
        classes."""
        return self.shares_of(library, {link: each.share for link, each in machine.link_classes.items()})

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        """Return the name of the parameters that the algorithm needs for this kind of collective and that the library
        lacks; "" if none."""
        return ""

    # ── how a group's call is laid out ──

    def slices(self, library: Library, channel_bytes: float, num_nodes: int) -> int:
        """Return the number of slices into which each channel cuts its blocks; slices move one after the other."""
        return 1

    def ring_order(self, library: Library) -> RingOrder:
        """Return the rule by which each channel orders the ranks of a node: "links" or "ranks"."""
        return library.ring_order

    def channels(self, orders: list[tuple[list[int], ...]]) -> list[tuple[int, ...]]:
        """Return for each channel the order of all ranks of the group: the channel's order on every node, one node
        after another."""
        return [tuple(member for order in by_node for member in order) for by_node in orders]

    def lanes(self, num_nodes: int) -> int:
        """Return the number of separate paths over which a channel splits its share of the data."""
        return 1

    def least_elements(self, library: Library) -> int:
        """Return the minimum number of elements in a part of a block."""
        return 1

    def is_reversed(self, library: Library, kind: CollectiveKind) -> bool:
        """Return whether data moves against the order of ranks in each channel."""
        return False

    def units(self, library: Library) -> float:
        """Return the compute units that the kernel of a call occupies."""
        return library.num_channels * library.units_per_channel

    def most_at_once(self, library: Library) -> int | None:
        """Return the maximum number of messages that a rank has in flight (None: unlimited)."""
        return None


@lru_cache(maxsize=256)
def _sent(by: Algorithm, kind: CollectiveKind, num_ranks: int) -> float:
    return float(by.sent_part(kind, num_ranks))
