"""Reading a library model from the catalog or from a user's own TOML file; every number carries its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.collectives.calibration import Calibration
from simfrontier.collectives.library import RING_SLICES, TREE_SLICES, Library
from simfrontier.collectives.load_residual import residual_of
from simfrontier.collectives.load_two_level import two_level_library
from simfrontier.collectives.ring_law import HopTimes, LowLatency, Pipeline
from simfrontier.collectives.tuning import AlgorithmTuning, TuningModel, Way
from simfrontier.errors import InputError, nearest
from simfrontier.io import read_toml, typed, value_or
from simfrontier.machine import Provenance, sources_of
from simfrontier.schedule import DIRECT, RING, TREE, CollectiveKind

if TYPE_CHECKING:
    from simfrontier.collectives.schema import LibraryFile, LowLatencyFile, RingFile, TuningFile

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


def load_library(
    name_or_path: str, overrides: Mapping[str, float] | None = None, calibration: Calibration | None = None
) -> Library:
    """The library model of that name, or of the TOML file at that path; `overrides`: dotted key of a number → new
    value; they win over what a calibration measured.

    Raises InputError.
    """
    path = _path(name_or_path)
    where = path.name if path.parent == CATALOG else str(path)
    document = read_toml(path, "library file")
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
    document = read_toml(path, "library file")
    if "levels" in document:
        raise InputError(f"got {name_or_path!r}, which has levels itself; allowed: a library of one level")
    return _library(document, path.name if path.parent == CATALOG else str(path))


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
    from simfrontier.collectives.schema import LibraryFile

    if "levels" in document:
        library = two_level_library(document, where, _one_level)
        return replace(library, sources=(*_sources(document), *library.sources))
    file = typed(document, LibraryFile, where)
    choices, tree = _choices(file, where), file.tree
    return Library(
        name=file.name,
        title=file.title,
        machines=tuple(file.machines),
        num_channels=file.num_channels.value,
        units_per_channel=file.units_per_channel.value,
        ring=_hops(file.ring),
        pipeline=_pipeline(file.ring),
        ring_ll=_low_latency(file.ring_ll) if file.ring_ll is not None else None,
        link_shares={name: share.value for name, share in file.shares.items()},
        ring_shares={name: share.value for name, share in file.ring_shares.items()},
        ring_caps={ranks_and_packages(name): cap.value for name, cap in file.ring_caps.items()},
        tree=_hops(tree) if tree is not None else None,
        tree_ll=_hops(file.tree_ll) if file.tree_ll is not None else None,
        tree_ratio=tree.bandwidth_ratio.value if tree is not None else 1.0,
        direct=_hops(file.direct),
        sources=_sources(document),
        choices=choices,
        tuning=_tuning(file.tuning, where) if file.tuning is not None else None,
        residual=residual_of(file.residual) if file.residual is not None else None,
        ring_order=file.ring_order,
        paced=file.paced,
        in_flight=value_or(file.in_flight, None),
        reduces_backwards=file.reduces_backwards,
        least_elements=value_or(file.ring.least_elements, 1),
        ring_slices=value_or(file.ring.slices, RING_SLICES),
        tree_slices=value_or(tree.slices if tree else None, TREE_SLICES),
        least_bytes=value_or(file.least_bytes, 0.0),
        tree_chunk_bytes=value_or(tree.chunk_bytes if tree else None, 0.0),
        tree_fill_share=value_or(tree.fill_share if tree else None, 0.0),
        tree_least_bytes=value_or(tree.least_slice_bytes if tree else None, 1.0),
    )


def _choices(file: LibraryFile, where: str) -> dict[CollectiveKind, tuple[str, ...]]:
    """What carries each kind of call: as the file says, or as RCCL does."""
    if file.algorithms is None:
        choices: dict[CollectiveKind, tuple[str, ...]] = dict(AS_RCCL)
    else:
        choices = {kind: tuple(getattr(file.algorithms, kind)) for kind in AS_RCCL}
    if TREE in choices["all_reduce"] and file.tree is None:
        text = "by default" if file.algorithms is None else "by algorithms.all_reduce"
        raise InputError(f"{where}: tree: missing, needed because all-reduces may go by tree {text}")
    return choices


def _pipeline(part: RingFile) -> Pipeline:
    return Pipeline(
        forwarded_share=part.forwarded_share.value,
        sharpness=value_or(part.sharpness, math.inf),
    )


def _low_latency(part: LowLatencyFile) -> LowLatency:
    return LowLatency(
        hops=_hops(part),
        channel_s=value_or(part.channel_s, 0.0),
        bytes_per_channel=value_or(part.bytes_per_channel, math.inf),
        num_channels=value_or(part.num_channels, 1),
        rate_share=part.rate_share.value,
    )


def _tuning(part: TuningFile, where: str) -> TuningModel:
    if "ring_simple" not in part.ways:
        raise InputError(f"{where}: tuning.ways.ring_simple: missing, needed because other ways are weighed against it")
    if "tree_ll" in part.ways and "tree_simple" not in part.ways:
        raise InputError(f"{where}: tuning.ways.tree_simple: missing, needed because tree_ll is weighed against it")
    return TuningModel(
        ways={way: _believed(way, part) for way in part.ways},
        bus_bytes_per_s=part.bus_bytes_per_s.value,
        host_hop_s=part.host_hop_s.value,
        simple_host_factor=part.simple_host_factor.value,
        all_reduce_turns=part.all_reduce_turns.value,
        all_reduce_factor=part.all_reduce_factor.value,
        simple_weight=part.simple_weight.value,
        one_node_block_bytes=value_or(part.one_node_block_bytes, None),
    )


def _believed(way: Way, part: TuningFile) -> AlgorithmTuning:
    text = part.ways[way]
    share, cap = text.rate_share.value, value_or(text.cap_bytes_per_s, math.inf)
    return AlgorithmTuning(
        hops=_hops(text),
        rate_share=(share, value_or(text.rate_share_more_nodes, share)),
        cap_bytes_per_s=(cap, value_or(text.cap_more_nodes_bytes_per_s, cap)),
        corrections=tuple(part.corrections[way].factors) if way in part.corrections else (),
    )


def ranks_and_packages(name: str) -> tuple[int, int]:
    """`ranks_4_packages_2_bytes_per_s` is (4, 2)."""
    parts = name.split("_")
    return int(parts[1]), int(parts[3])


def _hops(part: Any) -> HopTimes:
    return HopTimes(
        base_s=part.base_s.value, in_node_s=part.hop_in_node_s.value, between_nodes_s=part.hop_between_nodes_s.value
    )


def _sources(document: Mapping[str, Any]) -> tuple[Provenance, ...]:
    return tuple(sources_of(document, _num_entries))


def _num_entries(table: Mapping[str, Any]) -> int:
    """Beside the kind and the source."""
    return len(table["factors"]) if "factors" in table else len(table) - 2
