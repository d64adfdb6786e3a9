"""A run of nccl-tests or rccl-tests: its test, its ranks, and the table of times that they make.

Format: NVIDIA/nccl-tests and ROCm/rccl-tests, src/common.cu. The size column is the larger of send and receive buffer,
hence the whole message in our sense for all four tests (doc/PERFORMANCE.md); times are averages over iterations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import CallTable, MeasuredPoint, merged
from simfrontier.core.program import CollectiveKind
from simfrontier.inputs.measured.reading import Unusable

TESTS: dict[str, CollectiveKind] = {
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "all_reduce_perf": "all_reduce",
    "alltoall_perf": "all_to_all",
}
TEST_NAME = re.compile(r"(?<![a-z_])([a-z]+(?:_[a-z]+)*_perf)(?![a-z])")
WRONG_RESULTS = "wrong results"
TWO_JOBS = "as in the output of two jobs at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A rank of a run: its number, its group, and its host."""

    number: int
    group: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Tables of a log, one per run of a test and size of group, the hosts that it names, sorted, and sentences about
    the runs and lines that are left out."""

    tables: tuple[CallTable, ...]
    hosts: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def table_of(
    where: str,
    kind: CollectiveKind,
    ranks: Sequence[Rank],
    times: Iterable[tuple[int, float]],
    packages: int | None,
) -> CallTable:
    """Return the table of a run among these ranks; `times`: (bytes, seconds) of its lines, of which those of one size
    become their median. Raises Unusable, and InputError for packages that the ranks cannot be on."""
    num_ranks, nodes = _shape(where, ranks)
    if num_ranks % (packages or num_ranks):
        text = f"--packages: got {packages}, allowed: a divisor of its {num_ranks} ranks"
        raise InputError(text, where=where)
    if (packages or num_ranks) % nodes:
        raise InputError(f"--packages: got {packages}, allowed: a multiple of its {nodes} hosts", where=where)
    passes = [
        CallTable(
            kind=kind,
            ranks=num_ranks,
            nodes=nodes,
            packages=packages or num_ranks,
            points=(MeasuredPoint(bytes=size, seconds=seconds),),
        )
        for size, seconds in times
    ]
    return merged(passes)[0]


def _shape(where: str, ranks: Sequence[Rank]) -> tuple[int, int]:
    """Return ranks and hosts of each group. Raises Unusable if groups differ, or if the ranks are not of one job."""
    groups: dict[str, list[str]] = {}
    for rank in ranks:
        groups.setdefault(rank.group, []).append(rank.host)
    for number, times in Counter(rank.number for rank in ranks).items():
        if times > 1:
            raise Unusable(f"rank {number} is there {times} times, {TWO_JOBS}, allowed: every rank once", where=where)
    shapes = {(len(hosts), len(set(hosts))) for hosts in groups.values()}
    if len(shapes) != 1:
        text = "names no ranks" if not shapes else "has groups of several sizes"
        text += ', allowed: lines "# Rank 0 ... on HOST device 0", equally many per group'
        raise Unusable(text, where=where)
    num_ranks, nodes = shapes.pop()
    if num_ranks < 2:
        raise Unusable("of one rank, allowed: two or more", where=where)
    if num_ranks % nodes:
        raise Unusable(f"{num_ranks} ranks on {nodes} hosts, allowed: equally many on each", where=where)
    return num_ranks, nodes
