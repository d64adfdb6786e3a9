"""A collective call as a library's law sees it: what may carry it, and how long it takes at a rate."""

from __future__ import annotations

import math
from typing import NamedTuple

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
from simfrontier.core.program import LIBRARY, Collective, CollectiveKind, Schedule


class Call(NamedTuple):
    """A call that equal groups of a shape make at the same time: its kind, who adds, what carries it (`via`), and the
    bytes of its messages, which follow one another."""

    kind: CollectiveKind
    sizes: tuple[float, ...]
    shape: GroupShape
    is_added_later: bool = False
    via: str = LIBRARY

    @classmethod
    def of(cls, op: Collective, schedule: Schedule, shape: GroupShape) -> Call:
        """The call of an op, whose groups have that shape."""
        sizes = tuple([message.num_bytes for message in messages_of(op, schedule.tensors, schedule.mesh)])
        return cls(op.kind, sizes, shape, op.is_added_later, op.via)

    def algorithms(self, library: Library) -> tuple[str, ...]:
        """What may carry it; errors as `candidate_algorithms`."""
        return candidate_algorithms(library, self.kind, self.is_added_later, self.via, max(self.sizes), self.shape)

    def algorithms_left(self, library: Library) -> dict[str, bool]:
        """Of each of its algorithms whether the library's own rule leaves it; as `algorithms_left` of libraries."""
        return algorithms_left(library, self.kind, self.is_added_later, self.via, max(self.sizes), self.shape)

    def volume_bytes(self, algorithm: str) -> float:
        """Bytes that a rank sends by an algorithm."""
        return float(sent_part(self.kind, algorithm, self.shape.size) * sum(self.sizes))

    def latency_s(self, algorithm: str, library: Library, sent_per_s: float) -> float:
        """Time beyond its volume over the rate at which a rank sends."""
        by = algorithm_of(algorithm)
        return sum([by.latency_s(library, self.kind, size, self.shape, sent_per_s) for size in self.sizes])

    def seconds(self, algorithm: str, library: Library, sent_per_s: float) -> float:
        """Its time at that rate; endless where nothing can be sent."""
        by, is_sent = algorithm_of(algorithm), sent_per_s > 0.0
        rate = where(is_sent, sent_per_s, 1.0)
        seconds = sum([by.seconds_at(library, self.kind, size, self.shape, rate) for size in self.sizes])
        return where(is_sent, seconds, math.inf)

    def least_s(self, algorithm: str, library: Library, slowest_per_s: float) -> float:
        """No more than its time in any group whose ranks send at that rate or faster: the least start-up, and its bytes
        at the library's cap."""
        by = algorithm_of(algorithm)
        start_up = sum(by.least_latency_s(library, self.kind, size, self.shape, slowest_per_s) for size in self.sizes)
        return start_up + sum(self.sizes) * by.sent(self.kind, self.shape.size) / by.cap_bytes_per_s(
            library, self.shape
        )
