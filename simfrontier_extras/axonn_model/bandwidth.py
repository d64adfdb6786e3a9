"""Bandwidths of groups in the tables of AxoNN's authors, by size and by the ranks inside a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.io import read_toml, typed
from simfrontier_extras.axonn_model.schema import Tables
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


def load_bandwidths(version: VersionName, machine: str) -> Bandwidths:
    """Read the version's bandwidths on a machine, of VERSION.toml. Raises InputError, for a machine without a table
    with the names of those that have one."""
    path = CATALOG / f"{version}.toml"
    machines = typed(read_toml(path, "table of bandwidths"), Tables, path.name).machines
    names = {name: table for table, entry in machines.items() for name in (table, *entry.also_of)}
    if machine not in names:
        raise InputError(f"{version} has no table of bandwidths on {machine!r}; allowed: {', '.join(sorted(names))}")
    known = machines[names[machine]]
    return Bandwidths(
        version=version,
        machine=names[machine],
        in_node={(row.inner, row.size): row.gib_per_s for row in known.in_node.rows},
        between_nodes_gib_per_s=known.between_nodes.gib_per_s,
        shared_by_at_most=known.between_nodes.shared_by_at_most,
        latency_s_per_rank=known.latency_s_per_rank,
        source=known.in_node.source,
    )
