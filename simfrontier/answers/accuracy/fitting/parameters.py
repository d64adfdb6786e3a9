"""Free parameters of library models and harnesses: the numbers that a file marks as fitted, and how to change them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from simfrontier.answers.accuracy.predictors.calls import Harness
from simfrontier.core.collectives import Library, load_library, ranks_and_packages

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
_Value = TypeVar("_Value")


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
    """Return what is known of a library's parameters, by dotted key, also for the numbers that equal them."""
    partners = _ONE_WITH.get(library, {})
    return dict(known) | {partners[key]: each for key, each in known.items() if key in partners}


def with_numbers(
    library: Library, harnesses: Sequence[Harness], numbers: Mapping[str, float]
) -> tuple[Library, tuple[Harness, ...]]:
    """The library and the harnesses with other values for some numbers, and those one with them, by dotted key."""
    changed = {harness.name: harness for harness in harnesses}
    for key, value in with_partners(library.name, numbers).items():
        if key.startswith("harness."):
            _, whose, name = key.split(".")
            changed[whose] = with_number(changed[whose], (name,), value)
        else:
            for path, number in _places(library, key, value):
                library = with_number(library, path, number)
    return library, tuple(changed.values())


def with_number(whole: _Value, path: Sequence[Any], number: float) -> _Value:
    """A value with another number at a path of attributes and keys of mappings."""
    first, *rest = path
    if isinstance(whole, Mapping):
        part = with_number(whole[first], rest, number) if rest else number
        return {**whole, first: part}  # type: ignore[return-value]
    part = with_number(getattr(whole, first), rest, number) if rest else number
    return replace(whole, **{first: part})  # type: ignore[type-var]


def _places(library: Library, key: str, value: float) -> Iterator[tuple[tuple[Any, ...], float]]:
    """The paths in a library of what a dotted key of its file says, and the number there."""
    part, name = key.rsplit(".", 1)
    match part.split("."):
        case ["shares"]:
            yield ("link_shares", name), value
        case ["ring_caps"]:
            yield ("ring_caps", ranks_and_packages(name)), value
        case ["levels"]:
            assert library.two_level is not None, "a library of one level has no number of two"
            for kind, levels in library.two_level.calls.items():
                between = ("two_level", "calls", kind, "between")
                if name == "rate_share":
                    for link, share in _link_shares(levels.between.name).items():
                        yield (*between, "link_shares", link), share * value
                else:
                    yield (*between, "ring", name), value
        case ["levels", kind] if name == "hop_between_nodes_s":
            for law in ("ring", "direct"):
                yield ("two_level", "calls", kind, "between", law, name), value
        case ["levels", kind]:
            yield ("two_level", "calls", kind, name), value
        case _:
            yield (part, name), value


@lru_cache(maxsize=16)
def _link_shares(library: str) -> Mapping[str, float]:
    """Return the share that a library reaches by itself of each class of links."""
    return load_library(library).link_shares
