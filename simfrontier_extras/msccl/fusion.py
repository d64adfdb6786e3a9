"""Fusion of receives with the sends that pass on what they received: in rings, where a member receives from one
other and sends to one other.

Such a channel of a member becomes one thread block: it sends some messages first, then every receive is one step with
the send of what it received. A receive whose sum nobody reads afterwards does not even write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simfrontier.core.collectives import Lowered, Transfer

MOST_AHEAD: Final = 2  # chunks that a connection holds by protocol Simple: what all members send before they receive


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """`on[i]`: the transfer by which the member that receives transfer i sends it on in the same step; `unwritten`:
    those of them that are not written down there; `ahead`: per (member, channel) whose thread block does both, what it
    sends before it receives."""

    on: Mapping[int, int]
    unwritten: frozenset[int]
    ahead: Mapping[tuple[int, int], tuple[int, ...]]


def fused(lowered: Lowered) -> Fusion:
    """Return the transfers of a lowered collective that can be one step."""
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
    """Return the transfers that a member sends on a channel before it receives there, if the channel is like a ring's;
    else none."""
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
    """Per transfer those that wrote what it reads last, and per (member, chunk) who uses it, in order."""
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
    """Return whether a sum is replaced, or not part of the result, after it was sent on."""
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
