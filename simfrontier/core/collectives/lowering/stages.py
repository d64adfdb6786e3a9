"""What the algorithms share: gathers and reductions turned into each other, and messages cut into slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simfrontier.core.collectives.lowering.transfers import Transfer


def mirrored(transfers: Sequence[Transfer], add: bool) -> list[Transfer]:
    """The transfers run backwards: of a gather that copies, the reduction that adds; of a reduction, the gather.

    A gather brings each piece from its member to every other one exactly once, along a tree; backwards along that tree
    every contribution reaches the piece's member exactly once.
    """
    return [Transfer(t.dst, t.src, t.to, t.chunk, t.count, add, t.channel) for t in reversed(transfers)]


def in_time(timed: Iterable[tuple[int, Transfer]]) -> tuple[Transfer, ...]:
    """The transfers by their stage; those of one stage in the order given."""
    return tuple(transfer for _, transfer in sorted(timed, key=lambda entry: entry[0]))


def cut(pairs: Sequence[tuple[int, int]], slices: int) -> list[list[tuple[int, int, int]]]:
    """Chunks to move, as (from, to), in up to `slices` even parts one after the other; each part as runs of neighbours
    (from, to, count)."""
    slices = min(slices, len(pairs))
    each, more = divmod(len(pairs), slices)
    out, begin = [], 0
    for part in range(slices):
        end = begin + each + (part < more)
        out.append(_runs(sorted(pairs[begin:end])))
        begin = end
    return out


def _runs(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for chunk, to in pairs:
        if runs and (chunk, to) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((chunk, to, 1))
    return runs
