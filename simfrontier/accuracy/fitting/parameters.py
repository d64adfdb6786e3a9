"""Free parameters of library models and harnesses: the numbers that a file marks as fitted, and how to change them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from simfrontier.accuracy.predictors.harness import Harness
from simfrontier.collectives import (
    HopTimes,
    Levels,
    Library,
    LowLatency,
    RingTimes,
    TuningModel,
    all_algorithms,
    load_library,
    ranks_and_packages,
)
from simfrontier.schedule import CollectiveKind

STEPPED = "tuning.simple_weight"  # moves thresholds only: the error is a staircase in it
_NOT_OF_THE_LAW = ("residual.",)
# Numbers that are one with a free parameter: the file says so, and marks only the first of them as fitted.
_ONE_WITH: Mapping[str, Mapping[str, str]] = {
    "cray-mpich": {
        "ring.hop_in_node_s": "ring.hop_between_nodes_s",
        "ring_ll.hop_in_node_s": "ring_ll.hop_between_nodes_s",
    },
    "recursive-halving-mpi4py": {"direct.hop_in_node_s": "direct.hop_between_nodes_s"},
}
_LEVELS = ("levels.", "harness.")

_Said = TypeVar("_Said")  # of a parameter: its value, or its interval
_Value = TypeVar("_Value", Library, Harness, HopTimes, RingTimes, LowLatency, TuningModel, Levels)


def free_parameters(library: Library, harnesses: Sequence[Harness]) -> dict[str, float]:
    """Dotted key → value of every number of the library and of the harnesses that is marked as fitted.

    Of a library of two levels: what it says itself; the two libraries behind it have parameters of their own.
    """
    numbers = [*library.provenance(), *(number for harness in harnesses for number in harness.provenance)]
    return {
        number.key: float(number.value)
        for number in numbers
        if number.kind == "fitted"
        and not number.key.startswith(_NOT_OF_THE_LAW)
        and (library.two_level is None or number.key.startswith(_LEVELS))
    }


def allowed(key: str) -> tuple[float, float]:
    """The least and the most that a parameter may be: a share is at most 1, a corner's sharpness at least 1."""
    if key.startswith(("shares.", "ring_shares.")) or key.endswith(("_share", "bandwidth_ratio")):
        return 0.0, 1.0
    return (1.0, math.inf) if key.endswith(".sharpness") else (0.0, math.inf)


def with_partners(library: str, known: Mapping[str, _Said]) -> dict[str, _Said]:
    """What is known of a library's parameters, by dotted key, also for the numbers that equal them."""
    partners = _ONE_WITH.get(library, {})
    return dict(known) | {partners[key]: each for key, each in known.items() if key in partners}


def with_numbers(
    library: Library, harnesses: Sequence[Harness], numbers: Mapping[str, float]
) -> tuple[Library, tuple[Harness, ...]]:
    """The library and the harnesses with other values for some numbers, and those one with them, by dotted key."""
    changed = {harness.name: harness for harness in harnesses}
    for key, value in with_partners(library.name, numbers).items():
        part, name = key.rsplit(".", 1)
        if part.startswith("harness."):
            whose = part.removeprefix("harness.")
            changed[whose] = _with(changed[whose], name, value)
        else:
            library = _SETTERS[part](library, name, value)
    return library, tuple(changed.values())


def _hops(attribute: str) -> Callable[[Library, str, float], Library]:
    def set_hop(library: Library, name: str, value: float) -> Library:
        times: HopTimes = getattr(library, attribute)
        return _with(library, attribute, _with(times, name, value))

    return set_hop


def _low_latency(library: Library, name: str, value: float) -> Library:
    low = library.ring_ll
    assert low is not None, "a library without LL has no number of it"
    return replace(library, ring_ll=_with(low, name, value))


def _tuning(library: Library, name: str, value: float) -> Library:
    assert library.tuning is not None, "a library without a tuning model has no number of it"
    return replace(library, tuning=_with(library.tuning, name, value))


def _share(library: Library, name: str, value: float) -> Library:
    return replace(library, link_shares={**library.link_shares, name: value})


def _ring_share(library: Library, name: str, value: float) -> Library:
    return replace(library, ring_shares={**library.ring_shares, name: value})


def _cap(library: Library, name: str, value: float) -> Library:
    return replace(library, ring_caps={**library.ring_caps, ranks_and_packages(name): value})


def _level(kind: CollectiveKind) -> Callable[[Library, str, float], Library]:
    def set_level(library: Library, name: str, value: float) -> Library:
        two = library.two_level
        assert two is not None, "a library of one level has no number of two"
        levels = two.calls[kind]
        if name == "hop_between_nodes_s":
            ring = replace(levels.between.ring, hop_between_nodes_s=value)
            direct = replace(levels.between.direct, hop_between_nodes_s=value)
            levels = replace(levels, between=replace(levels.between, ring=ring, direct=direct))
        else:
            levels = _with(levels, name, value)
        return replace(library, two_level=replace(two, calls={**two.calls, kind: levels}))

    return set_level


def _levels(library: Library, name: str, value: float) -> Library:
    two = library.two_level
    assert two is not None, "a library of one level has no number of two"
    calls = {}
    for kind, levels in two.calls.items():
        between = levels.between
        if name == "rate_share":
            slower = {link: share * value for link, share in _link_shares(between.name).items()}
            between = replace(between, link_shares=slower)
        else:
            between = replace(between, ring=_with(between.ring, name, value))
        calls[kind] = replace(levels, between=between)
    return replace(library, two_level=replace(two, calls=calls))


@lru_cache(maxsize=16)
def _link_shares(library: str) -> Mapping[str, float]:
    """What a library reaches by itself of each class of links."""
    return load_library(library).link_shares


def _with(whole: _Value, name: str, part: Any) -> _Value:
    """The same value with another part."""
    return replace(whole, **{name: part})


_SETTERS: Mapping[str, Callable[[Library, str, float], Library]] = {
    **{law: _hops(law) for each in all_algorithms() for law in each.laws},
    "ring_ll": _low_latency,
    "tuning": _tuning,
    "shares": _share,
    "ring_shares": _ring_share,
    "ring_caps": _cap,
    "levels": _levels,
    "levels.all_gather": _level("all_gather"),
    "levels.reduce_scatter": _level("reduce_scatter"),
}
