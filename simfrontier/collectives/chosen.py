"""Algorithms that a scenario chooses for kinds of calls, in the place of those that the library would take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simfrontier.collectives.algorithms import algorithm, all_algorithms
from simfrontier.collectives.library import Library
from simfrontier.errors import InputError, shown
from simfrontier.schedule import LIBRARY, CollectiveKind


def carriers(kind: CollectiveKind) -> tuple[str, ...]:
    """Names of the algorithms by which some library carries a kind of call."""
    return tuple(each.name for each in all_algorithms() if kind in each.in_libraries)


def with_algorithms(library: Library, chosen: Mapping[CollectiveKind, tuple[str, ...]]) -> Library:
    """The library with other `choices`: of several algorithms the one that is fastest alone is taken, and trees beside
    others where the library's own rule takes them.

    A plan's `via` wins over it, and messages that cannot be summed on their way go directly all the same.
    Raises InputError, under the kind of call, where the library has no numbers of an algorithm, or no schedule can be
    simulated with it.
    """
    for kind, names in chosen.items():
        for name in names:
            if fault := _fault(library, kind, name):
                allowed = ", ".join([LIBRARY, *(each for each in carriers(kind) if not _fault(library, kind, each))])
                raise InputError(f"got {shown(name)}, but {fault}; allowed: {allowed}", key=(kind,))
    return replace(library, choices={**library.choices, **chosen})


def _fault(library: Library, kind: CollectiveKind, name: str) -> str:
    """Why the library cannot carry a kind of call by an algorithm, "" where it can."""
    by = algorithm(name)
    if lacked := by.lacks(library, kind):
        return f"library {library.name} has no {lacked}"
    return by.not_as_loads.partition(";")[0]
