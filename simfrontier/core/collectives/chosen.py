"""Candidate algorithms for a library's collective calls, and algorithms that a scenario selects instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simfrontier.base.errors import InputError, shown
from simfrontier.core.collectives.algorithms import algorithm, all_algorithms, in_plans
from simfrontier.core.collectives.laws import GroupShape
from simfrontier.core.collectives.library import Library
from simfrontier.core.program import DIRECT, LIBRARY, NVLS, RING, TREE, CollectiveKind


def carriers(kind: CollectiveKind) -> tuple[str, ...]:
    """Return the names of the algorithms that some library may use for this kind of collective."""
    return tuple(each.name for each in all_algorithms() if kind in each.in_libraries)


def allowed_algorithms(library: Library, kind: CollectiveKind, added_later: bool, via: str) -> tuple[str, ...]:
    """Return the candidate algorithms of a collective: the library's choices, unless the schedule prescribes `via`, or
    the data is encoded and cannot be summed on the way (`added_later`). Raises InputError for a `via` that does not
    support the collective or is not allowed in plans, and if the library lacks the parameters of an algorithm."""
    if (kind == "all_to_all" and via == LIBRARY) or (kind == "reduce_scatter" and added_later):
        return (DIRECT,)
    if via == LIBRARY:
        return library.choices[kind]
    by, allowed = algorithm(via), ", ".join(library.choices[kind])
    if not by.in_plans or kind not in by.collectives:
        others = [LIBRARY, *(name for name in in_plans() if kind in algorithm(name).collectives)]
        raise InputError(f"{kind} by {via}: {by.title}: no plan's {kind} goes so; allowed: {', '.join(others)}")
    if lacked := by.lacks(library, kind):
        raise InputError(f"{kind} by {via}: library {library.name} has no {lacked}, allowed: {allowed}")
    return (via,)


def candidate_algorithms(
    library: Library, kind: CollectiveKind, added_later: bool, via: str, message_bytes: float, group: GroupShape
) -> tuple[str, ...]:
    """Return the candidate algorithms of a call, given its largest message, without those that the library's own rule
    for trees excludes; the fastest candidate is used. Raises InputError as `allowed_algorithms` does."""
    left = algorithms_left(library, kind, added_later, via, message_bytes, group)
    return tuple([name for name, is_left in left.items() if is_left])


def algorithms_left(
    library: Library, kind: CollectiveKind, added_later: bool, via: str, message_bytes: float, group: GroupShape
) -> dict[str, bool]:
    """Return for each candidate algorithm of a call whether the library's own rules, for trees and inside nodes, allow
    it; the values are arrays for a library whose parameters are arrays. Raises InputError as `allowed_algorithms` does,
    and if the only one is NVLS and the group is on several nodes."""
    options = allowed_algorithms(library, kind, added_later, via)
    if NVLS in options:
        options = tuple(name for name in options if name != NVLS) if group.num_nodes > 1 else options
        if not options:
            raise InputError(f"{kind} by {NVLS}: got a group on {group.num_nodes} nodes, allowed: of one node")
    if library.in_node is not None and group.num_nodes == 1 and RING in options:
        by_nvls = NVLS in options and library.in_node.tuning.takes_nvls(message_bytes, group.size)
        return {name: by_nvls == (name == NVLS) for name in options if name in (RING, NVLS)}
    if library.tuning is None or TREE not in options or set(options) == {TREE}:
        return dict.fromkeys(options, True)
    by_tree = library.tuning.takes_tree(message_bytes, group)
    return {name: by_tree == (name == TREE) for name in options}


def with_algorithms(library: Library, chosen: Mapping[CollectiveKind, tuple[str, ...]]) -> Library:
    """Return the library with other algorithms as `choices`: if there are several for a kind of collective, the one
    that is fastest while nothing else runs is used, and trees only if the library's own rule uses them.

    A plan's `via` takes precedence, and encoded data that cannot be summed on the way is sent by direct messages in any
    case. Raises InputError, with the kind of collective as its key, if the library lacks the parameters of an
    algorithm, or if no schedule can be simulated with it.
    """
    for kind, names in chosen.items():
        for name in names:
            if fault := _fault(library, kind, name):
                allowed = ", ".join([LIBRARY, *(each for each in carriers(kind) if not _fault(library, kind, each))])
                raise InputError(f"got {shown(name)}, but {fault}; allowed: {allowed}", key=(kind,))
    return replace(library, choices={**library.choices, **chosen})


def _fault(library: Library, kind: CollectiveKind, name: str) -> str:
    """Return the reason why the library cannot use an algorithm for a kind of collective, "" if it can."""
    by = algorithm(name)
    if lacked := by.lacks(library, kind):
        return f"library {library.name} has no {lacked}"
    return by.not_as_loads.partition(";")[0]
