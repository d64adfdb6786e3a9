"""Bytes per link direction in one step, simulated or counted: their table, and its file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from simfrontier.base.io import NotNegative, read_json, typed
from simfrontier.base.wholefile import write_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBytes:
    """Bytes that one direction of a link carries in a step, from box to box ("node 0 gcd 1", "node 0 nic0", "net").

    `name` is the simulator's name of the link, e.g. "node 0 xgmi 0>1"; counted bytes are a mean over steps.
    """

    name: str
    link_class: str
    src: str
    dst: str
    num_bytes: NotNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTable:
    """All links of a job in one step of the schedule with that digest; `title`: the source of these bytes."""

    digest: str
    title: str
    links: tuple[LinkBytes, ...]


def save_links(table: LinkTable, path: Path) -> None:
    """Write the table as JSON, all or nothing. Raises InputError if it cannot be written."""
    write_json(asdict(table), path)


def load_links(path: Path) -> LinkTable:
    """Read a table that `save_links` wrote. Raises InputError."""
    return typed(read_json(path, "table of links"), LinkTable, str(path))
