"""Running an MSCCL algorithm on symbols: whether it computes its collective, whatever the speed of its thread blocks.

A symbol is one GPU's contribution to one chunk of the message (`ChunkSum`). Thread blocks run as RCCL runs them
(ROCm/rccl `src/device/msccl_kernel_impl.h`, mscclRunInterpreter): each its steps one after the other; a step first
waits until the flag of a thread block of its GPU has reached a step; messages of a connection (from a GPU to a GPU on a
channel) arrive in the order in which they were sent, and no more of them are under way than a connection holds. All
thread blocks of a GPU are taken to run at once.

One run is enough for every speed: who reads and writes memory that another thread block writes has to be in order with
it by waits and messages, which is checked (`clocks`); then what every step does is the same in all runs, and a run that
ends shows that all end. How many chunks of a step go as one message depends on their size, so that it is run as RCCL
does the largest calls that it takes the algorithm for, and the smallest (`rccl.chunks_per_message`). What ends with the
most messages ends with fewer, too: they need less room, and each of them waits for nothing that the others did not.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from simfrontier.core.program import UNKNOWN, ChunkSum, Clash, Form
from simfrontier_extras.msccl.clocks import Clock, Clocks, Place
from simfrontier_extras.msccl.program import READS, RECEIVES, SENDS, WRITES, Algo, Buffer, Chunk, Step, ThreadBlock
from simfrontier_extras.msccl.rccl import MAX_FINDINGS, MESSAGE_BYTES, SLOTS, chunks_per_message, faults, refusals

_MOST_BLOCKED: Final = 4  # of those that are stuck, told apart
_BUFFERS: Final = {"i": "its input", "o": "its output", "s": "its scratch memory"}
Connection = tuple[int, int, int]  # from, to, channel
Wait = tuple[tuple[str, object], str]  # what has to happen first, and in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on an algorithm.

    findings    what is wrong with it; nothing: it computes its collective
    refusals    why RCCL does not take its file all the same
    up_to       the bytes of the largest calls that it is right for, where its file does not say what sizes it is for
                and larger ones would be wrong
    sent_chunks how many chunks each GPU sends; () where it was not run
    """

    findings: tuple[str, ...]
    refusals: tuple[str, ...] = ()
    up_to: int | None = None
    sent_chunks: tuple[int, ...] = ()

    @property
    def is_right(self) -> bool:
        """True if the algorithm computes its collective."""
        return not self.findings


def verdict(algo: Algo) -> Verdict:
    """Return whether RCCL accepts the algorithm, and whether it computes its collective, in place and out of place as
    far as the file claims to support them."""
    refused = tuple(refusals(algo))
    if broken := faults(algo):
        return Verdict(findings=tuple(broken), refusals=refused)
    findings: dict[str, None] = {}
    bounds: list[int] = []
    most_of_step = max((step.cnt for block in algo.blocks for step in block.step), default=1)
    for in_place in algo.ways:
        largest, smallest = (Run(algo, in_place, min(most, most_of_step)) for most in chunks_per_message(algo))
        where = "in place" if in_place else "out of place"
        if largest.findings and not smallest.findings:
            bound = _largest_right_call(algo, in_place, largest.most, smallest.most)
            if algo.maxBytes is None:
                bounds.append(bound)
                continue
            where += f", calls of more than {bound:,} bytes"
        findings.update(dict.fromkeys(f"{where}: {text}" for text in (*largest.findings, *smallest.findings)))
    return Verdict(
        findings=tuple(findings)[:MAX_FINDINGS],
        refusals=refused,
        up_to=min(bounds, default=None),
        sent_chunks=tuple(smallest.sent_chunks),
    )


def _largest_right_call(algo: Algo, in_place: bool, wrong: int, right: int) -> int:
    """Return the bytes of the largest calls for which the algorithm is right, by bisection over the number of chunks
    per message: `wrong` chunks are too few, `right` are enough."""
    while right - wrong > 1:
        middle = (wrong + right) // 2
        if Run(algo, in_place, middle).findings:
            wrong = middle
        else:
            right = middle
    return MESSAGE_BYTES[algo.proto] // right * algo.nchunksperloop


class _Message(NamedTuple):
    """Chunks in flight: those from `begin` on of a step that sends `of_step` chunks in total."""

    contents: list[Form]
    of_step: int
    begin: int
    clock: Clock


