"""A lowered collective made ready to be run: who waits for whom, as counts, and how large its transfers are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfrontier.core.collectives import Lowered


@dataclass(frozen=True, slots=True, eq=False)
class TransferLists:
    """Parallel lists over the transfers of one collective.

    needs       what must happen before a transfer starts: arrivals of others, the start of the one before it on the
                same connection between two members, and that its members are ready for the message
    followers   transfers that wait for its arrival
    following   the next on the same connection, or -1
    of_member   the transfers that a member sends or receives, ascending
    """

    src: list[int]
    dst: list[int]
    channel: list[int]
    needs: list[int]
    followers: list[list[int]]
    following: list[int]
    of_member: list[list[int]]
    lowered: Lowered

    @classmethod
    def of(cls, lowered: Lowered, apart: bool, in_flight: int | None) -> TransferLists:
        """`apart`: channels have connections of their own, so that none waits for another between two members;
        `in_flight`: messages that may be under way on one connection (None: any number)."""
        count = len(lowered.transfers)
        src = [transfer.src for transfer in lowered.transfers]
        dst = [transfer.dst for transfer in lowered.transfers]
        channel = [transfer.channel for transfer in lowered.transfers]
        needs = [len(waits) + 1 + (a != b) for waits, a, b in zip(lowered.after, src, dst, strict=True)]
        followers: list[list[int]] = [[] for _ in range(count)]
        for index, waits in enumerate(lowered.after):
            for before in waits:
                followers[before].append(index)
        following = [-1] * count
        lines: dict[tuple[int, int, int], list[int]] = {}
        of_member: list[list[int]] = [[] for _ in range(lowered.size)]
        for index, pair in enumerate(zip(src, dst, strict=True)):
            line = lines.setdefault((*pair, channel[index] if apart else 0), [])
            place = len(line)
            line.append(index)
            if place:
                following[line[-2]] = index
                needs[index] += 1
                if in_flight is not None and place >= in_flight:
                    followers[line[place - in_flight]].append(index)
                    needs[index] += 1
            for member in dict.fromkeys(pair):
                of_member[member].append(index)
        return cls(src, dst, channel, needs, followers, following, of_member, lowered)

    def sizes(self, num_bytes: int, unit_bytes: int) -> list[float]:
        """Bytes of every transfer of a message of elements of `unit_bytes` each."""
        pieces = 1 if self.lowered.kind == "all_reduce" else self.lowered.size
        assert num_bytes % (pieces * unit_bytes) == 0, (num_bytes, pieces, unit_bytes)
        begins = np.array(self.lowered.offsets(num_bytes // (pieces * unit_bytes)), np.int64) * unit_bytes
        chunk = np.array([transfer.chunk for transfer in self.lowered.transfers], np.int64)
        width = np.array([transfer.count for transfer in self.lowered.transfers], np.int64)
        return [float(size) for size in (begins[chunk + width] - begins[chunk]).tolist()]
