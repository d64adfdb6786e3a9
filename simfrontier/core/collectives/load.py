"""Loading of library models from the catalog or from a TOML file of the user; every number has a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier.base.io import read_toml, typed
from simfrontier.core.collectives.calibration import Calibration, CallTable
from simfrontier.core.collectives.library import Levels, LevelsOfCall, LevelsTable, Library, TwoLevel, TwoLevelFile
from simfrontier.core.collectives.tuning import TuningModel
from simfrontier.core.collectives.volume import sent_part
from simfrontier.core.machine import OVERRIDE_SOURCE, Catalog, Machine, MeasuredNumbers, Provenance, sources_of
from simfrontier.core.program import DIRECT, RING, TREE, TWO_LEVEL, CollectiveKind

CATALOG = Path(__file__).parent / "catalog"
FILES = Catalog(folder=CATALOG, what="library")
# Algorithms of each kind of call where a library's file does not name them.
AS_RCCL: Mapping[CollectiveKind, tuple[str, ...]] = {
    "all_gather": (RING,),
    "reduce_scatter": (RING,),
    "all_reduce": (RING, TREE),
    "all_to_all": (DIRECT,),
}


def libraries() -> tuple[str, ...]:
    """Return the names of the library models in the catalog."""
    return FILES.names()


@cache
def environments_of(name: str) -> tuple[str, ...]:
    """Return the names of the variants of a library model: states of the system that a job may find without knowing."""
    files = ((each, read_toml(CATALOG / f"{each}.toml", "library file")) for each in libraries())
    return tuple(each for each, document in files if document.get("environment_of") == name)


def load_library(
    name_or_path: str, overrides: Mapping[str, float] | None = None, calibration: Calibration | None = None
) -> Library:
    """Return the library model with this name in the catalog, or from the TOML file at this path. `overrides`: dotted
    key of a number → new value; overrides take precedence over a calibration.

    Raises InputError.
    """
    path = FILES.path(name_or_path)
    where, document = FILES.where(path), FILES.document(path)
    library = _library(document, where)
    try:
        if calibration is not None:
            calibration.refuse_other_library(library.name)
            where += ", with a calibration"
            for key, value in calibration.library.items():
                kind, source = calibration.kind_of(key), calibration.source_of(key)
                document = FILES.with_numbers(document, {key: value}, kind, source)
            library = _library(document, where)
        if overrides:
            where += ", with overrides"
            document = FILES.with_numbers(document, overrides, "assumed", OVERRIDE_SOURCE)
            library = _library(document, where)
    except InputError as error:
        raise error.within(where) from None
    if calibration is not None:
        library = replace(library, tables=calibration.tables, sources=(*library.sources, *calibration.provenance()))
    return library


def _library(document: dict[str, Any], where: str) -> Library:
    if "levels" in document:
        return _two_level_library(document, where)
    library = typed(document, Library, where)
    if library.tuning is not None:
        _refuse_half_tuning(library.tuning, where)
    choices = dict(AS_RCCL)
    if library.algorithms is not None:
        choices = {kind: getattr(library.algorithms, kind) for kind in AS_RCCL}
    if TREE in choices["all_reduce"] and library.tree is None:
        raise InputError("missing, needed because all-reduces may go by tree", where=where, key=("tree",))
    return replace(library, choices=choices, sources=tuple(sources_of(document)))


def _refuse_half_tuning(tuning: TuningModel, where: str) -> None:
    """Raise InputError if the tuning model lacks an algorithm and protocol with which it compares the others."""
    for way, other, why in (
        ("ring_simple", None, "other ways are weighed against it"),
        ("tree_simple", "tree_ll", "tree_ll is weighed against it"),
    ):
        if way not in tuning.ways and (other is None or other in tuning.ways):
            raise InputError(f"missing, needed because {why}", where=where, key=("tuning", "ways", way))


# ── libraries of two levels ──

LEVELLED: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter")


def _two_level_library(document: dict[str, Any], where: str) -> Library:
    """Return the library of a document with the table `levels`: the library inside nodes, with two-level calls for the
    kinds listed there; its sources include those of both levels' libraries. Raises InputError."""
    file = typed(document, TwoLevelFile, where)
    known: dict[CollectiveKind, LevelsOfCall] = {
        kind: part for kind in LEVELLED if (part := getattr(file.levels, kind)) is not None
    }
    inside, between = (
        _level(f"{where}: levels.{level}.library", library, known)
        for level, library in (("inside", file.levels.inside.library), ("between", file.levels.between.library))
    )
    calls = {kind: _levels(between, file.levels, part) for kind, part in known.items()}
    taken: tuple[CollectiveKind, ...] = (*calls, "all_reduce") if len(calls) == len(LEVELLED) else tuple(calls)
    return replace(
        inside,
        name=file.name,
        title=file.title,
        machines=file.machines,
        sources=(
            *sources_of(document),
            *dict.fromkeys((*_named(inside), *_named(between))),  # both may be one library
        ),
        choices={**inside.choices, **dict.fromkeys(taken, (TWO_LEVEL,))},
        residual=file.residual,
        two_level=TwoLevel(library_inside=inside, calls=calls, between_by=file.levels.between.algorithm),
    )