@dataclass(slots=True, eq=False)
class _Block:
    """State of a thread block during a run: its current step, the generator of its remaining steps, and the condition
    it waits for."""

    rank: int
    index: int  # among the thread blocks of all GPUs
    block: ThreadBlock
    step: int = 0
    waits: str = ""

    @property
    def here(self) -> str:
        return f"gpu {self.rank}, thread block {self.block.id}, step {self.step} ({self.block.step[self.step].type})"


class Run:
    """One run of an algorithm with at most `most` chunks of a step per message, and the faults found; `messages`: the
    contents sent over each connection, in order, chunk by chunk."""

    def __init__(self, algo: Algo, in_place: bool, most: int) -> None:
        self.algo, self.in_place, self.most = algo, in_place, most
        self.findings: list[str] = []
        self.messages: defaultdict[Connection, list[Form]] = defaultdict(list)
        self.sent_chunks = [0] * algo.ngpus
        places = [(gpu.id, block) for gpu in algo.gpu for block in gpu.tb]
        self.blocks = [_Block(rank, index, block) for index, (rank, block) in enumerate(places)]
        self.index = {(each.rank, each.block.id): each.index for each in self.blocks}
        self.clocks = Clocks(len(self.blocks), max(len(block.step) for block in algo.blocks))
        self.under_way: defaultdict[Connection, deque[_Message]] = defaultdict(deque)
        self.begins = [self._begins(rank) for rank in range(algo.ngpus)]
        self.held: dict[Place, Form] = {}
        for rank in range(algo.ngpus):
            for chunk, form in enumerate(algo.meaning.before(rank)):
                self.held[self._place(rank, Chunk("i", chunk))] = form
        self._run_all()

    def _run_all(self) -> None:
        """Run until no thread block can proceed, then compare the contents of memory with the result of the
        collective."""
        self.runnable = deque((each, self._steps(each)) for each in self.blocks)
        self.sleeping: defaultdict[tuple[str, object], list[tuple[_Block, Iterator[Wait]]]] = defaultdict(list)
        while self.runnable:
            each, rest = self.runnable.popleft()
            if (wait := next(rest, None)) is not None:
                event, each.waits = wait
                self.sleeping[event].append((each, rest))
        if stuck := sorted((each for line in self.sleeping.values() for each, _ in line), key=lambda each: each.index):
            told = [f"{each.here} {each.waits}" for each in stuck[:_MOST_BLOCKED]]
            more = f"; and {len(stuck) - len(told)} more" if len(stuck) > len(told) else ""
            self._find("is stuck: " + "; ".join(told) + more)
            return
        for (source, target, channel), messages in sorted(self.under_way.items()):
            if messages:
                self._find(f"gpu {source} sends {len(messages)} messages to gpu {target} on channel {channel} in vain")
        self._compare_results()

    def _happened(self, kind: str, what: object) -> None:
        self.runnable.extend(self.sleeping.pop((kind, what), ()))

    def _find(self, text: str) -> None:
        if len(self.findings) < MAX_FINDINGS and text not in self.findings:
            self.findings.append(text)

    def _compare_results(self) -> None:
        for rank in range(self.algo.ngpus):
            for chunk, wanted in enumerate(self.algo.meaning.after(rank)):
                form = self.held.get(self._place(rank, Chunk("o", chunk)), UNKNOWN)
                if form != wanted:
                    got = f"gpu {rank} ends with {_said(form)} in chunk {chunk} of its output"
                    self._find(f"{got}, not {_said(wanted)}")

    # ── one thread block, and what it waits for ──

    def _steps(self, each: _Block) -> Iterator[Wait]:
        for number, step in enumerate(each.block.step):
            each.step = number
            if step.waits:
                other = self.index[each.rank, step.depid]
                while not self.clocks.join_flag(each.index, other, step.deps):
                    yield ("flag", other), f"waits for step {step.deps} of thread block {step.depid}"
            if step.type != "nop":
                for begin in range(0, step.cnt, self.most):
                    yield from self._part(each, step, begin, min(self.most, step.cnt - begin))
                self.clocks.finish(each.index, each.step + 1, raises_flag=bool(step.hasdep))
                if step.hasdep:
                    self._happened("flag", each.index)

    def _part(self, each: _Block, step: Step, begin: int, num: int) -> Iterator[Wait]:
        """Run the chunks of a step that are sent as one message."""
        received: list[Form] | None = None
        if step.type in RECEIVES:
            line = each.block.recv, each.rank, each.block.chan
            while not self.under_way[line]:
                yield ("message", line), f"waits for a message of gpu {line[0]} on channel {line[2]}"
            received = self._receive(each, step, line, begin, num)
        contents = [self._work(each, step, begin + at, None if received is None else received[at]) for at in range(num)]
        if step.type in SENDS:
            line = each.rank, each.block.send, each.block.chan
            while len(self.under_way[line]) >= SLOTS[self.algo.proto]:
                yield ("room", line), f"waits until gpu {line[1]} receives on channel {line[2]}"
            clock = self.clocks.sent(each.index, each.step + (begin + num == step.cnt))
            self.under_way[line].append(_Message(contents, step.cnt, begin, clock))
            self.messages[line].extend(contents)
            self.sent_chunks[each.rank] += num
            self._happened("message", line)

    def _receive(self, each: _Block, step: Step, line: Connection, begin: int, num: int) -> list[Form]:
        message = self.under_way[line].popleft()
        self._happened("room", line)
        self.clocks.join(each.index, message.clock)
        if (message.of_step, message.begin) == (step.cnt, begin):
            return message.contents
        self._find(f"{each.here} receives {step.cnt} chunks at once; gpu {line[0]} sends {message.of_step}")
        return [UNKNOWN] * num

    # ── memory ──

    def _begins(self, rank: int) -> dict[Buffer, int]:
        """The number of the first chunk of each buffer, so that the same memory has the same numbers.

        In place (ROCm/rccl `src/misc/msccl/msccl_lifecycle.cc`, mscclInternalSchedulerSelectAlgo) input and output are
        one buffer; an all-gather's input is its own piece of the output, a reduce-scatter's output its own piece of the
        input."""
        algo, meaning = self.algo, self.algo.meaning
        own = (meaning.input(rank).start, meaning.output(rank).start) if self.in_place else (0, algo.input_chunks)
        return {"i": own[0], "o": own[1], "s": algo.input_chunks + algo.output_chunks}

    def _place(self, rank: int, chunk: Chunk, offset: int = 0) -> Place:
        return rank, self.begins[rank][chunk.buffer] + chunk.offset + offset

    def _work(self, each: _Block, step: Step, offset: int, received: Form | None) -> Form:
        """Read, add and write one chunk of a step, `offset` chunks after its first; return the content to send on."""
        source, target = (self._place(each.rank, chunk, offset) for chunk in (step.src, step.dst))
        value = received or UNKNOWN
        if step.type in READS:
            self._race(each, self.clocks.read(each.index, each.step, source))
            value = self.held.get(source, UNKNOWN)
            if value is UNKNOWN:
                self._find(f"{each.here} reads chunk {step.srcoff + offset} of {_BUFFERS[step.srcbuf]}, which is empty")
            if received is not None:
                value = self._sum(each, value, received)
        if step.type == "re":
            self._race(each, self.clocks.read(each.index, each.step, target))
            value = self._sum(each, self.held.get(target, UNKNOWN), value)
        if step.type in WRITES and not (step.type == "cpy" and source == target):  # which changes nothing
            self._race(each, self.clocks.write(each.index, each.step, target))
            if not self.in_place and target[1] < self.algo.input_chunks:
                self._find(f"{each.here} writes to the input, which is the caller's")
            self.held[target] = value
        return value

    def _sum(self, each: _Block, one: Form, other: Form) -> Form:
        try:
            return one.plus(other)
        except Clash as clash:
            twice = clash.twice
            text = f"counts twice: {_said(twice)}" if twice else f"adds {_said(clash.one)} and {_said(clash.other)}"
            self._find(f"{each.here} {text}")
            return UNKNOWN

    def _race(self, each: _Block, other: tuple[int, int] | None) -> None:
        """Report an access that is not ordered with an access of another thread block, given as (thread block,
        step)."""
        if other is not None:
            before = self.blocks[other[0]].block.id
            text = f"does not wait for thread block {before}, step {other[1]}, which uses the same memory"
            self._find(f"{each.here} {text}")


def _said(form: Form) -> str:
    """Return a description of a content."""
    if not isinstance(form, ChunkSum):
        return "nothing"
    shown: Sequence[int] = form.members[:8]
    more = f" and {len(form.members) - 8} more" if len(form.members) > 8 else ""
    return f"chunk {form.chunk} of {', '.join(map(str, shown))}{more}"
