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

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, dataclass as record, field
from typing import TYPE_CHECKING, Final

from simfrontier.core.program import UNKNOWN, Clash, Form
from simfrontier_extras.msccl.clocks import Clocks
from simfrontier_extras.msccl.memory import Memory, said
from simfrontier_extras.msccl.program import READS, RECEIVES, SENDS, WRITES, Algo, Step, ThreadBlock
from simfrontier_extras.msccl.rccl import MAX_FINDINGS, MESSAGE_BYTES, SLOTS, chunks_per_message, faults, refusals

if TYPE_CHECKING:
    from simfrontier_extras.msccl.clocks import Clock

_MOST_BLOCKED: Final = 4  # of those that are stuck, told apart
Connection = tuple[int, int, int]  # from, to, channel


@record(frozen=True, slots=True, kw_only=True)
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
        """True if it computes its collective."""
        return not self.findings

    @property
    def is_taken(self) -> bool:
        """True if RCCL takes the file."""
        return not self.refusals


def verdict(algo: Algo) -> Verdict:
    """Return whether RCCL takes the algorithm, and whether it computes its collective, in place and not, as far as it
    says."""
    refused = tuple(refusals(algo))
    if broken := faults(algo):
        return Verdict(findings=tuple(broken), refusals=refused)
    findings: dict[str, None] = {}
    bounds: list[int] = []
    for in_place in [way for way in (False, True) if _is_for(algo, way)]:
        largest, smallest = (_run(algo, in_place, most) for most in _chunks_at_once(algo))
        where = "in place" if in_place else "out of place"
        if largest.findings and not smallest.findings:
            bound = _largest_right_call(algo, in_place, largest.most, smallest.most)
            if algo.max_bytes is None:
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


def _is_for(algo: Algo, in_place: bool) -> bool:
    return algo.in_place if in_place else algo.out_of_place


def _run(algo: Algo, in_place: bool, most: int) -> Run:
    run = Run(algo, in_place, most)
    run.all()
    return run


def _chunks_at_once(algo: Algo) -> tuple[int, int]:
    """Return the number of chunks of a step in one message, for the largest calls and for the smallest; no more than
    any step has."""
    counts = [step.count for gpu in algo.gpus for block in gpu.thread_blocks for step in block.steps]
    few, many = (min(each, max(1, *counts)) for each in chunks_per_message(algo))
    return few, many


def _largest_right_call(algo: Algo, in_place: bool, wrong: int, right: int) -> int:
    """The bytes of the largest calls whose messages hold enough chunks; so many of them are too few, or enough."""
    while right - wrong > 1:
        middle = (wrong + right) // 2
        if _run(algo, in_place, middle).findings:
            wrong = middle
        else:
            right = middle
    return MESSAGE_BYTES[algo.protocol] // right * algo.chunks_per_loop


@dataclass(slots=True)
class _Message:
    """Chunks under way: the `number`-th message of a step that sends `count` chunks in all."""

    contents: list[Form]
    count: int
    number: int
    clock: Clock


@dataclass(slots=True)
class _Block:
    """A thread block under way: which step, how many of its chunks are done, and what they wait for."""

    rank: int
    index: int  # among the thread blocks of all GPUs
    block: ThreadBlock
    step: int = 0
    done: int = 0
    ready: bool = False  # the step has waited
    held: list[Form] | None = None  # received, and not yet sent on
    waits: str = ""

    def at(self, step: int) -> str:
        return f"gpu {self.rank}, thread block {self.block.number}, step {step} ({self.block.steps[step].type})"


