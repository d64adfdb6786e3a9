"""Algorithms of collectives, one file each: transfers, loads on links, latency, and what a rank sends."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.collectives.algorithms.base import Algorithm
from simfrontier.core.program import ALGORITHMS, CollectiveKind

__all__ = ["Algorithm", "algorithm", "all_algorithms", "in_libraries", "in_plans"]


@cache
def algorithm(name: str) -> Algorithm:
    """The algorithm of that name, from the file of that name. Raises InputError where there is none."""
    if name not in ALGORITHMS:
        raise InputError(f"algorithm {name!r}: {nearest(name, ALGORITHMS)}")
    loaded = import_module(f"{__name__}.{name}").ALGORITHM
    assert isinstance(loaded, Algorithm), f"{name}.ALGORITHM is not an algorithm"
    return loaded


def all_algorithms() -> tuple[Algorithm, ...]:
    """All algorithms, in the order of their list."""
    return tuple(map(algorithm, ALGORITHMS))


def in_libraries(kind: CollectiveKind) -> tuple[str, ...]:
    """Names of the algorithms that a library's file may list for a kind of call in its table `algorithms`."""
    return tuple(each.name for each in all_algorithms() if kind in each.in_libraries and each.said_in == "algorithms")


def in_plans() -> tuple[str, ...]:
    """Names of the algorithms that a plan may ask for."""
    return tuple(each.name for each in all_algorithms() if each.in_plans)
