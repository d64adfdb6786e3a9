"""Reading a library model from the catalog or from a user's own TOML file; every number carries its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le, Len

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import (
    SOURCED,
    Kind,
    Names,
    NotNegative,
    Positive,
    Rule,
    Share,
    Text,
    on_base,
    read_toml,
    typed,
)
from simfrontier.base.limits import COUNT
from simfrontier.core.collectives.algorithms import in_libraries
from simfrontier.core.collectives.calibration import Calibration
from simfrontier.core.collectives.laws import CHANNELS, HopTimes, LowLatency, RingTimes, TreeTimes
from simfrontier.core.collectives.library import Library, Residual
from simfrontier.core.collectives.load_two_level import two_level_library
from simfrontier.core.collectives.tuning import TuningModel
from simfrontier.core.machine import Provenance, sources_of
from simfrontier.core.program import DIRECT, RING, TREE, CollectiveKind

Count = Annotated[int, Ge(1), Le(COUNT.most), SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmsTable:
    """What a library may carry each kind of call by; of several the one that is fastest alone is taken."""

    kind: Kind
    source: Text
    all_gather: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_gather"))], ...], Len(1)]
    reduce_scatter: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "reduce_scatter"))], ...], Len(1)]
    all_reduce: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_reduce"))], ...], Len(1)]
    all_to_all: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_to_all"))], ...], Len(1)]


_CAP: Final = re.compile(r"ranks_([1-9][0-9]*)_packages_([1-9][0-9]*)_bytes_per_s")
CapName = Annotated[
    str,
    Rule(lambda name: _CAP.fullmatch(name) is not None, "ranks_N_packages_M_bytes_per_s", pattern=f"^{_CAP.pattern}$"),
]


def ranks_and_packages(name: str) -> tuple[int, int]:
    """`ranks_4_packages_2_bytes_per_s` is (4, 2)."""
    match = _CAP.fullmatch(name)
    assert match is not None, f"{name} is no key of ring_caps"
    return int(match[1]), int(match[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryFile:
    """`machines`: whose measurements it was fitted to. `environment_of`: the library that jobs take it for that find it
    in this state (None: it is no such state). `least_bytes`: of messages from this size on the law was fitted.
    `in_flight`: messages under way on one connection (None: any number). Without `algorithms`: rings, trees for
    all-reduces too, direct messages for all-to-alls. `ring_shares`: of rings, where they differ from `shares`."""

    name: Text
    title: Text
    machines: tuple[Text, ...] = ()
    environment_of: Text | None = None
    ring_order: Literal["links", "ranks"] = "links"
    paced: bool = True
    reduces_backwards: bool = False
    in_flight: Count | None = None
    num_channels: Annotated[int, Ge(1), Le(CHANNELS), SOURCED]
    units_per_channel: Annotated[NotNegative, SOURCED]
    least_bytes: Annotated[NotNegative, SOURCED] = 0.0
    algorithms: AlgorithmsTable | None = None
    ring: RingTimes
    ring_ll: LowLatency | None = None
    tuning: TuningModel | None = None
    residual: Residual | None = None
    shares: Mapping[str, Annotated[Share, SOURCED]] = field(default_factory=dict)
    ring_shares: Mapping[str, Annotated[Share, SOURCED]] = field(default_factory=dict)
    ring_caps: Mapping[CapName, Annotated[Positive, SOURCED]] = field(default_factory=dict)
    tree: TreeTimes | None = None
    tree_ll: HopTimes | None = None
    direct: HopTimes


CATALOG = Path(__file__).parent / "catalog"
# What carries each kind of call where a library's file does not say it.
AS_RCCL: Mapping[CollectiveKind, tuple[str, ...]] = {
    "all_gather": (RING,),
    "reduce_scatter": (RING,),
    "all_reduce": (RING, TREE),
    "all_to_all": (DIRECT,),
}


def libraries() -> tuple[str, ...]:
    """Names of the library models that simfrontier brings along."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.toml")))


@cache
def environments_of(name: str) -> tuple[str, ...]:
    """Names of the library models that are states in which a job may find that one without knowing it."""
    files = ((each, read_toml(CATALOG / f"{each}.toml", "library file")) for each in libraries())
    return tuple(each for each, document in files if document.get("environment_of") == name)


