"""Bandwidths of groups in the tables of AxoNN's authors, by size and by the ranks inside a group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge, Gt, Len

from simfrontier.base.errors import InputError
from simfrontier.base.io import SOURCED, Kind, NotNegative, Strict, Text, read_toml, typed
from simfrontier_extras.axonn_model.versions import VersionName

CATALOG: Final = Path(__file__).parent / "catalog"
Ranks = Annotated[int, Ge(1)]
Rate = Annotated[float, Gt(0)]


class Row(Strict):
    """`inner`: ranks of all dimensions inside this one; `size`: of this dimension."""

    inner: Ranks
    size: Annotated[int, Ge(2)]
    gib_per_s: Rate


class InNode(Strict):
    """Bandwidths of groups within a node."""

    kind: Kind
    source: Text
    rows: Annotated[tuple[Row, ...], Len(1)]


class BetweenNodes(Strict):
    """gib_per_s / min(shared_by_at_most, inner): the bandwidth of every group that has no row."""

    kind: Kind
    source: Text
    gib_per_s: Rate
    shared_by_at_most: Ranks


class MachineBandwidths(Strict):
    """`also_of`: machines that differ in nothing that a bandwidth rests on."""

    also_of: tuple[Text, ...] = ()
    latency_s_per_rank: Annotated[NotNegative, SOURCED]
    in_node: InNode
    between_nodes: BetweenNodes


class Tables(Strict):
    """The file of a version, by machine."""

    machines: Annotated[Mapping[str, MachineBandwidths], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidths:
    """A version's bandwidths on one machine, by the name that its table has. The authors write GB/s, but divide GiB
    (bytes / 1024³) by it."""

    version: VersionName
    machine: str
    table: MachineBandwidths

    @property
    def source(self) -> str:
        return self.table.in_node.source

    def gib_per_s(self, inner: int, size: int) -> float:
        """The bandwidth of a group of `size` ranks with `inner` ranks of other dimensions inside it."""
        row = next((row for row in self.table.in_node.rows if (row.inner, row.size) == (inner, size)), None)
        between = self.table.between_nodes
        return between.gib_per_s / min(between.shared_by_at_most, inner) if row is None else row.gib_per_s


def load_bandwidths(version: VersionName, machine: str) -> Bandwidths:
    """Read the version's bandwidths on a machine, of VERSION.toml. Raises InputError, for a machine without a table
    with the names of those that have one."""
    path = CATALOG / f"{version}.toml"
    machines = typed(read_toml(path, "table of bandwidths"), Tables, path.name).machines
    names = {name: table for table, entry in machines.items() for name in (table, *entry.also_of)}
    if machine not in names:
        raise InputError(f"{version} has no table of bandwidths on {machine!r}; allowed: {', '.join(sorted(names))}")
    return Bandwidths(version=version, machine=names[machine], table=machines[names[machine]])