@dataclass
class Run:
    """One run of an algorithm, with `most` chunks of a step in one message; `messages`: what went over each connection,
    in order, chunk by chunk."""

    algo: Algo
    in_place: bool
    most: int
    findings: list[str] = field(default_factory=list)
    messages: dict[Connection, list[Form]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        algo = self.algo
        self.memory = Memory(algo, self.in_place)
        self.blocks: list[_Block] = []
        for rank, gpu in enumerate(algo.gpus):
            self.blocks += [_Block(rank, len(self.blocks) + at, each) for at, each in enumerate(gpu.thread_blocks)]
        self.index = {(each.rank, each.block.number): each.index for each in self.blocks}
        self.clocks = Clocks(len(self.blocks), max(len(each.block.steps) for each in self.blocks), self._awaited())
        self.under_way: dict[Connection, deque[_Message]] = {}
        self.sleeping: dict[tuple[str, object], list[_Block]] = {}
        self.sent_chunks = [0] * algo.size

    def _awaited(self) -> set[tuple[int, int]]:
        return {
            (self.index[each.rank, step.after[0]], step.after[1])
            for each in self.blocks
            for step in each.block.steps
            if step.after is not None
        }

    def all(self) -> None:
        """Run until nothing goes on, and compare what is there with what the collective means."""
        runnable = deque(self.blocks)
        while runnable:
            each = runnable.popleft()
            self._run(each, runnable)
        stuck = [each for each in self.blocks if each.step < len(each.block.steps)]
        if stuck:
            self._find(_stuck(stuck))
            return
        for (source, target, channel), messages in sorted(self.under_way.items()):
            if messages:
                self._find(f"gpu {source} sends {len(messages)} messages to gpu {target} on channel {channel} in vain")
        for text in self.memory.wrong_results():
            if len(self.findings) == MAX_FINDINGS:
                break
            self._find(text)

    def _find(self, text: str) -> None:
        if len(self.findings) < MAX_FINDINGS and text not in self.findings:
            self.findings.append(text)

    # ── one thread block, as far as it goes ──

    def _run(self, each: _Block, runnable: deque[_Block]) -> None:
        while each.step < len(each.block.steps):
            step = each.block.steps[each.step]
            if not each.ready and not self._has_waited(each, step):
                return
            if step.type == "nop":
                each.step, each.ready = each.step + 1, False
                continue
            if not self._chunks(each, step, runnable):
                return
            self._finish(each, step, runnable)

    def _has_waited(self, each: _Block, step: Step) -> bool:
        if step.after is not None:
            other = self.index[each.rank, step.after[0]]
            if not self.clocks.join_flag(each.index, other, step.after[1]):
                each.waits = f"waits for step {step.after[1]} of thread block {step.after[0]}"
                self.sleeping.setdefault(("flag", other), []).append(each)
                return False
        each.ready = True
        return True

    def _chunks(self, each: _Block, step: Step, runnable: deque[_Block]) -> bool:
        """Go on with a step, message by message; whether it is over."""
        while each.done < step.count:
            num = min(self.most, step.count - each.done)
            if step.type in RECEIVES and each.held is None:
                each.held = self._receive(each, step, num, runnable)
                if each.held is None:
                    return False
                each.held = self._work(each, step, num, each.held)
            if step.type in SENDS:
                contents = each.held if each.held is not None else self._work(each, step, num, None)
                if not self._send(each, step, contents, runnable):
                    return False
            elif step.type not in RECEIVES:
                self._work(each, step, num, None)
            each.held = None
            each.done += num
        return True

    def _finish(self, each: _Block, step: Step, runnable: deque[_Block]) -> None:
        self.clocks.finish(each.index, each.step + 1)
        if step.is_awaited:
            self.clocks.raise_flag(each.index, each.step)
            self._wake(("flag", each.index), runnable)
        each.step, each.done, each.ready = each.step + 1, 0, False

    def _wake(self, what: tuple[str, object], runnable: deque[_Block]) -> None:
        runnable.extend(self.sleeping.pop(what, ()))

    # ── messages ──

    def _receive(self, each: _Block, step: Step, num: int, runnable: deque[_Block]) -> list[Form] | None:
        assert each.block.recv is not None, "refused before"
        line = (each.block.recv, each.rank, each.block.channel)
        if not self.under_way.get(line):
            each.waits = f"waits for a message of gpu {line[0]} on channel {line[2]}"
            self.sleeping.setdefault(("message", line), []).append(each)
            return None
        message = self.under_way[line].popleft()
        self._wake(("room", line), runnable)
        self.clocks.join(each.index, message.clock)
        if (message.count, message.number) != (step.count, each.done):
            self._find(
                f"{each.at(each.step)} receives {step.count} chunks at once; gpu {line[0]} sends {message.count}"
            )
            return [UNKNOWN] * num
        return message.contents

    def _send(self, each: _Block, step: Step, contents: list[Form], runnable: deque[_Block]) -> bool:
        assert each.block.send is not None, "refused before"
        line = (each.rank, each.block.send, each.block.channel)
        queue = self.under_way.setdefault(line, deque())
        if len(queue) >= SLOTS[self.algo.protocol]:
            each.held = contents
            each.waits = f"waits until gpu {line[1]} receives on channel {line[2]}"
            self.sleeping.setdefault(("room", line), []).append(each)
            return False
        is_last = each.done + len(contents) == step.count
        clock = self.clocks.sent(each.index, each.step + is_last)
        queue.append(_Message(contents, step.count, each.done, clock))
        self.messages.setdefault(line, []).extend(contents)
        self.sent_chunks[each.rank] += len(contents)
        self._wake(("message", line), runnable)
        return True

    # ── memory ──

    def _work(self, each: _Block, step: Step, num: int, received: Sequence[Form] | None) -> list[Form]:
        """Read, add and write the next chunks of a step; what is to be sent on."""
        return [self._one(each, step, each.done + at, None if received is None else received[at]) for at in range(num)]

    def _one(self, each: _Block, step: Step, offset: int, received: Form | None) -> Form:
        memory = self.memory
        source, target = (memory.place(each.rank, chunk, offset) for chunk in (step.src, step.dst))
        value = received or UNKNOWN
        if step.type in READS:
            self._race(each, self.clocks.read(each.index, each.step, source))
            value = memory.read(source)
            if value is UNKNOWN:
                self._find(
                    f"{each.at(each.step)} reads {_named(step.src.buffer, step.src.offset + offset)}, which is empty"
                )
            if received is not None:
                value = self._sum(each, value, received)
        if step.type == "re":
            self._race(each, self.clocks.read(each.index, each.step, target))
            value = self._sum(each, memory.read(target), value)
        if step.type in WRITES and not (step.type == "cpy" and source == target):  # which changes nothing
            self._race(each, self.clocks.write(each.index, each.step, target))
            if memory.is_input(target):
                self._find(f"{each.at(each.step)} writes to the input, which is the caller's")
            memory.held[target] = value
        return value

    def _sum(self, each: _Block, one: Form, other: Form) -> Form:
        try:
            return one.plus(other)
        except Clash as clash:
            twice = clash.twice
            text = f"counts twice: {said(twice)}" if twice else f"adds {said(clash.one)} and {said(clash.other)}"
            self._find(f"{each.at(each.step)} {text}")
            return UNKNOWN

    def _race(self, each: _Block, other: tuple[int, int] | None) -> None:
        """Note that an access is not in order with one of another thread block: (which, step)."""
        if other is not None:
            before = self.blocks[other[0]]
            text = f"does not wait for thread block {before.block.number}, step {other[1]}, which uses the same memory"
            self._find(f"{each.at(each.step)} {text}")


def _named(buffer: str, offset: int) -> str:
    return f"chunk {offset} of {({'i': 'its input', 'o': 'its output', 's': 'its scratch memory'})[buffer]}"


def _stuck(stuck: Sequence[_Block]) -> str:
    told = [f"{each.at(each.step)} {each.waits}" for each in stuck[:_MOST_BLOCKED]]
    more = f"; and {len(stuck) - len(told)} more" if len(stuck) > len(told) else ""
    return "is stuck: " + "; ".join(told) + more
