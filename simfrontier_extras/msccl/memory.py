"""The memory of all GPUs as an algorithm sees it: what its chunks hold before, and what they have to hold after.

Where a call is in place: ROCm/rccl `src/misc/msccl/msccl_lifecycle.cc` (mscclInternalSchedulerSelectAlgo): input and
output are one buffer; an all-gather's input is its own piece of the output, a reduce-scatter's output its own piece of
the input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simfrontier.core.collectives import Lowered
from simfrontier.core.program import UNKNOWN, ChunkSum, Form
from simfrontier_extras.msccl.clocks import Place
from simfrontier_extras.msccl.program import Algo, Buffer, Chunk


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


class Memory:
    """The contents of the chunks of every GPU."""

    def __init__(self, algo: Algo, in_place: bool) -> None:
        self.algo, self.in_place, self.input_chunks = algo, in_place, algo.input_chunks
        self.begins = [self._begins(rank) for rank in range(algo.size)]
        self.held: dict[Place, Form] = {}
        for rank in range(algo.size):
            for chunk, form in enumerate(algo.meaning.before(rank)):
                self.held[self.place(rank, Chunk("i", chunk))] = form

    def _begins(self, rank: int) -> dict[Buffer, int]:
        """The number of the first chunk of each buffer, so that the same memory has the same numbers."""
        meaning, scratch = self.algo.meaning, self.algo.input_chunks + self.algo.output_chunks
        if self.in_place:
            return {"i": meaning.input(rank).start, "o": meaning.output(rank).start, "s": scratch}
        return {"i": 0, "o": self.algo.input_chunks, "s": scratch}

    def read(self, place: Place) -> Form:
        """The content of a chunk: nothing of one to which nothing was put."""
        return self.held.get(place, UNKNOWN)

    def place(self, rank: int, chunk: Chunk, offset: int = 0) -> Place:
        """Return the place of the chunk that lies `offset` behind a chunk."""
        return rank, self.begins[rank][chunk.buffer] + chunk.offset + offset

    def is_input(self, place: Place) -> bool:
        """Return whether a chunk is the caller's input, which must stay as it is where the call is not in place."""
        return not self.in_place and place[1] < self.input_chunks

    def wrong_results(self) -> Iterator[str]:
        """Sentences on chunks that GPUs end with and that are not what the collective means."""
        for rank in range(self.algo.size):
            for chunk, wanted in enumerate(self.algo.meaning.after(rank)):
                form = self.read(self.place(rank, Chunk("o", chunk)))
                if form != wanted:
                    yield f"gpu {rank} ends with {said(form)} in chunk {chunk} of its output, not {said(wanted)}"


def said(form: Form) -> str:
    """A content in words."""
    if not isinstance(form, ChunkSum):
        return "nothing"
    shown = ", ".join(map(str, form.members[:8]))
    more = f" and {len(form.members) - 8} more" if len(form.members) > 8 else ""
    return f"chunk {form.chunk} of {shown}{more}"