def load_library(
    name_or_path: str, overrides: Mapping[str, float] | None = None, calibration: Calibration | None = None
) -> Library:
    """The library model of that name, or of the TOML file at that path; `overrides`: dotted key of a number → new
    value; they win over what a calibration measured.

    Raises InputError.
    """
    path = _path(name_or_path)
    where = path.name if path.parent == CATALOG else str(path)
    document = _document(path, where)
    library = _library(document, where)
    if calibration is not None:
        calibration.refuse_other_library(library.name)
        for key, value in calibration.library.items():
            _override(document, key, value, where, calibration.kind_of(key), calibration.source_of(key))
        where += ", with a calibration"
        library = _library(document, where)
    if overrides:
        for key, value in overrides.items():
            _override(document, key, value, where, "assumed", "scenario override")
        library = _library(document, f"{where}, with overrides")
    if calibration is not None:
        library = replace(library, tables=calibration.tables, sources=(*library.sources, *calibration.provenance()))
    return library


def _one_level(name_or_path: str) -> Library:
    """A library that is a level of another one: its file may have none itself, or loading might never end."""
    path = _path(name_or_path)
    where = path.name if path.parent == CATALOG else str(path)
    document = _document(path, where)
    if "levels" in document:
        raise InputError(f"got {name_or_path!r}, which has levels itself; allowed: a library of one level")
    return _library(document, where)


def _document(path: Path, where: str) -> dict[str, Any]:
    """A file with all that it leaves to its base."""
    try:
        return on_base(read_toml(path, "library file"), CATALOG, libraries(), "library")
    except InputError as error:
        raise error.within(where) from None


def _path(name_or_path: str) -> Path:
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    if name_or_path not in libraries():
        raise InputError(
            f"library {name_or_path!r}: {nearest(name_or_path, libraries())} "
            "(a file of your own: give its path, ending in .toml)"
        )
    return CATALOG / f"{name_or_path}.toml"


def _override(document: dict[str, Any], key: str, value: float, where: str, kind: str, source: str) -> None:
    numbers = [number.key for number in _sources(document) if number.unit != "entries"]
    if key not in numbers:
        raise InputError(f"{where}: {key!r} is not a number of this library; {nearest(key, numbers)}")
    table = document
    for part in key.split("."):
        table = table[part]
    whole = isinstance(table["value"], int) and float(value).is_integer()
    for bound in ("low", "high"):  # of the number that is replaced
        table.pop(bound, None)
    table |= {"value": int(value) if whole else value, "kind": kind, "source": source}


def _library(document: dict[str, Any], where: str) -> Library:
    if "levels" in document:
        library = two_level_library(document, where, _one_level)
        return replace(library, sources=(*_sources(document), *library.sources))
    file = typed(document, LibraryFile, where)
    if file.tuning is not None:
        _refuse_half_tuning(file.tuning, where)
    return Library(
        name=file.name,
        title=file.title,
        machines=file.machines,
        environment_of=file.environment_of,
        num_channels=file.num_channels,
        units_per_channel=file.units_per_channel,
        ring=file.ring,
        ring_ll=file.ring_ll,
        link_shares=file.shares,
        ring_shares=file.ring_shares,
        ring_caps={ranks_and_packages(name): cap for name, cap in file.ring_caps.items()},
        tree=file.tree,
        tree_ll=file.tree_ll,
        direct=file.direct,
        sources=_sources(document),
        choices=_choices(file, where),
        tuning=file.tuning,
        residual=file.residual,
        ring_order=file.ring_order,
        paced=file.paced,
        in_flight=file.in_flight,
        reduces_backwards=file.reduces_backwards,
        least_bytes=file.least_bytes,
    )


def _choices(file: LibraryFile, where: str) -> dict[CollectiveKind, tuple[str, ...]]:
    """What carries each kind of call: as the file says, or as RCCL does."""
    if file.algorithms is None:
        choices: dict[CollectiveKind, tuple[str, ...]] = dict(AS_RCCL)
    else:
        choices = {kind: getattr(file.algorithms, kind) for kind in AS_RCCL}
    if TREE in choices["all_reduce"] and file.tree is None:
        text = "by default" if file.algorithms is None else "by algorithms.all_reduce"
        raise InputError(f"{where}: tree: missing, needed because all-reduces may go by tree {text}")
    return choices


def _refuse_half_tuning(tuning: TuningModel, where: str) -> None:
    """What one algorithm and protocol is weighed against has to be there."""
    for way, other, why in (
        ("ring_simple", None, "other ways are weighed against it"),
        ("tree_simple", "tree_ll", "tree_ll is weighed against it"),
    ):
        if way not in tuning.ways and (other is None or other in tuning.ways):
            raise InputError(f"missing, needed because {why}", where=where, key=("tuning", "ways", way))


def _sources(document: Mapping[str, Any]) -> tuple[Provenance, ...]:
    return tuple(sources_of(document, _num_entries))


def _num_entries(table: Mapping[str, Any]) -> int:
    """Beside the kind and the source."""
    return len(table["factors"]) if "factors" in table else len(table) - 2
