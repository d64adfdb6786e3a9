"""A lowered collective as an MSCCL algorithm: its transfers as steps of thread blocks, with their dependencies.

A member has a thread block for every connection that it sends on, one for every connection that it receives on, one
that does both on a ring's channel (`Fusion`), and one for copies of its own. All run their steps in the order of the
collective's transfers, so that the earliest transfer that is not over can always go on. Steps of different thread
blocks of a GPU that use the same memory wait for each other; a message needs no wait.

A ring's channel sends some messages first, then every receive is one step with the send of what it received. A receive
whose sum nobody reads afterwards does not even write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from math import gcd
from typing import Final

from simfrontier.core.collectives import Lowered, Transfer
from simfrontier_extras.msccl.program import COLL, NONE, Algo, Gpu, StepType
from simfrontier_extras.msccl.rccl import MAX_COUNT
from simfrontier_extras.msccl.steps import OWN, End, Homes, MemberSteps

Run = tuple[int, int]  # of a transfer's chunks: from, how many


def algo_of(lowered: Lowered, name: str) -> Algo:
    """Return the algorithm that executes the transfers of a lowered collective, for messages of any size."""
    unit = _unit(lowered)
    gpus = _Builder(lowered, fused(lowered), unit).gpus()
    return Algo(
        name=name,
        proto="Simple",
        nchannels=1 + max((block.chan for gpu in gpus for block in gpu.tb), default=0),
        nchunksperloop=lowered.num_message_chunks // unit,
        ngpus=lowered.size,
        coll=COLL[lowered.kind],
        inplace=int(lowered.kind != "all_to_all"),
        outofplace=1,
        minBytes=0,
        maxBytes=0,
        gpu=gpus,
    )


def _unit(lowered: Lowered) -> int:
    """Return the number of chunks that are always transferred together, so that the file can treat them as one
    chunk."""
    piece = lowered.num_message_chunks if lowered.kind == "all_reduce" else lowered.parts
    numbers = ((transfer.chunk, transfer.to, transfer.count) for transfer in lowered.transfers)
    return gcd(piece, len(lowered.like), *chain.from_iterable(numbers))


class _Builder:
    """Builder of the steps of all GPUs, in the order of the transfers; `unit`: number of the collective's chunks in a
    chunk of the file."""

    def __init__(self, lowered: Lowered, fusion: Fusion, unit: int) -> None:
        self.lowered, self.fusion, self.unit = lowered, fusion, unit
        self.homes = [Homes(lowered, member, written) for member, written in enumerate(self._written())]
        self.members = [MemberSteps(homes) for homes in self.homes]
        numbers = sorted({transfer.channel for transfer in lowered.transfers})
        self.channel = {number: place for place, number in enumerate(numbers)}
        self.runs = self._cut_runs()
        self.sent = set(fusion.on.values())

    def gpus(self) -> tuple[Gpu, ...]:
        for homes in self.homes:
            homes.moved.clear()
        for index, transfer in enumerate(self.lowered.transfers):
            if transfer.src == transfer.dst:
                self._copy(index, transfer)
                continue
            self._send(index, transfer)
            for ahead in self.fusion.ahead.get((transfer.dst, transfer.channel), ()):
                self._send(ahead, self.lowered.transfers[ahead])
            self._receive(index, transfer)
        for member, homes in enumerate(self.homes):
            for begin, count in _neighbours(homes.unmoved_results(), self.most):
                self.members[member].keep(begin, count)
        return tuple(self._gpu(member) for member in range(self.lowered.size))

    @property
    def most(self) -> int:
        """Largest number of chunks in a step."""
        return MAX_COUNT * self.unit

    def _written(self) -> list[set[int]]:
        written: list[set[int]] = [set() for _ in range(self.lowered.size)]
        for index, transfer in enumerate(self.lowered.transfers):
            if index not in self.fusion.unwritten:
                written[transfer.dst].update(range(transfer.to, transfer.to + transfer.count))
        return written

    # ── runs of chunks that lie next to each other at both ends ──

    def _cut_runs(self) -> list[list[Run]]:
        """Return for every transfer its contiguous runs of chunks; a transfer that is forwarded in the step that
        receives it has the same runs as the forwarding transfer."""
        cuts: list[set[int]] = []
        for index, transfer in enumerate(self.lowered.transfers):
            before = self._breaks(transfer.src, transfer.chunk, transfer.count)
            arrives = self.homes[transfer.dst]
            if transfer.add:
                before |= self._breaks(transfer.dst, transfer.to, transfer.count)
            if index not in self.fusion.unwritten:
                arrives.moves(range(transfer.to, transfer.to + transfer.count))
                before |= self._breaks(transfer.dst, transfer.to, transfer.count)
            cuts.append(before | set(range(self.most, transfer.count, self.most)))
        for line in self._chains():
            shared = set().union(*(cuts[index] for index in line))
            for index in line:
                cuts[index] = shared
        return [_runs(cut, transfer.count) for cut, transfer in zip(cuts, self.lowered.transfers, strict=True)]

    def _breaks(self, member: int, begin: int, count: int) -> set[int]:
        """Return the offsets from `begin` at which consecutive chunks of a GPU are not adjacent in memory."""
        homes = self.homes[member]
        places = [homes.now(chunk) for chunk in range(begin, begin + count)]
        return {
            at + 1
            for at, (one, other) in enumerate(pairwise(places))
            if (one.buffer, one.offset + 1) != (other.buffer, other.offset)
        }

    def _chains(self) -> list[list[int]]:
        """Return chains of transfers, in which each one forwards what the previous one delivered."""
        chains = []
        for first in self.fusion.on.keys() - self.fusion.on.values():
            line = [first]
            while line[-1] in self.fusion.on:
                line.append(self.fusion.on[line[-1]])
            chains.append(line)
        return chains

    # ── transfers as steps ──

    def _end(self, member: int, transfer: Transfer, sends: bool) -> End:
        """Return the thread block at the sending or receiving end of a transfer."""
        channel = self.channel[transfer.channel]
        if (member, transfer.channel) in self.fusion.ahead:
            return End(kind="both", channel=channel)
        return End(kind="send" if sends else "recv", peer=transfer.dst if sends else transfer.src, channel=channel)

    def _send(self, index: int, transfer: Transfer) -> None:
        """Add the send step of a transfer, unless it was added already or is fused with the step that receives the
        data."""
        if index in self.sent:
            return
        self.sent.add(index)
        end, member = self._end(transfer.src, transfer, sends=True), self.members[transfer.src]
        for at, count in self.runs[index]:
            member.add(end, "s", count, reads=transfer.chunk + at, send=transfer.dst)

    def _receive(self, index: int, transfer: Transfer) -> None:
        member, on = self.members[transfer.dst], self.fusion.on.get(index)
        end, to = self._end(transfer.dst, transfer, sends=False), NONE
        if on is not None:
            to = self.lowered.transfers[on].dst
        kind = _kind(transfer.add, on is not None, index not in self.fusion.unwritten)
        for at, count in self.runs[index]:
            chunk = transfer.to + at
            reads = chunk if transfer.add else None
            writes = None if index in self.fusion.unwritten else chunk
            member.add(end, kind, count, reads=reads, writes=writes, recv=transfer.src, send=to)

    def _copy(self, index: int, transfer: Transfer) -> None:
        member = self.members[transfer.src]
        for at, count in self.runs[index]:
            if transfer.add:
                member.bring_home(OWN, transfer.to + at, count)
            kind: StepType = "re" if transfer.add else "cpy"
            member.add(OWN, kind, count, reads=transfer.chunk + at, writes=transfer.to + at)

    def _gpu(self, member: int) -> Gpu:
        homes = self.homes[member]
        return Gpu(
            id=member,
            i_chunks=len(self.lowered.input(member)) // self.unit,
            o_chunks=len(self.lowered.output(member)) // self.unit,
            s_chunks=len(homes.scratch) // self.unit,
            tb=self.members[member].thread_blocks(self.unit),
        )


def _kind(adds: bool, sends_on: bool, is_written: bool) -> StepType:
    if not adds:
        return "rcs" if sends_on else "r"
    if not sends_on:
        return "rrc"
    return "rrcs" if is_written else "rrs"


def _runs(cuts: set[int], count: int) -> list[Run]:
    ends = [0, *sorted(cuts), count]
    return [(begin, end - begin) for begin, end in pairwise(ends)]


def _neighbours(chunks: list[int], most: int) -> list[Run]:
    runs: list[Run] = []
    for chunk in chunks:
        if runs and chunk == sum(runs[-1]) and runs[-1][1] < most:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((chunk, 1))
    return runs


# ── receives that are one step with a send: in rings, where a member receives from one other and sends to one other ──

MOST_AHEAD: Final = 2  # chunks that a connection holds by protocol Simple: what all members send before they receive


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """Fused steps. `on[i]`: the transfer by which the receiver of transfer i forwards it in the same step; `unwritten`:
    those of them whose data the forwarding GPU need not write; `ahead`: by (GPU, channel) whose thread block both sends
    and receives, the transfers that it sends before it receives."""

    on: Mapping[int, int]
    unwritten: frozenset[int]
    ahead: Mapping[tuple[int, int], tuple[int, ...]]


def fused(lowered: Lowered) -> Fusion:
    """Return the transfers of a lowered collective that can be fused into one step."""
    sends: dict[tuple[int, int], list[int]] = {}
    receives: dict[tuple[int, int], list[int]] = {}
    for index, transfer in enumerate(lowered.transfers):
        if transfer.src != transfer.dst:
            sends.setdefault((transfer.src, transfer.channel), []).append(index)
            receives.setdefault((transfer.dst, transfer.channel), []).append(index)
    writers, uses = _history(lowered)
    on: dict[int, int] = {}
    ahead: dict[tuple[int, int], tuple[int, ...]] = {}
    for end in sorted(sends.keys() & receives.keys()):
        first = _ahead(lowered, sends[end], receives[end], writers)
        pairs = dict(zip(receives[end], sends[end][len(first) :], strict=False))
        if first and all(_passes_on(lowered.transfers, *pair, writers) for pair in pairs.items()):
            on.update(pairs)
            ahead[end] = first
    unwritten = frozenset(first for first, second in on.items() if _is_unread(lowered, first, second, uses))
    return Fusion(on=on, unwritten=unwritten, ahead=ahead)


def _ahead(lowered: Lowered, sends: list[int], receives: list[int], writers: Mapping[int, set[int]]) -> tuple[int, ...]:
    """Return the transfers that a GPU sends on a channel before it receives on it, if the channel is used like a ring;
    otherwise none."""
    transfers = lowered.transfers
    if len({transfers[index].dst for index in sends}) > 1 or len({transfers[index].src for index in receives}) > 1:
        return ()
    place = next((at for at, index in enumerate(sends) if writers[index] & set(receives)), len(sends))
    first = tuple(sends[:place])
    is_room = sum(transfers[index].count for index in first) <= MOST_AHEAD and len(sends) - place <= len(receives)
    is_there = all(max(writers[index]) < receives[0] for index in first)
    return first if is_room and is_there else ()


def _passes_on(transfers: tuple[Transfer, ...], one: int, other: int, writers: Mapping[int, set[int]]) -> bool:
    """Return whether a send sends exactly the chunks of an earlier receive."""
    got, sent = transfers[one], transfers[other]
    return one < other and (got.to, got.count) == (sent.chunk, sent.count) and writers[other] == {one}


Use = tuple[int, str]  # which transfer, and whether it reads, replaces or adds


def _history(lowered: Lowered) -> tuple[dict[int, set[int]], dict[tuple[int, int], list[Use]]]:
    """Return for each transfer the transfers that last wrote its source, and for each (GPU, chunk) its reads and
    writes, in order."""
    last: dict[tuple[int, int], int] = {}
    writers: dict[int, set[int]] = {}
    uses: dict[tuple[int, int], list[Use]] = {}
    for index, transfer in enumerate(lowered.transfers):
        source = [(transfer.src, transfer.chunk + at) for at in range(transfer.count)]
        writers[index] = {last.get(place, -1) for place in source}
        for place in source:
            uses.setdefault(place, []).append((index, "read"))
        for at in range(transfer.count):
            place = transfer.dst, transfer.to + at
            uses.setdefault(place, []).append((index, "add" if transfer.add else "replace"))
            last[place] = index
    return writers, uses


def _is_unread(lowered: Lowered, first: int, second: int, uses: Mapping[tuple[int, int], list[Use]]) -> bool:
    """Return whether a sum is overwritten, or not part of the result, after it was sent on."""
    got = lowered.transfers[first]
    if not got.add:
        return False
    for chunk in range(got.to, got.to + got.count):
        after = [use for use in uses[got.dst, chunk] if use[0] > first and use[0] != second]
        if after and after[0][1] != "replace":
            return False
        if not after and chunk in lowered.output(got.dst):
            return False
    return True
