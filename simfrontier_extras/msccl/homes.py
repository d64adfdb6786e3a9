"""Where the chunks of a lowered collective's lines lie in MSCCL's buffers: input, output and scratch memory.

A member's line (`collectives.Lowered`) is written to as it goes. A caller's input is not: what takes the place of a
chunk goes to its *home*, in the output if the result has it, else in scratch memory, and is read there from then on.
So one file serves calls in place and others, but for an all-to-all, whose output would take the place of input that is
still to be sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from simfrontier.collectives import Lowered
from simfrontier.schedule import CollectiveKind
from simfrontier_extras.msccl.program import Chunk, Collective

COLL: Final[dict[CollectiveKind, Collective]] = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_to_all": "alltoall",
}


class Homes:
    """The places of one member's chunks; `written`: chunks of its line that ever are, which scratch memory is for."""

    def __init__(self, lowered: Lowered, member: int, written: Iterable[int]) -> None:
        self.lowered, self.member = lowered, member
        scratch = sorted(chunk for chunk in set(written) if self._result(chunk) is None)
        self.scratch = {chunk: place for place, chunk in enumerate(scratch)}
        self.moved: set[int] = set()

    @property
    def input_chunks(self) -> int:
        return self.lowered.parts if self.lowered.kind == "all_gather" else self.lowered.num_message_chunks

    @property
    def output_chunks(self) -> int:
        return self.lowered.parts if self.lowered.kind == "reduce_scatter" else self.lowered.num_message_chunks

    def home(self, chunk: int) -> Chunk:
        """Where a chunk is written to."""
        result = self._result(chunk)
        return Chunk("s", self.scratch[chunk]) if result is None else Chunk("o", result)

    def now(self, chunk: int) -> Chunk:
        """Where a chunk is read from: its home once it was written, the input before."""
        if chunk in self.moved:
            return self.home(chunk)
        own = self.member * self.lowered.parts if self.lowered.kind == "all_gather" else 0
        assert 0 <= chunk - own < self.input_chunks, "proved: nothing empty is read"
        return Chunk("i", chunk - own)

    def moves(self, chunks: Iterable[int]) -> None:
        """Note that chunks are written."""
        self.moved.update(chunks)

    def unmoved_results(self) -> list[int]:
        """Chunks of the result that nothing was written to: an all-gather's own piece."""
        begin = self.lowered.result_chunk
        line = range(begin, begin + self.lowered.num_message_chunks)
        return [chunk for chunk in line if self._result(chunk) is not None and chunk not in self.moved]

    def memory(self, place: Chunk) -> tuple[str, int]:
        """What a place shares its memory with: where a call is in place, input and output are one line."""
        lowered, offset = self.lowered, place.offset
        if place.buffer == "s" or lowered.kind == "all_to_all":
            return place.buffer, offset
        own = self.member * lowered.parts
        is_piece = (place.buffer, lowered.kind) in {("i", "all_gather"), ("o", "reduce_scatter")}
        return "line", offset + (own if is_piece else 0)

    def is_result(self, chunk: int) -> bool:
        """Whether the caller gets a chunk of the line."""
        return self._result(chunk) is not None

    def _result(self, chunk: int) -> int | None:
        """Which chunk of the output a chunk of the line becomes."""
        lowered = self.lowered
        offset = chunk - lowered.result_chunk
        if not 0 <= offset < lowered.num_message_chunks:
            return None
        if lowered.kind != "reduce_scatter":
            return offset
        piece, part = divmod(offset, lowered.parts)
        return part if piece == self.member else None
