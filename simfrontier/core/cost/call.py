"""Work of an op on a machine (latency, amount and load), and a collective call as the input of a library's time law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfrontier.core.collectives import (
    GroupShape,
    Library,
    algorithm as algorithm_of,
    algorithms_left,
    candidate_algorithms,
    messages_of,
    sent_part,
)
from simfrontier.core.machine import where
from simfrontier.core.program import DIRECT, LIBRARY, Collective, CollectiveKind, Schedule

LOCAL = "local"  # key of the pattern of ranks by themselves


@dataclass(frozen=True, slots=True)
class Flow:
    """Load of an activity class on the link classes per unit of speed, and the maximum speed of the flow (`cap`).

    `reserved`: capacity of the link classes that the flow occupies as long as it runs, at any speed: the compute units
    used by a collective's channels. Reserved capacity is subtracted before the rest is shared among flows.
    """

    rows: NDArray[np.int64]
    load: NDArray[np.float64]
    reserved: NDArray[np.float64]
    cap: float


@dataclass(frozen=True, slots=True)
class OpWork:
    """Work of one op on one activity class: a latency in seconds, followed by the transfer of `amount` at a speed of at
    most `alone`; `flow` is the number of the work's flow. During the latency the flow `starting`, which transfers
    nothing, reserves the capacity that `flow` reserves (-1: nothing). If the op needs a dead component, the work stands
    still: its latency is infinite."""

    latency_s: float
    amount: float
    alone: float
    flow: int
    starting: int = -1

    @property
    def alone_s(self) -> float:
        """Time in seconds without contention."""
        return np.inf if self.stands_still else self.latency_s + (self.amount / self.alone if self.amount else 0.0)

    @property
    def stands_still(self) -> bool:
        """True if the op cannot proceed before the machine changes to another state."""
        return self.latency_s == np.inf


NO_WORK = OpWork(0.0, 0.0, 1.0, -1)
STILL = OpWork(np.inf, 0.0, 1.0, -1)  # a wait of a dead device


@dataclass(frozen=True, slots=True)
class PricedOp:
    """An op priced on every activity class of its pattern; on classes of roles that do not contain the op, there is no
    work."""

    pattern: str
    works: tuple[OpWork, ...]


class Call(NamedTuple):
    """Collective call that equal groups of the same shape execute at the same time: its kind, the sizes in bytes of its
    messages, which follow one another, whether the contributions to a reduction are added only after all have arrived
    (`is_added_later`), and the mechanism that transfers the messages (`via`)."""

    kind: CollectiveKind
    sizes: tuple[float, ...]
    shape: GroupShape
    is_added_later: bool = False
    via: str = LIBRARY

    @classmethod
    def of(cls, op: Collective, schedule: Schedule, shape: GroupShape) -> Call:
        """Return the collective call of an op whose groups have the shape `shape`."""
        sizes = tuple([message.num_bytes for message in messages_of(op, schedule.tensors, schedule.mesh)])
        return cls(op.kind, sizes, shape, op.is_added_later, op.via)

    def algorithms(self, library: Library) -> tuple[str, ...]:
        """Return the names of the algorithms that the library may use for the call. Raises the errors of
        `candidate_algorithms`."""
        return candidate_algorithms(library, self.kind, self.is_added_later, self.via, max(self.sizes), self.shape)

    def algorithms_left(self, library: Library) -> dict[str, bool]:
        """Return for each of the call's algorithms whether the library's own selection rule permits it, as determined
        by `algorithms_left` of the libraries."""
        return algorithms_left(library, self.kind, self.is_added_later, self.via, max(self.sizes), self.shape)

    def volume_bytes(self, algorithm: str) -> float:
        """Return the bytes that one rank sends in the call with an algorithm."""
        return float(sent_part(self.kind, algorithm, self.shape.size) * sum(self.sizes))

    def latency_s(self, algorithm: str, library: Library, sent_per_s: float) -> float:
        """Return the time of the call in seconds minus volume / `sent_per_s`, where `sent_per_s` is the rate at which a
        rank sends."""
        by = algorithm_of(algorithm)
        return sum([by.latency_s(library, self.kind, size, self.shape, sent_per_s) for size in self.sizes])

    def seconds(self, algorithm: str, library: Library, sent_per_s: float) -> float:
        """Return the time of the call in seconds if a rank sends at the rate `sent_per_s`; infinite if the rate is
        0."""
        by, is_sent = algorithm_of(algorithm), sent_per_s > 0.0
        rate = where(is_sent, sent_per_s, 1.0)
        seconds = sum([by.seconds_at(library, self.kind, size, self.shape, rate) for size in self.sizes])
        return where(is_sent, seconds, math.inf)

    def least_s(self, algorithm: str, library: Library, slowest_per_s: float) -> float:
        """Return a lower bound of the call's time in any group whose ranks send at `slowest_per_s` or faster: the least
        start-up, plus the call's bytes at the library's maximum sending rate."""
        by = algorithm_of(algorithm)
        start_up = sum(by.least_latency_s(library, self.kind, size, self.shape, slowest_per_s) for size in self.sizes)
        return start_up + sum(self.sizes) * by.sent(self.kind, self.shape.size) / by.cap_bytes_per_s(
            library, self.shape
        )


# ── exchanges ──


def pair_shape(edges: Sequence[int]) -> GroupShape:
    """Return the shape of two ranks whose messages cross these boundaries (same package, same node, between nodes)."""
    return GroupShape(size=2, num_nodes=1 + bool(edges[2]), num_packages=2 - bool(edges[0]))


def exchange_latency_s(num_bytes: float, shape: GroupShape, library: Library, sent_per_s: float) -> float:
    """Return the time of an exchange in seconds minus (bytes of its larger message) / (rate at which its ranks
    send)."""
    # both send what they have to the other: an all-gather of two
    return algorithm_of(DIRECT).latency_s(library, "all_gather", 2.0 * num_bytes, shape, sent_per_s)


def exchange_s(num_bytes: float, shape: GroupShape, library: Library, sent_per_s: float) -> float:
    """Return the time of an exchange without contention."""
    return exchange_latency_s(num_bytes, shape, library, sent_per_s) + num_bytes / sent_per_s