def _levels(between: Library, levels: LevelsTable, call: LevelsOfCall) -> Levels:
    """Return the parameters of a two-level call, with the library between nodes adjusted to all devices of a node
    calling at the same time."""
    if levels.rate_share is not None:
        slower = {name: share * levels.rate_share for name, share in between.shares.items()}
        between = replace(between, shares=slower)
    if levels.forwarded_share is not None:
        between = replace(between, ring=replace(between.ring, forwarded_share=levels.forwarded_share))
    if not levels.between.low_latency:
        between = replace(between, ring_ll=None)
    if call.hop_between_nodes_s is not None:
        ring = replace(between.ring, hop_between_nodes_s=call.hop_between_nodes_s)
        direct = replace(between.direct, hop_between_nodes_s=call.hop_between_nodes_s)
        between = replace(between, ring=ring, direct=direct)
    return Levels(between=between, base_s=call.base_s, reorder_bytes_per_s=call.reorder_bytes_per_s)


def _level(what: str, name: str, known: Mapping[CollectiveKind, LevelsOfCall]) -> Library:
    """Return the library of one level of a two-level library; it must use rings for all kinds of collectives in
    `known`. It cannot be a two-level library itself, as loading might then never end. Raises InputError."""
    try:
        path = FILES.path(name)
        document = FILES.document(path)
        if "levels" in document:
            raise InputError(f"got {name!r}, which has levels itself; allowed: a library of one level")
        library = _library(document, FILES.where(path))
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    for kind in known:
        if library.choices[kind] != (RING,):
            by = " or ".join(library.choices[kind])
            text = f"{name} carries {kind} by {by}; allowed: a library that carries it by rings"
            raise InputError(f"{what}: {text}")
    return library


def _named(library: Library) -> tuple[Provenance, ...]:
    """Return the sources of a library's numbers, with the name of the library before each key."""
    return tuple(replace(number, key=f"{library.name}.{number.key}") for number in library.sources)


# ── numbers of the machine in a calibration, and the rate of a shared bus that its tables require ──

BUS_RATE = "link_classes.bus.bytes_per_s"


def machine_numbers(calibration: Calibration, machine: Machine, library: Library) -> MeasuredNumbers:
    """Return the numbers with which the calibration replaces those of the machine's file.

    On a machine with a bus, all groups of a table share the bus at the measured times, so the rate of the bus is at
    least the largest total rate over all tables. The rate is set to that value unless the calibration gives one. Calls
    with a measured table occupy the whole bus while they run, so the rate matters only for groups without a table.
    Raises InputError if the calibration gives a lower rate.
    """
    numbers = dict(calibration.machine)
    rates = {table.group: total_bytes_per_s(table, machine, library) for table in calibration.calls if table.nodes == 1}
    if machine.node.has_bus and rates:
        fastest = max(rates, key=lambda group: rates[group])
        needed = rates[fastest] / machine.link_classes["bus"].share
        if numbers.setdefault(BUS_RATE, needed) < needed:
            raise InputError(
                f'machine."{BUS_RATE}": got {numbers[BUS_RATE]:g}, allowed: at least {needed:g}, the total rate of '
                f"{fastest[0]} over {fastest[1]} ranks"
            )
    return MeasuredNumbers(numbers=numbers, source=calibration.source)


def total_bytes_per_s(table: CallTable, machine: Machine, library: Library) -> float:
    """Return the total rate, in bytes/s, at which the ranks of a node send at the fastest point of a table, whose
    groups fill the node."""
    name = library.choices[table.kind][0]
    sent = float(sent_part(table.kind, name, table.ranks))
    return machine.devices_per_node * sent * table.fastest_bytes_per_s
