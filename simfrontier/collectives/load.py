"""Reading a library model from the catalog or from a user's own TOML file; every number carries its source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfrontier.collectives.library import HopTimes, Library
from simfrontier.errors import InputError, nearest
from simfrontier.machine import Provenance
from simfrontier.tomlfile import read_toml

CATALOG = Path(__file__).parent / "catalog"


def libraries() -> tuple[str, ...]:
    """Names of the library models that simfrontier brings along."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.toml")))


def load_library(name_or_path: str, overrides: Mapping[str, float] | None = None) -> Library:
    """The library model of that name, or of the TOML file at that path; `overrides`: dotted key of a number → new
    value.

    Raises InputError.
    """
    path = _path(name_or_path)
    where = path.name if path.parent == CATALOG else str(path)
    document = read_toml(path, "library file")
    library = _library(document, where)
    if overrides:
        for key, value in overrides.items():
            _override(document, key, value, where)
        library = _library(document, f"{where}, with overrides")
    return library


def _path(name_or_path: str) -> Path:
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    if name_or_path not in libraries():
        raise InputError(
            f"library {name_or_path!r}: {nearest(name_or_path, libraries())} "
            "(a file of your own: give its path, ending in .toml)"
        )
    return CATALOG / f"{name_or_path}.toml"


def _override(document: dict[str, Any], key: str, value: float, where: str) -> None:
    numbers = [source.key for source in _sources(document, "")]
    if key not in numbers:
        raise InputError(f"{where}: {key!r} is not a number of this library; {nearest(key, numbers)}")
    table = document
    for part in key.split("."):
        table = table[part]
    whole = isinstance(table["value"], int) and float(value).is_integer()
    table |= {"value": int(value) if whole else value, "kind": "assumed", "source": "scenario override"}


def _library(document: dict[str, Any], where: str) -> Library:
    from pydantic import ValidationError

    from simfrontier.collectives.schema import LibraryFile
    from simfrontier.machine.faults import one_line

    try:
        file = LibraryFile.model_validate(document)
    except ValidationError as error:
        raise InputError(f"{where}: {one_line(error, LibraryFile)}") from None
    return Library(
        name=file.name,
        title=file.title,
        num_channels=file.num_channels.value,
        units_per_channel=file.units_per_channel.value,
        ring=HopTimes(
            base_s=file.ring.base_s.value,
            in_node_s=file.ring.hop_in_node_s.value,
            between_nodes_s=file.ring.hop_between_nodes_s.value,
        ),
        forwarded_share=file.ring.forwarded_share.value,
        ring_ll=HopTimes(
            base_s=file.ring_ll.base_s.value,
            in_node_s=file.ring_ll.hop_in_node_s.value,
            between_nodes_s=file.ring_ll.hop_between_nodes_s.value,
        ),
        ll_bytes_per_s=file.ring_ll.bytes_per_s.value,
        link_shares={name: share.value for name, share in file.shares.items()},
        ring_caps={_ranks_and_packages(name): cap.value for name, cap in file.ring_caps.items()},
        tree=_hops(file.tree),
        tree_ratio=file.tree.bandwidth_ratio.value,
        direct=_hops(file.direct),
        sources=tuple(_sources(document, "")),
    )


def _ranks_and_packages(name: str) -> tuple[int, int]:
    """`ranks_4_packages_2_bytes_per_s` is (4, 2)."""
    parts = name.split("_")
    return int(parts[1]), int(parts[3])


def _hops(part: Any) -> HopTimes:
    return HopTimes(
        base_s=part.base_s.value, in_node_s=part.hop_in_node_s.value, between_nodes_s=part.hop_between_nodes_s.value
    )


def _sources(document: dict[str, Any], prefix: str) -> list[Provenance]:
    from simfrontier.units import unit_of

    out: list[Provenance] = []
    for name, part in document.items():
        if isinstance(part, dict) and "source" in part:
            key = prefix + name
            out.append(
                Provenance(key=key, value=part["value"], unit=unit_of(key), kind=part["kind"], source=part["source"])
            )
        elif isinstance(part, dict):
            out += _sources(part, f"{prefix}{name}.")
    return out
