"""The meaning of a collective: the chunks of a message with which ranks begin, and the sums with which they end."""

from __future__ import annotations

from simfrontier.records import dataclass
from simfrontier.schedule import ChunkSum, CollectiveKind


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a collective of `size` ranks makes of a message of `num_chunks` chunks.

    But for an all-reduce the message is `size` equal pieces, one after the other. A rank's input is its own piece in an
    all-gather, else a message; its output its own piece in a reduce-scatter, else a message.
    """

    kind: CollectiveKind
    size: int
    num_chunks: int

    @property
    def num_inputs(self) -> int:
        """Chunks of a rank's input."""
        return self._num_own if self.kind == "all_gather" else self.num_chunks

    @property
    def num_outputs(self) -> int:
        """Chunks of a rank's output."""
        return self._num_own if self.kind == "reduce_scatter" else self.num_chunks

    def inputs(self, rank: int) -> list[ChunkSum]:
        """The chunks of a rank's input."""
        chunks = self._own(rank) if self.kind == "all_gather" else range(self.num_chunks)
        return [ChunkSum(chunk, 1 << rank) for chunk in chunks]

    def outputs(self, rank: int) -> list[ChunkSum]:
        """The chunks of a rank's output."""
        everyone = (1 << self.size) - 1
        match self.kind:
            case "all_gather":
                return [ChunkSum(chunk, 1 << owner) for owner in range(self.size) for chunk in self._own(owner)]
            case "reduce_scatter":
                return [ChunkSum(chunk, everyone) for chunk in self._own(rank)]
            case "all_reduce":
                return [ChunkSum(chunk, everyone) for chunk in range(self.num_chunks)]
            case "all_to_all":
                return [ChunkSum(chunk, 1 << sender) for sender in range(self.size) for chunk in self._own(rank)]

    @property
    def _num_own(self) -> int:
        return self.num_chunks // self.size

    def _own(self, rank: int) -> range:
        """The chunks of a rank's piece of the message."""
        return range(rank * self._num_own, (rank + 1) * self._num_own)
