"""Collective algorithms, one module per family: transfers, loads on links, latency, and the volume that a rank
sends."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.collectives.algorithms.base import Algorithm
from simfrontier.core.program import ALGORITHMS, DISPATCHERS, RING, RING_TWICE, CollectiveKind

__all__ = ["Algorithm", "algorithm", "all_algorithms", "in_libraries", "in_plans"]


# of those that are not in a module of their name
_MODULES: Final[Mapping[str, str]] = {RING_TWICE: RING, **dict.fromkeys(DISPATCHERS, "dispatchers")}


@cache
def algorithm(name: str) -> Algorithm:
    """Return the algorithm with this name. Raises InputError if there is none."""
    if name not in ALGORITHMS:
        raise InputError(f"algorithm {name!r}: {nearest(name, ALGORITHMS)}")
    known: tuple[Algorithm, ...] = import_module(f"{__name__}.{_MODULES.get(name, name)}").ALGORITHMS
    return next(each for each in known if each.name == name)


def all_algorithms() -> tuple[Algorithm, ...]:
    """Return all algorithms, in the order of `ALGORITHMS`."""
    return tuple(map(algorithm, ALGORITHMS))


def in_libraries(kind: CollectiveKind) -> tuple[str, ...]:
    """Return the names of the algorithms that a library's file may list, in its table `algorithms`, for a kind of
    collective."""
    return tuple(each.name for each in all_algorithms() if kind in each.in_libraries and each.said_in == "algorithms")


def in_plans() -> tuple[str, ...]:
    """Return the names of the algorithms that a plan may request."""
    return tuple(each.name for each in all_algorithms() if each.in_plans)
