"""The steps of one GPU in execution order, distributed over thread blocks, with waits between steps that use the same
memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from simfrontier.core.collectives import Lowered
from simfrontier_extras.msccl.program import NONE, Chunk, Step, StepType, ThreadBlock


class Homes:
    """Addresses of one GPU's chunks; `written`: the chunks that are ever written, for which scratch memory is
    needed."""

    def __init__(self, lowered: Lowered, member: int, written: Iterable[int]) -> None:
        self.kind, self.input, self.output = lowered.kind, lowered.input(member), lowered.output(member)
        scratch = sorted(chunk for chunk in set(written) if chunk not in self.output)
        self.scratch = {chunk: place for place, chunk in enumerate(scratch)}
        self.moved: set[int] = set()

    def home(self, chunk: int) -> Chunk:
        """Return the address to which a chunk is written."""
        in_output = chunk in self.output
        return Chunk("o", self.output.index(chunk)) if in_output else Chunk("s", self.scratch[chunk])

    def now(self, chunk: int) -> Chunk:
        """Return the address from which a chunk is read: its home address once it was written, the input before."""
        if chunk in self.moved:
            return self.home(chunk)
        assert chunk in self.input, "proved: nothing empty is read"
        return Chunk("i", self.input.index(chunk))

    def moves(self, chunks: Iterable[int]) -> None:
        """Note that chunks are written to their home addresses."""
        self.moved.update(chunks)

    def unmoved_results(self) -> list[int]:
        """Return the chunks of the result that no step writes: the GPU's own piece in an all-gather."""
        return [chunk for chunk in self.output if chunk not in self.moved]

    def memory(self, place: Chunk) -> tuple[str, int]:
        """Return the memory location of an address, which is the same for input and output if the call is in place."""
        if place.buffer == "s" or self.kind == "all_to_all":
            return place.buffer, place.offset
        return "line", (self.input if place.buffer == "i" else self.output)[place.offset]


class End(NamedTuple):
    """Role of a thread block of a GPU: a connection to or from a peer, both directions of a ring's channel, or local
    copies."""

    kind: Literal["send", "recv", "both", "own"]
    peer: int = NONE
    channel: int = 0


OWN: Final = End(kind="own")
At = tuple[End, int]  # a step of a thread block


@dataclass(slots=True)
class _Draft:
    """A step that refers to thread blocks that have no numbers yet."""

    kind: StepType
    src: Chunk
    dst: Chunk
    count: int
    after: At | None


