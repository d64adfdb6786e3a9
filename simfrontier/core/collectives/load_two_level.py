"""Reading a two-level library: which library is between the nodes, which inside, and what it does beside its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from simfrontier.base.errors import InputError
from simfrontier.base.io import SOURCED, Kind, Names, NotNegative, Part, Positive, Share, Text, typed
from simfrontier.core.collectives.library import Levels, Library, Residual, TwoLevel
from simfrontier.core.machine import Provenance
from simfrontier.core.program import HALVING, RING, TWO_LEVEL, CollectiveKind

BETWEEN_NODES = (RING, HALVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenLibrary:
    """The library between nodes, and whether its calls go by `ring` or by `halving` (recursive halving and doubling, in
    rounds of its direct messages); `low_latency`: whether its rings take the protocol for small blocks."""

    kind: Kind
    source: Text
    library: Text
    algorithm: Annotated[str, Names(*BETWEEN_NODES)] = RING
    low_latency: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideLibrary:
    """The library inside nodes."""

    kind: Kind
    source: Text
    library: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsOfCall:
    """What a kind of call takes beside its two calls; `hop_between_nodes_s`: None is the library's own."""

    base_s: Annotated[NotNegative, SOURCED]
    reorder_bytes_per_s: Annotated[Positive, SOURCED]
    hop_between_nodes_s: Annotated[NotNegative, SOURCED] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsTable:
    """What differs between nodes from the library's own numbers while all devices of a node call at once, and the kinds
    of calls that go by two levels; the others are left to the library inside. `rate_share`: of what the library's
    shares of links say; `forwarded_share`: None is the library's own."""

    between: BetweenLibrary
    inside: InsideLibrary
    rate_share: Annotated[Share, SOURCED] | None = None
    forwarded_share: Annotated[Part, SOURCED] | None = None
    all_gather: LevelsOfCall | None = None
    reduce_scatter: LevelsOfCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelFile:
    """`machines` and `residual` as of a library of one level."""

    name: Text
    title: Text
    machines: tuple[Text, ...] = ()
    levels: LevelsTable
    residual: Residual | None = None


LEVELLED: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter")


def two_level_library(document: dict[str, Any], where: str, load: Callable[[str], Library]) -> Library:
    """The library of a document with `levels`: the library inside, its calls replaced by those of two levels; its
    sources are those of both levels' libraries. `load` finds a library of one level by name. Raises InputError."""
    file = typed(document, TwoLevelFile, where)
    inside = _level(f"{where}: levels.inside.library", file.levels.inside.library, load)
    between = _level(f"{where}: levels.between.library", file.levels.between.library, load)
    known = {kind: part for kind in LEVELLED if (part := getattr(file.levels, kind)) is not None}
    for level, library in (("inside", inside), ("between", between)):
        _refuse_no_rings(f"{where}: levels.{level}.library", library, known)
    calls = {kind: _levels(between, file.levels, part) for kind, part in known.items()}
    taken: tuple[CollectiveKind, ...] = (*calls, "all_reduce") if len(calls) == len(LEVELLED) else tuple(calls)
    return replace(
        inside,
        name=file.name,
        title=file.title,
        machines=file.machines,
        sources=tuple(dict.fromkeys((*_named(inside), *_named(between)))),  # both may be one library
        choices={**inside.choices, **dict.fromkeys(taken, (TWO_LEVEL,))},
        residual=file.residual,
        two_level=TwoLevel(library_inside=inside, calls=calls, between_by=file.levels.between.algorithm),
    )


def _levels(between: Library, levels: LevelsTable, call: LevelsOfCall) -> Levels:
    """The library between nodes as it is while all devices of a node call at once."""
    if levels.rate_share is not None:
        slower = {name: share * levels.rate_share for name, share in between.link_shares.items()}
        between = replace(between, link_shares=slower)
    if levels.forwarded_share is not None:
        between = replace(between, ring=replace(between.ring, forwarded_share=levels.forwarded_share))
    if not levels.between.low_latency:
        between = replace(between, ring_ll=None)
    if call.hop_between_nodes_s is not None:
        ring = replace(between.ring, hop_between_nodes_s=call.hop_between_nodes_s)
        direct = replace(between.direct, hop_between_nodes_s=call.hop_between_nodes_s)
        between = replace(between, ring=ring, direct=direct)
    return Levels(between=between, base_s=call.base_s, reorder_bytes_per_s=call.reorder_bytes_per_s)


def _level(what: str, name: str, load: Callable[[str], Library]) -> Library:
    try:
        return load(name)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def _refuse_no_rings(what: str, library: Library, known: dict[CollectiveKind, LevelsOfCall]) -> None:
    for kind in known:
        if library.choices[kind] != (RING,):
            raise InputError(
                f"{what}: {library.name} carries {kind} by {' or '.join(library.choices[kind])}; allowed: a library "
                "that carries it by rings"
            )


def _named(library: Library) -> tuple[Provenance, ...]:
    """A library's numbers, under its name."""
    return tuple(replace(number, key=f"{library.name}.{number.key}") for number in library.sources)
