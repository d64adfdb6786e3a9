"""What a group reaches by the tables of AxoNN's authors: bandwidth by its size and by the ranks that stand inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.io import read_toml, typed
from simfrontier_extras.axonn_model.schema import MachineBandwidths, Tables
from simfrontier_extras.axonn_model.versions import VersionName

CATALOG: Final = Path(__file__).parent / "catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidths:
    """A version's bandwidths on one machine, by the name that its table has.

    `in_node`: GiB/s by (inner, size): ranks of all dimensions inside this one, and ranks of this one. Other groups
    share the `between_nodes_gib_per_s` of a rank's way out with as many groups as stand inside them, with
    `shared_by_at_most`. The authors write GB/s, but divide GiB (bytes / 1024³) by it. `source`: where it is published.
    """

    version: VersionName
    machine: str
    in_node: Mapping[tuple[int, int], float]
    between_nodes_gib_per_s: float
    shared_by_at_most: int
    latency_s_per_rank: float
    source: str

    def gib_per_s(self, inner: int, size: int) -> float:
        """Of a group of `size` ranks with `inner` ranks of other dimensions inside it."""
        known = self.in_node.get((inner, size))
        return self.between_nodes_gib_per_s / min(self.shared_by_at_most, inner) if known is None else known


def load_bandwidths(version: VersionName, machine: str, folder: Path = CATALOG) -> Bandwidths:
    """The version's bandwidths on a machine, of VERSION.toml in the folder. Raises InputError, for a machine without
    a table with the names of those that have one."""
    file = _read(folder / f"{version}.toml")
    tables = {name: table for table, entry in file.machines.items() for name in (table, *entry.also_of)}
    if machine not in tables:
        raise InputError(f"{version} has no table of bandwidths on {machine!r}; allowed: {', '.join(sorted(tables))}")
    return _bandwidths(version, tables[machine], file.machines[tables[machine]])


def _read(path: Path) -> Tables:
    return typed(read_toml(path, "table of bandwidths"), Tables, path.name)


def _bandwidths(version: VersionName, machine: str, file: MachineBandwidths) -> Bandwidths:
    in_node: dict[tuple[int, int], float] = {}
    for number, row in enumerate(file.in_node.rows):
        if (row.inner, row.size) in in_node:
            place = f"{version}.toml: machines.{machine}.in_node.rows[{number}]"
            raise InputError(f"{place}: got inner = {row.inner}, size = {row.size} twice, allowed: every pair once")
        in_node[row.inner, row.size] = row.gib_per_s
    return Bandwidths(
        version=version,
        machine=machine,
        in_node=in_node,
        between_nodes_gib_per_s=file.between_nodes.gib_per_s,
        shared_by_at_most=file.between_nodes.shared_by_at_most,
        latency_s_per_rank=file.latency_s_per_rank,
        source=file.in_node.source,
    )
