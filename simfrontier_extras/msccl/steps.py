"""The steps of one GPU in their order, shared out to thread blocks, with waits where two use the same memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, dataclass as record, field
from typing import Final, Literal

from simfrontier_extras.msccl.memory import Homes
from simfrontier_extras.msccl.program import Chunk, Step, StepType, ThreadBlock


@record(frozen=True, slots=True, kw_only=True)
class End:
    """A GPU's thread block: of a connection to or from a peer, of both of a ring's channel, or of copies."""

    kind: Literal["send", "recv", "both", "own"]
    peer: int = -1
    channel: int = 0


OWN: Final = End(kind="own")
At = tuple[End, int]  # a step of a thread block


@dataclass(slots=True)
class _Draft:
    """A step whose thread blocks have no numbers yet."""

    kind: StepType
    src: Chunk
    dst: Chunk
    count: int
    after: At | None


@dataclass(slots=True)
class _Block:
    """A thread block that is being made. `knows`: how many steps of others are over at its end, because it waits for
    them or for who does; `knew`: the same after each step."""

    end: End
    send: int | None = None
    recv: int | None = None
    drafts: list[_Draft] = field(default_factory=list)
    knows: dict[End, int] = field(default_factory=dict)
    knew: list[dict[End, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Memory:
    """The last writer of a chunk, and its readers since then."""

    writer: At | None = None
    readers: dict[End, int] = field(default_factory=dict)


class MemberSteps:
    """The thread blocks of one GPU, as its steps are added in an order in which they could all be done."""

    def __init__(self, homes: Homes) -> None:
        self.homes = homes
        self.blocks: dict[End, _Block] = {}
        self.memory: dict[tuple[str, int], _Memory] = {}
        self.awaited: set[At] = set()

    def add(
        self,
        end: End,
        kind: StepType,
        count: int,
        *,
        reads: int | None = None,
        writes: int | None = None,
        send: int | None = None,
        recv: int | None = None,
    ) -> None:
        """A step on `count` chunks of the line: it reads those from `reads` on, and writes those from `writes` on."""
        homes = self.homes
        sources = [] if reads is None else [homes.now(reads + at) for at in range(count)]
        targets = [] if writes is None else [homes.home(writes + at) for at in range(count)]
        if writes is not None:
            homes.moves(range(writes, writes + count))
        block = self.blocks.setdefault(end, _Block(end))
        block.send = block.send if send is None else send
        block.recv = block.recv if recv is None else recv
        ends = [places[0] for places in (sources, targets) if places]
        self._put(block, _Draft(kind, ends[0], ends[-1], count, None), sources, targets)

    def bring_home(self, end: End, begin: int, count: int) -> None:
        """Copy chunks that are still in the input to where they may be added to."""
        if self.homes.now(begin) != self.homes.home(begin):
            self.add(end, "cpy", count, reads=begin, writes=begin)

    def keep(self, begin: int, count: int) -> None:
        """Copy chunks of the result that are only in the input to the output. Nothing else uses them there, and where
        the call is in place they are there, so that nobody waits."""
        block = self.blocks.setdefault(OWN, _Block(OWN))
        self._put(block, _Draft("cpy", self.homes.now(begin), self.homes.home(begin), count, None), [], [])

    def thread_blocks(self, unit: int = 1) -> tuple[ThreadBlock, ...]:
        """All of them, in the order of whom they send to and receive from; in chunks of so many of the line."""
        order = sorted(self.blocks.values(), key=lambda each: (_rank(each.send), _rank(each.recv), each.end.channel))
        number = {block.end: place for place, block in enumerate(order)}
        return tuple(
            ThreadBlock(
                number=number[block.end],
                send=block.send,
                recv=block.recv,
                channel=block.end.channel,
                steps=tuple(self._step(block.end, at, draft, number, unit) for at, draft in enumerate(block.drafts)),
            )
            for block in order
        )

    def _step(self, end: End, at: int, draft: _Draft, number: Mapping[End, int], unit: int) -> Step:
        return Step(
            type=draft.kind,
            src=Chunk(draft.src.buffer, draft.src.offset // unit),
            dst=Chunk(draft.dst.buffer, draft.dst.offset // unit),
            count=draft.count // unit,
            after=None if draft.after is None else (number[draft.after[0]], draft.after[1]),
            is_awaited=(end, at) in self.awaited,
        )

    # ── waits ──

    def _put(self, block: _Block, draft: _Draft, sources: Iterable[Chunk], targets: Iterable[Chunk]) -> None:
        """Add a step, and before it a `nop` for every wait but one."""
        reads = [self._at(place) for place in sources]
        writes = [self._at(place) for place in targets]
        waits = self._needed(block, _before(reads, writes))
        for wait in waits[:-1]:
            self._append(block, _Draft("nop", draft.src, draft.dst, 0, wait))
        draft.after = waits[-1] if waits else None
        self._append(block, draft)
        at = len(block.drafts) - 1
        for memory in reads:
            memory.readers[block.end] = at
        for memory in writes:
            memory.writer, memory.readers = (block.end, at), {}

    def _append(self, block: _Block, draft: _Draft) -> None:
        if draft.after is not None:
            other, step = draft.after
            self.awaited.add(draft.after)
            for end, count in {**self.blocks[other].knew[step], other: step + 1}.items():
                block.knows[end] = max(block.knows.get(end, 0), count)
        block.drafts.append(draft)
        block.knew.append(dict(block.knows))

    def _needed(self, block: _Block, before: Iterable[At]) -> list[At]:
        """The last step of every other thread block that is to be waited for, and that no other wait brings with it."""
        last: dict[End, int] = {}
        for end, step in before:
            if end != block.end and block.knows.get(end, 0) <= step:
                last[end] = max(last.get(end, -1), step)
        return [
            (end, step)
            for end, step in last.items()
            if not any(self.blocks[other].knew[its].get(end, 0) > step for other, its in last.items() if other != end)
        ]

    def _at(self, place: Chunk) -> _Memory:
        return self.memory.setdefault(self.homes.memory(place), _Memory())


def _before(reads: Iterable[_Memory], writes: Iterable[_Memory]) -> Iterable[At]:
    """Steps that have to be over: who wrote what is read, who wrote or read what is written."""
    for memory in reads:
        if memory.writer is not None:
            yield memory.writer
    for memory in writes:
        if memory.writer is not None:
            yield memory.writer
        yield from memory.readers.items()


def _rank(peer: int | None) -> int:
    return -1 if peer is None else peer
