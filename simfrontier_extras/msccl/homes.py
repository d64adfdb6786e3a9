"""Places of the chunks of a lowered collective in MSCCL's buffers: input, output and scratch memory.

A member's line (`collectives.Lowered`) is written to as it goes. A caller's input is not: what takes the place of a
chunk goes to its *home*, in the output if the result has it, else in scratch memory, and is read there from then on.
So one file serves calls in place and others, but for an all-to-all, whose output would take the place of input that is
still to be sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from simfrontier.core.collectives import Lowered
from simfrontier_extras.msccl.program import Chunk


class Homes:
    """The places of one member's chunks; `written`: chunks of its line that ever are, which scratch memory is for."""

    def __init__(self, lowered: Lowered, member: int, written: Iterable[int]) -> None:
        self.kind, self.input, self.output = lowered.kind, lowered.input(member), lowered.output(member)
        scratch = sorted(chunk for chunk in set(written) if chunk not in self.output)
        self.scratch = {chunk: place for place, chunk in enumerate(scratch)}
        self.moved: set[int] = set()

    def home(self, chunk: int) -> Chunk:
        """Return the place that a chunk is written to."""
        in_output = chunk in self.output
        return Chunk("o", self.output.index(chunk)) if in_output else Chunk("s", self.scratch[chunk])

    def now(self, chunk: int) -> Chunk:
        """Return the place that a chunk is read from: its home once it was written, the input before."""
        if chunk in self.moved:
            return self.home(chunk)
        assert chunk in self.input, "proved: nothing empty is read"
        return Chunk("i", self.input.index(chunk))

    def moves(self, chunks: Iterable[int]) -> None:
        """Note that chunks are written."""
        self.moved.update(chunks)

    def unmoved_results(self) -> list[int]:
        """Chunks of the result that nothing was written to: an all-gather's own piece."""
        return [chunk for chunk in self.output if chunk not in self.moved]

    def memory(self, place: Chunk) -> tuple[str, int]:
        """Return the memory of a place: where a call is in place, input and output are one line."""
        if place.buffer == "s" or self.kind == "all_to_all":
            return place.buffer, place.offset
        return "line", (self.input if place.buffer == "i" else self.output)[place.offset]
