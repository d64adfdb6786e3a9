"""What an algorithm of collectives is: every reader asks these questions and knows no algorithm by name."""

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
        """Of the machine."""

    @property
    def groups(self) -> Ranks:
        """Their ranks, [num_groups, n]."""

    @property
    def shape(self) -> GroupShape:
        """Of every group."""

    def sent_per_s(self, name: str, library: Library) -> float:
        """What a rank of the slowest group sends at most by an algorithm."""

    def seconds_by(self, name: str, library: Library, kind: CollectiveKind, num_bytes: float) -> float:
        """Time of the call by an algorithm."""

    def split(self, name: str, into: Callable[[Fabric, Ranks], Iterable[Ranks]]) -> Sequence[CallsAlone]:
        """The same ranks in other groups, as an algorithm of that name splits its calls; laid out once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm(ABC):
    """An algorithm of collectives.

    name           as schedules, libraries and recipes write it
    title          for people, e.g. "recursive halving and doubling"
    collectives    the kinds of calls that it knows: its transfers of them are proved
    lowered        the transfers of a call of one group, of its kind and recipe
    in_libraries   the kinds of calls that a library's file may carry by it, said in its table `said_in`
    in_plans       whether a plan's hop, or a collective of a schedule file, may ask for it
    laws           the parts of a library's file that say how long it takes
    not_as_loads   why no schedule can be simulated with it, "" where one can; single calls have their law all the same
    not_as_chunks  why its calls have no law of single messages (fidelity `chunk`), "" where they have
    adds_in_place  whether a rank that adds reads what it adds to
    has_floor      whether a call takes at least its least latency and its bytes at the cap (`least_latency_s`)

    Of a call with a message of S bytes in a group of n ranks; `Library` documents the numbers of a library.
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
        """Whether schedules with such calls are simulated at fidelity `flow` and `analytic`."""
        return not self.not_as_loads and (kind in self.in_libraries or (self.in_plans and kind in self.collectives))

    def runs_as_chunks(self, kind: CollectiveKind) -> bool:
        """Whether they are simulated at fidelity `chunk`."""
        return self.runs_as_loads(kind) and not self.not_as_chunks

    # ── what it moves ──

    def rounds(self, kind: CollectiveKind) -> int:
        """How often the blocks of a message go around: an all-reduce is a reduce-scatter and an all-gather."""
        return 2 if kind == "all_reduce" else 1

    def sent_part(self, kind: CollectiveKind, num_ranks: int) -> Fraction:
        """Bytes that a rank sends per byte of the message: the volume that loads on links are counted in."""
        return self.rounds(kind) * Fraction(num_ranks - 1, num_ranks)

    def num_transfers(self, kind: CollectiveKind, recipe: Recipe) -> int:
        """How many transfers `lowered` makes at most, counted without making them."""
        size = recipe.size
        if kind == "all_to_all":  # copies within a member too, or one level after the other
            return 2 * size * size * recipe.parts
        return self.rounds(kind) * size * max(1, size - 1) * recipe.parts

    def memory_per_byte(self, kind: CollectiveKind) -> float:
        """Bytes of device memory read and written per byte of the volume: what is sent is read, what comes is written,
        and what it is added to is read, too."""
        if not self.adds_in_place or kind not in ("reduce_scatter", "all_reduce"):
            return 2.0
        return 2.0 + 1.0 / self.rounds(kind)

    def loads(
        self, fabric: Fabric, groups: Ranks, library: Library, shares: Mapping[str, float] | None = None
    ) -> Pattern:
        """What a call of all groups ([num_groups, n] ranks) loads on every link, per byte of the volume; `shares` of
        link classes that it reaches (None: as the library says)."""
        raise AssertionError(self.not_as_loads or f"{self.name} has no loads")

    def knowing(self, library: Library, calls: CallsAlone) -> Library:
        """The library with what it has to know of these groups before their calls have a time."""
        return library

    # ── how long a library takes by it ──

    @abstractmethod
    def latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Time of a call beyond volume / bytes_per_s, at the rate at which a rank sends alone."""

    def least_latency_s(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """No more than `latency_s` at that rate and at any above it: here the least of both ends, for latencies that
        only grow or only shrink with the rate."""
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
        """The law of single messages that `latency_s` is the sum of; `num_orders` channels share `bytes_per_s`. All
        algorithms have one that do not say why they have none (`not_as_chunks`)."""
        raise AssertionError(self.not_as_chunks or f"{self.name} has no law of single messages")

    def seconds_alone(self, calls: CallsAlone, library: Library, kind: CollectiveKind, message_bytes: float) -> float:
        """Time of a call that all groups make at once, when nothing else runs. Raises InputError for groups that it
        does not know."""
        return self.seconds_at(library, kind, message_bytes, calls.shape, calls.sent_per_s(self.name, library))

    def seconds_at(
        self, library: Library, kind: CollectiveKind, message_bytes: float, group: GroupShape, bytes_per_s: float
    ) -> float:
        """Time of a call whose ranks send at that rate."""
        latency_s = self.latency_s(library, kind, message_bytes, group, bytes_per_s)
        return latency_s + self.sent(kind, group.size) * message_bytes / bytes_per_s

    def sent(self, kind: CollectiveKind, num_ranks: int) -> float:
        """`sent_part` as a number."""
        return _sent(self, kind, num_ranks)

    def cap_bytes_per_s(self, library: Library, group: GroupShape) -> float:
        """What a rank sends at most, whatever the links."""
        return math.inf

    def shares(self, library: Library) -> Mapping[str, float]:
        """The share of link classes that it reaches, as far as the library knows it."""
        return library.shares

    def shares_ratio(self, library: Library) -> float:
        """By which every share of a link is multiplied."""
        return 1.0

    def shares_of(self, library: Library, point_to_point: Mapping[str, float]) -> Mapping[str, float]:
        """The share of each link class that the library reaches by it, given what a plain copy achieves."""
        known, ratio = self.shares(library), self.shares_ratio(library)
        return {link: ratio * known.get(link, share) for link, share in point_to_point.items()}

    def shares_on(self, library: Library, machine: Machine) -> Mapping[str, float]:
        """The share of each of a machine's link classes that the library reaches by it."""
        return self.shares_of(library, {link: each.share for link, each in machine.link_classes.items()})

    def lacks(self, library: Library, kind: CollectiveKind) -> str:
        """What the library has no numbers of, though the algorithm needs them for that kind of call; "" where nothing
        is missing."""
        return ""

    # ── how a group's call is laid out ──

    def slices(self, library: Library, channel_bytes: float, num_nodes: int) -> int:
        """Into how many parts, that follow one another, a channel cuts its blocks."""
        return 1

    def ring_order(self, library: Library) -> RingOrder:
        """Which orders of a node's members its channels follow."""
        return library.ring_order

    def channels(self, orders: list[tuple[list[int], ...]]) -> list[tuple[int, ...]]:
        """Per channel the order of all members, from the channels' orders on every node: one node after another."""
        return [tuple(member for order in by_node for member in order) for by_node in orders]

    def lanes(self, num_nodes: int) -> int:
        """How many parts of a channel's share go ways of their own."""
        return 1

    def least_elements(self, library: Library) -> int:
        """Of a part of a block."""
        return 1

    def is_reversed(self, library: Library, kind: CollectiveKind) -> bool:
        """Whether its channels run against their orders."""
        return False

    def most_at_once(self, library: Library) -> int | None:
        """Messages of a member that may be under way at once (None: any number)."""
        return None


@lru_cache(maxsize=256)
def _sent(by: Algorithm, kind: CollectiveKind, num_ranks: int) -> float:
    return float(by.sent_part(kind, num_ranks))
