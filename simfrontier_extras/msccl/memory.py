"""The memory of all GPUs as an algorithm sees it: what its chunks hold before, and what they have to hold after.

Where a call is in place: ROCm/rccl `src/misc/msccl/msccl_lifecycle.cc` (mscclInternalSchedulerSelectAlgo): input and
output are one buffer; an all-gather's input is its own piece of the output, a reduce-scatter's output its own piece of
the input.
"""

from __future__ import annotations

from collections.abc import Iterator

from simfrontier_extras.msccl.program import Algo, Chunk

Content = tuple[int, int]
"""A sum: of which chunk of the message, and whose contributions are in it (a bit for each GPU)."""


class Memory:
    """The contents of the chunks of every GPU; a chunk without one holds nothing that was put there."""

    def __init__(self, algo: Algo, in_place: bool) -> None:
        self.algo, self.in_place = algo, in_place
        self.contents: list[dict[int, Content]] = [dict(self._before(rank)) for rank in range(algo.size)]

    def place(self, rank: int, chunk: Chunk, offset: int = 0) -> int:
        """The number of a chunk, so that the same memory has the same number: input, then output, then scratch."""
        algo, at = self.algo, chunk.offset + offset
        if chunk.buffer == "s":
            return algo.input_chunks + algo.output_chunks + at
        if not self.in_place:
            return at if chunk.buffer == "i" else algo.input_chunks + at
        if algo.coll == "reducescatter":
            return at if chunk.buffer == "i" else rank * algo.output_chunks + at
        own = rank * algo.input_chunks if algo.coll == "allgather" else 0
        return algo.input_chunks + at + (own if chunk.buffer == "i" else 0)

    def is_input(self, place: int) -> bool:
        """Whether a chunk belongs to the caller, who keeps it as it is where the call is not in place."""
        return not self.in_place and place < self.algo.input_chunks

    def wrong_results(self) -> Iterator[str]:
        """What the GPUs end with that is not what the collective means, in words."""
        for rank in range(self.algo.size):
            for chunk in range(self.algo.output_chunks):
                held = self.contents[rank].get(self.place(rank, Chunk("o", chunk)))
                wanted = self._after(rank, chunk)
                if held != wanted:
                    yield f"gpu {rank} ends with {said(held)} in chunk {chunk} of its output, not {said(wanted)}"

    def _before(self, rank: int) -> Iterator[tuple[int, Content]]:
        first = rank * self.algo.input_chunks if self.algo.coll == "allgather" else 0
        for chunk in range(self.algo.input_chunks):
            yield self.place(rank, Chunk("i", chunk)), (first + chunk, 1 << rank)

    def _after(self, rank: int, chunk: int) -> Content:
        algo = self.algo
        everyone = (1 << algo.size) - 1
        match algo.coll:
            case "allreduce":
                return chunk, everyone
            case "reducescatter":
                return rank * algo.output_chunks + chunk, everyone
            case "allgather":
                return chunk, 1 << chunk // algo.input_chunks
            case _:
                sender, part = divmod(chunk, algo.chunks_per_loop // algo.size)
                return rank * (algo.chunks_per_loop // algo.size) + part, 1 << sender


def said(content: Content | None) -> str:
    """A content in words."""
    if content is None:
        return "nothing"
    chunk, whose = content
    ranks = [str(rank) for rank in range(whose.bit_length()) if whose >> rank & 1]
    shown = ", ".join(ranks[:8]) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return f"chunk {chunk} of {shown}"
