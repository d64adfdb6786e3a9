"""The meaning of a collective: the chunks of a message with which ranks begin, and the sums with which they end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simfrontier.core.program import ChunkSum, CollectiveKind


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a collective of `size` ranks makes of a message of `num_chunks` chunks.

    But for an all-reduce the message is `size` equal pieces, one after the other.
    """

    kind: CollectiveKind
    size: int
    num_chunks: int

    def input(self, rank: int) -> range:
        """The part of a message that a rank's input is: its piece in an all-gather, else all."""
        return self._piece(rank) if self.kind == "all_gather" else range(self.num_chunks)

    def output(self, rank: int) -> range:
        """The part of a message that a rank's output is: its piece in a reduce-scatter, else all."""
        return self._piece(rank) if self.kind == "reduce_scatter" else range(self.num_chunks)

    def before(self, rank: int) -> Iterator[ChunkSum]:
        """The chunks of a rank's input."""
        return (ChunkSum(chunk, 1 << rank) for chunk in self.input(rank))

    def after(self, rank: int) -> Iterator[ChunkSum]:
        """The chunks of a rank's output."""
        match self.kind:
            case "all_gather":
                return (ChunkSum(chunk, 1 << owner) for owner in range(self.size) for chunk in self._piece(owner))
            case "all_to_all":
                return (ChunkSum(chunk, 1 << sender) for sender in range(self.size) for chunk in self._piece(rank))
            case "reduce_scatter" | "all_reduce":
                return (ChunkSum(chunk, (1 << self.size) - 1) for chunk in self.output(rank))

    def _piece(self, rank: int) -> range:
        each = self.num_chunks // self.size
        return range(rank * each, (rank + 1) * each)