@dataclass(slots=True)
class _Block:
    """A thread block under construction. `knows`: by other thread block, how many of its steps are over at the end of
    this one, because it waits for them directly or indirectly; `knew`: the same after each step."""

    end: End
    send: int = NONE
    recv: int = NONE
    drafts: list[_Draft] = field(default_factory=list)
    knows: dict[End, int] = field(default_factory=dict)
    knew: list[dict[End, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Used:
    """The last writer of a chunk, and its readers since then."""

    writer: At | None = None
    readers: dict[End, int] = field(default_factory=dict)


class MemberSteps:
    """The thread blocks of one GPU; its steps are added in an order in which they could be executed sequentially."""

    def __init__(self, homes: Homes) -> None:
        self.homes = homes
        self.blocks: dict[End, _Block] = {}
        self.used: dict[tuple[str, int], _Used] = {}
        self.awaited: set[At] = set()

    def add(
        self,
        end: End,
        kind: StepType,
        count: int,
        *,
        reads: int | None = None,
        writes: int | None = None,
        send: int = NONE,
        recv: int = NONE,
    ) -> None:
        """Add a step on `count` chunks: it reads chunks from index `reads` on, and writes chunks from index `writes`
        on."""
        homes = self.homes
        sources = [] if reads is None else [homes.now(reads + at) for at in range(count)]
        targets = [] if writes is None else [homes.home(writes + at) for at in range(count)]
        if writes is not None:
            homes.moves(range(writes, writes + count))
        block = self.blocks.setdefault(end, _Block(end))
        block.send, block.recv = max(block.send, send), max(block.recv, recv)
        ends = [places[0] for places in (sources, targets) if places]
        self._put(block, _Draft(kind, ends[0], ends[-1], count, None), sources, targets)

    def bring_home(self, end: End, begin: int, count: int) -> None:
        """Copy chunks that are still in the input to their home addresses, where other data can be added to them."""
        if self.homes.now(begin) != self.homes.home(begin):
            self.add(end, "cpy", count, reads=begin, writes=begin)

    def keep(self, begin: int, count: int) -> None:
        """Copy chunks of the result that are only in the input to the output. No other step uses these outputs, and in
        an in-place call they are already there, so that no step waits for the copy."""
        block = self.blocks.setdefault(OWN, _Block(OWN))
        self._put(block, _Draft("cpy", self.homes.now(begin), self.homes.home(begin), count, None), [], [])

    def thread_blocks(self, unit: int = 1) -> tuple[ThreadBlock, ...]:
        """Return all thread blocks, in the order of the peers that they send to and receive from; each of their chunks
        is `unit` chunks of the lowered collective."""
        order = sorted(self.blocks.values(), key=lambda each: (each.send, each.recv, each.end.channel))
        number = {block.end: place for place, block in enumerate(order)}
        return tuple(
            ThreadBlock(
                id=number[block.end],
                send=block.send,
                recv=block.recv,
                chan=block.end.channel,
                step=tuple(self._step((block.end, at), draft, number, unit) for at, draft in enumerate(block.drafts)),
            )
            for block in order
        )

    def _step(self, at: At, draft: _Draft, number: Mapping[End, int], unit: int) -> Step:
        block, awaited = (NONE, NONE) if draft.after is None else (number[draft.after[0]], draft.after[1])
        return Step(
            s=at[1],
            type=draft.kind,
            srcbuf=draft.src.buffer,
            srcoff=draft.src.offset // unit,
            dstbuf=draft.dst.buffer,
            dstoff=draft.dst.offset // unit,
            cnt=draft.count // unit,
            depid=block,
            deps=awaited,
            hasdep=int(at in self.awaited),
        )

    # ── waits ──

    def _put(self, block: _Block, draft: _Draft, sources: Iterable[Chunk], targets: Iterable[Chunk]) -> None:
        """Add a step, preceded by a `nop` for every wait but one: it waits for the writers of what it reads, and for
        the readers and writers of what it writes."""
        reads, writes = ([self._used(place) for place in places] for places in (sources, targets))
        before = [used.writer for used in (*reads, *writes) if used.writer is not None]
        before += [reader for used in writes for reader in used.readers.items()]
        waits = self._needed(block, before)
        for wait in waits[:-1]:
            self._append(block, _Draft("nop", draft.src, draft.dst, 0, wait))
        draft.after = waits[-1] if waits else None
        self._append(block, draft)
        at = len(block.drafts) - 1
        for used in reads:
            used.readers[block.end] = at
        for used in writes:
            used.writer, used.readers = (block.end, at), {}

    def _append(self, block: _Block, draft: _Draft) -> None:
        if draft.after is not None:
            other, step = draft.after
            self.awaited.add(draft.after)
            for end, count in {**self.blocks[other].knew[step], other: step + 1}.items():
                block.knows[end] = max(block.knows.get(end, 0), count)
        block.drafts.append(draft)
        block.knew.append(dict(block.knows))

    def _needed(self, block: _Block, before: Iterable[At]) -> list[At]:
        """Return the steps to wait for: the last one of every other thread block, without those that another wait
        implies."""
        last: dict[End, int] = {}
        for end, step in before:
            if end != block.end and block.knows.get(end, 0) <= step:
                last[end] = max(last.get(end, -1), step)
        return [
            (end, step)
            for end, step in last.items()
            if not any(self.blocks[other].knew[its].get(end, 0) > step for other, its in last.items() if other != end)
        ]

    def _used(self, place: Chunk) -> _Used:
        return self.used.setdefault(self.homes.memory(place), _Used())
