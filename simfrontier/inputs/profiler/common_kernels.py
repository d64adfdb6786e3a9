"""Kernels that all ranks of a program run. One that only some run, such as the copy of a loss that rank 0 alone prints,
is left out of their traces, where it becomes a pause of the same length."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from simfrontier.inputs.profiler.programs import RankProgram
from simfrontier.inputs.profiler.rank_trace import Kernel, RankTrace

_LOOKED_AHEAD: Final = 64  # kernels of one rank that another may lack in a row
_ALIKE: Final = 3  # kernels in a row by which two ranks are in step again
_MOST_LACKING: Final = 0.1  # of a rank's kernels on a lane; with more, ranks run other programs


def with_common_kernels(several: Sequence[RankProgram]) -> list[RankTrace]:
    """Return the traces of ranks that make the same calls, with the kernels that all of them run; unchanged if they run
    the same number on each lane, or too different ones."""
    lanes = [_by_lane(program) for program in several]
    traces = [program.trace for program in several]
    if any(each.keys() != lanes[0].keys() for each in lanes):
        return traces
    kept: list[list[Kernel]] = [[] for _ in several]
    for lane in lanes[0]:
        rows = [each[lane] for each in lanes]
        places = _common([_keys(row) for row in rows])
        if any(len(own) < (1 - _MOST_LACKING) * len(row) for own, row in zip(places, rows, strict=True)):
            return traces
        for out, own, row in zip(kept, places, rows, strict=True):
            out.extend(row[place] for place in own)
    return [
        replace(trace, kernels=sorted(kernels, key=lambda kernel: (kernel.order, kernel.start_s)))
        for trace, kernels in zip(traces, kept, strict=True)
    ]


def _by_lane(program: RankProgram) -> dict[str, list[Kernel]]:
    lanes = {op.kernel.stream: op.lane for op in program.ops}
    out: dict[str, list[Kernel]] = {}
    for kernel in program.trace.kernels:
        out.setdefault(lanes[kernel.stream], []).append(kernel)
    return out


def _keys(kernels: Sequence[Kernel]) -> list[Hashable]:
    """Return what a kernel of one rank shares with that of another: its name, or for a call its number."""
    calls = 0
    out: list[Hashable] = []
    for kernel in kernels:
        calls += kernel.call is not None
        out.append(kernel.name if kernel.call is None else calls)
    return out


def _common(rows: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Return, for each row, the places of a sequence of keys that all rows contain; all places if rows are equally
    long."""
    if len({len(row) for row in rows}) == 1:
        return [list(range(len(row))) for row in rows]
    places = [list(range(len(rows[0])))]
    for row in rows[1:]:
        pairs = list(_pairs([rows[0][place] for place in places[0]], row))
        places = [[own[left] for left, _ in pairs] for own in places]
        places.append([right for _, right in pairs])
    return places


def _pairs(left: Sequence[Hashable], right: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield the places of equal keys in two sequences, in order; where these differ, they go on where the fewest keys
    lie between."""
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            yield i, j
            i, j = i + 1, j + 1
            continue
        skips = ((i + k, j + skipped - k) for skipped in range(1, _LOOKED_AHEAD) for k in range(skipped + 1))
        found = next(((a, b) for a, b in skips if left[a : a + _ALIKE] == right[b : b + _ALIKE]), None)
        if found is None:
            return
        i, j = found
