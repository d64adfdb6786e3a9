"""Interface of a collective algorithm: callers use these methods and know no algorithm by name."""

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
    """Equal groups of ranks that make the same call at the same time, alone on their machine."""

    @property
    def fabric(self) -> Fabric:
        """Fabric of the machine."""

    @property
    def groups(self) -> Ranks:
        """Ranks of the groups, [num_groups, n]."""

    @property
    def shape(self) -> GroupShape:
        """Shape of every group."""

    def sent_per_s(self, name: str, library: Library) -> float:
        """Return the highest rate, in bytes/s, at which a rank of the slowest group sends by the named algorithm."""

    def seconds_by(self, name: str, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Return the time of the call, in seconds, by the named algorithm."""

    def split(self, name: str, into: Callable[[Fabric, Ranks], Iterable[Ranks]]) -> Sequence[CallsAlone]:
        """Return the same ranks in other groups, as the named algorithm splits its calls; the layout is computed
        once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm(ABC):
    """Base class of collective algorithms.

    name           name in schedules, libraries and recipes
    title          readable title, e.g. "recursive halving and doubling"
    collectives    supported kinds of calls; their transfers are proved
    lowered        function from a kind and a recipe to the transfers of one group's call
    in_libraries   kinds of calls for which a library's file may choose it, in its table `said_in`
    in_plans       whether a plan's hop, or a collective of a schedule file, may request it
    laws           parts of a library's file that determine its time
    not_as_loads   reason why no schedule can be simulated with it, "" where one can; single calls have a law anyway
    not_as_chunks  reason why its calls have no law of single messages (fidelity `chunk`), "" where they have
    adds_in_place  whether a rank that adds reads the operand that it adds to
    has_floor      whether a call takes at least its least latency and its bytes at the cap (`least_latency_s`)

    All methods consider a call with a message of S bytes in a group of n ranks; `Library` documents a library's
    numbers.
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
        """Return whether schedules with such calls are simulated at fidelity `flow` and `analytic`."""
        return not self.not_as_loads and (kind in self.in_libraries or (self.in_plans and kind in self.collectives))

    def runs_as_chunks(self, kind: CollectiveKind) -> bool:
        """Return whether schedules with such calls are simulated at fidelity `chunk`."""
        return self.runs_as_loads(kind) and not self.not_as_chunks

    # ── what it moves ──

    def rounds(self, kind: CollectiveKind) -> int:
        """Return the number of times the blocks of a message go around: an all-reduce is a reduce-scatter and an
        all-gather."""
        return 2 if kind == "all_reduce" else 1

    def sent_part(self, kind: CollectiveKind, num_ranks: int) -> Fraction:
        """Return the bytes that a rank sends per byte of the message: the volume to which loads on links refer."""
        return self.rounds(kind) * Fraction(num_ranks - 1, num_ranks)

    def num_transfers(self, kind: CollectiveKind, recipe: Recipe) -> int:
        """Return an upper bound on the number of transfers of `lowered`, without building them."""
        size = recipe.size
        if kind == "all_to_all":  # copies within a member too, or one level after the other
            return 2 * size * size * recipe.parts
        return self.rounds(kind) * size * max(1, size - 1) * recipe.parts

    def memory_per_byte(self, kind: CollectiveKind) -> float:
        """Return the bytes of device memory read and written per byte of the volume: sent data is read, received data
        is written, and the operand of an addition is read as well."""
        if not self.adds_in_place or kind not in ("reduce_scatter", "all_reduce"):
            return 2.0
        return 2.0 + 1.0 / self.rounds(kind)

    def loads(
        self, fabric: Fabric, groups: Ranks, library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        """Return the load of a call of all groups ([num_groups, n] ranks) on every link, per byte of the volume.
        `shares`: the share of each link class that the call achieves (None: the library's)."""
        raise AssertionError(self.not_as_loads or f"{self.name} has no loads")

    def knowing(self, library: Library, calls: CallsAlone) -> Library:
        """Return the library with the numbers of these groups that it needs before their calls can be timed."""
        return library

    # ── how long a library takes by it ──

    @abstractmethod
    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the time of a call, in seconds, beyond volume / bytes_per_s, at the rate at which a rank sends
        alone."""

    def least_latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return a lower bound on `latency_s` at that rate and at any above it: here the minimum of both ends, for
        latencies that are monotonic in the rate."""
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
        """Return the law of single messages of which `latency_s` is the sum; `num_orders` channels share `bytes_per_s`.
        Every algorithm has one unless `not_as_chunks` gives the reason why not."""
        raise AssertionError(self.not_as_chunks or f"{self.name} has no law of single messages")

    def seconds_alone(self, calls: CallsAlone, library: Library, kind: CollectiveKind, message_bytes: float) -> float:
        """Return the time, in seconds, of a call that all groups make at once while nothing else runs. Raises
        InputError for unsupported groups."""
        return self.seconds_at(library, kind, message_bytes, calls.shape, calls.sent_per_s(self.name, library))

    def seconds_at(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Return the time, in seconds, of a call whose ranks send at that rate."""
        latency_s = self.latency_s(library, kind, message_bytes, group, bytes_per_s)
        return latency_s + self.sent(kind, group.size) * message_bytes / bytes_per_s

    def sent(self, kind: CollectiveKind, num_ranks: int) -> float:
        """Return `sent_part` as a float."""
        return _sent(self, kind, num_ranks)

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        """Return the highest rate, in bytes/s, at which a rank sends, whatever the links."""
        return math.inf

    def shares(self, library: Library) -> Mapping[str, float]:
        """Return the share of link classes that the algorithm achieves, as far as the library knows it."""
        return library.shares

    def shares_ratio(self, library: Library) -> float:
        """Return the factor on the share of every link class."""
        return 1.0

    def shares_of(self, library: Library, point_to_point: Mapping[str, float]) -> Mapping[str, float]:
        """Return the share of each link class that the library achieves by this algorithm; `point_to_point`: the shares
        of a plain copy, the default."""
        known, ratio = self.shares(library), self.shares_ratio(library)
        return {link: ratio * known.get(link, share) for link, share in point_to_point.items()}

    def shares_on(self, library: Library, machine: Machine) -> Mapping[str, float]:
        """Return the share of each of a machine's link classes that the library achieves by this algorithm."""
        return self.shares_of(library, {link: each.share for link, each in machine.link_classes.items()})

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        """Return the name of the numbers that the algorithm needs for that kind of call and the library lacks; "" if
        none."""
        return ""

    # ── how a group's call is laid out ──

    def slices(self, library: Library, channel_bytes: float, num_nodes: int) -> int:
        """Return the number of successive slices into which a channel cuts its blocks."""
        return 1

    def ring_order(self, library: Library) -> RingOrder:
        """Return which orders of a node's members the channels follow."""
        return library.ring_order

    def channels(self, orders: list[tuple[list[int], ...]]) -> list[tuple[int, ...]]:
        """Return for each channel the order of all members: its order on every node, one node after another."""
        return [tuple(member for order in by_node for member in order) for by_node in orders]

    def lanes(self, num_nodes: int) -> int:
        """Return the number of separate paths into which a channel's share is split."""
        return 1

    def least_elements(self, library: Library) -> int:
        """Return the minimum number of elements of a part of a block."""
        return 1

    def is_reversed(self, library: Library, kind: CollectiveKind) -> bool:
        """Return whether the channels run against their orders."""
        return False

    def most_at_once(self, library: Library) -> int | None:
        """Return the maximum number of messages of a member in flight (None: unlimited)."""
        return None


@lru_cache(maxsize=256)
def _sent(by: Algorithm, kind: CollectiveKind, num_ranks: int) -> float:
    return float(by.sent_part(kind, num_ranks))
