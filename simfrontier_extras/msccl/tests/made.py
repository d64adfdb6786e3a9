"""Algorithms of all collectives and sizes, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from simfrontier.core.collectives import Lowered, lower
from simfrontier.core.program import CollectiveKind
from simfrontier_extras.msccl.from_lowered import algo_of
from simfrontier_extras.msccl.program import Algo
from tests.core.collectives.lowering_runs import PAIRS, recipe

Key = tuple[str, CollectiveKind, int, int, int]  # algorithm, kind, size, members on a node, channels


def keys(sizes: Iterable[int]) -> Iterator[Key]:
    """Every algorithm, kind and size, with all ways to have nodes where that matters, and 1 and 2 channels."""
    for algorithm, kind in PAIRS:
        for size in sizes:
            for per_node in [each for each in range(1, size + 1) if size % each == 0]:
                if algorithm in ("tree", "two_level") or per_node == size:
                    for channels in (1, 2):
                        yield algorithm, kind, size, per_node, channels


@cache
def lowered(key: Key) -> Lowered:
    algorithm, kind, size, per_node, channels = key
    return lower(kind, recipe(algorithm, size, per_node, channels, seed=size))


@cache
def made(key: Key) -> Algo:
    return algo_of(lowered(key), "-".join(map(str, key)))
