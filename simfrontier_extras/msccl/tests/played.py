"""Algorithms run on numbers, thread blocks in a random order: another reading of the same rules, to hold `evaluate` to.

It knows nothing of symbols, clocks and waits for memory: whatever thread block comes up does its next chunk, if it can.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from simfrontier_extras.msccl.program import READS, RECEIVES, SENDS, WRITES, Algo, Chunk
from simfrontier_extras.msccl.rccl import SLOTS

NOTHING = 10**15  # what lies where nothing was given


@dataclass
class _At:
    rank: int
    block: int
    step: int = 0
    done: int = 0


class Played:
    """One run; `right`: whether it ended with what the collective means."""

    def __init__(self, algo: Algo, rng: random.Random, in_place: bool = False) -> None:
        self.algo, self.rng, size = algo, rng, algo.ngpus
        self.given = [[rng.randrange(10**6) for _ in range(algo.input_chunks)] for _ in range(size)]
        self.memory: list[dict[str, list[int]]] = []
        for rank in range(size):
            scratch = [NOTHING] * algo.gpu[rank].s_chunks
            self.memory.append({"i": list(self.given[rank]), "o": [NOTHING] * algo.output_chunks, "s": scratch})
            if in_place:
                self._alias(rank)
        self.in_place = in_place
        self.lines: dict[tuple[int, int, int], deque[int]] = {}
        self.flags: dict[tuple[int, int], int] = {}
        self.right = self._play() and self._is_right()

    def _alias(self, rank: int) -> None:
        memory, algo = self.memory[rank], self.algo
        if algo.kind in ("all_reduce", "all_to_all"):
            memory["o"] = memory["i"]
        elif algo.coll == "allgather":
            begin = rank * algo.input_chunks
            memory["o"][begin : begin + algo.input_chunks] = memory["i"]
        self.offset = {("i", "allgather"): algo.input_chunks, ("o", "reducescatter"): algo.output_chunks}

    def _place(self, rank: int, chunk: Chunk, at: int) -> tuple[list[int], int]:
        memory, offset = self.memory[rank], chunk.offset + at
        if self.in_place and (own := self.offset.get((chunk.buffer, self.algo.coll))):
            return memory["o" if chunk.buffer == "i" else "i"], rank * own + offset
        return memory[chunk.buffer], offset

    def _play(self) -> bool:
        going = [_At(gpu.id, block.id) for gpu in self.algo.gpu for block in gpu.tb if block.step]
        asleep: list[_At] = []
        while going:
            at = self.rng.choice(going)
            if self._go(at):
                going += asleep
                asleep = []
                if at.step == len(self.algo.gpu[at.rank].tb[at.block].step):
                    going.remove(at)
            else:
                going.remove(at)
                asleep.append(at)
        return not asleep and not any(self.lines.values())

    def _go(self, at: _At) -> bool:
        block = self.algo.gpu[at.rank].tb[at.block]
        step = block.step[at.step]
        if step.waits and self.flags.get((at.rank, step.depid), -1) < step.deps:
            return False
        if step.type == "nop":
            at.step += 1
            return True
        arrives = (block.recv, at.rank, block.chan)
        leaves = (at.rank, block.send, block.chan)
        if step.type in RECEIVES and not self.lines.get(arrives):
            return False
        if step.type in SENDS and len(self.lines.get(leaves, ())) >= SLOTS[self.algo.proto]:
            return False
        value = self.lines[arrives].popleft() if step.type in RECEIVES else 0
        if step.type in READS:
            memory, place = self._place(at.rank, step.src, at.done)
            value += memory[place]
        if step.type in WRITES:
            memory, place = self._place(at.rank, step.dst, at.done)
            memory[place] = value + (memory[place] if step.type == "re" else 0)
        if step.type in SENDS:
            self.lines.setdefault(leaves, deque()).append(value)
        at.done += 1
        if at.done == step.cnt:
            if step.hasdep:
                self.flags[at.rank, at.block] = at.step
            at.step, at.done = at.step + 1, 0
        return True

    def _is_right(self) -> bool:
        algo, given = self.algo, self.given
        for rank in range(algo.ngpus):
            got = [self._at(rank, chunk) for chunk in range(algo.output_chunks)]
            sums = [sum(column) for column in zip(*given, strict=True)]
            piece = algo.nchunksperloop // algo.ngpus
            wanted = {
                "allreduce": sums,
                "allgather": [number for line in given for number in line],
                "reducescatter": sums[rank * piece : (rank + 1) * piece],
                "alltoall": [number for line in given for number in line[rank * piece : (rank + 1) * piece]],
            }[algo.coll]
            if got != wanted:
                return False
        return True

    def _at(self, rank: int, chunk: int) -> int:
        memory, place = self._place(rank, Chunk("o", chunk), 0)
        return memory[place]


def plays(algo: Algo, times: int = 20) -> bool:
    """Whether so many runs in random orders all end right, in place and not."""
    return all(Played(algo, random.Random(seed), way).right for seed in range(times) for way in algo.ways)
