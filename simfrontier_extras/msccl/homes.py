"""Where the chunks of a lowered collective's lines lie in MSCCL's buffers: input, output and scratch memory.

A member's line (`collectives.Lowered`) is written to as it goes. A caller's input is not: what takes the place of a
chunk goes to its *home*, in the output if the result has it, else in scratch memory, and is read there from then on.
So one file serves calls in place and others, but for an all-to-all, whose output would take the place of input that is
still to be sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from simfrontier.collectives import Lowered
from simfrontier_extras.msccl.program import Chunk


class Homes:
    """The places of one member's chunks; `written`: chunks of its line that ever are, which scratch memory is for."""

    def __init__(self, lowered: Lowered, member: int, written: Iterable[int]) -> None:
        self.lowered, self.member = lowered, member
        scratch = sorted(chunk for chunk in set(written) if self._result(chunk) is None)
        self.scratch = {chunk: place for place, chunk in enumerate(scratch)}
        self.moved: set[int] = set()

    def home(self, chunk: int) -> Chunk:
        """Where a chunk is written to."""
        result = self._result(chunk)
        return Chunk("s", self.scratch[chunk]) if result is None else Chunk("o", result)

    def now(self, chunk: int) -> Chunk:
        """Where a chunk is read from: its home once it was written, the input before."""
        if chunk in self.moved:
            return self.home(chunk)
        offset = chunk - self.lowered.input_chunk(self.member)
        assert 0 <= offset < self.lowered.meaning.num_inputs, "proved: nothing empty is read"
        return Chunk("i", offset)

    def moves(self, chunks: Iterable[int]) -> None:
        """Note that chunks are written."""
        self.moved.update(chunks)

    def unmoved_results(self) -> list[int]:
        """Chunks of the result that nothing was written to: an all-gather's own piece."""
        begin = self.lowered.output_chunk(self.member)
        results = range(begin, begin + self.lowered.meaning.num_outputs)
        return [chunk for chunk in results if chunk not in self.moved]

    def memory(self, place: Chunk) -> tuple[str, int]:
        """What a place shares its memory with: where a call is in place, input and output are one line."""
        lowered = self.lowered
        if place.buffer == "s" or lowered.kind == "all_to_all":
            return place.buffer, place.offset
        begin = lowered.input_chunk if place.buffer == "i" else lowered.output_chunk
        return "line", begin(self.member) + place.offset

    def is_result(self, chunk: int) -> bool:
        """Whether the caller gets a chunk of the line."""
        return self._result(chunk) is not None

    def _result(self, chunk: int) -> int | None:
        """Which chunk of the output a chunk of the line becomes."""
        offset = chunk - self.lowered.output_chunk(self.member)
        return offset if 0 <= offset < self.lowered.meaning.num_outputs else None
