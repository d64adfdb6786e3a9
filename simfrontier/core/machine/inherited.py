"""What a machine's file does not take from its base, because something of its own stands in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simfrontier.core.machine.graph import NIC, PCIE, PORT
from simfrontier.core.machine.hardware import BUS

GLOBAL: Final = "global"  # the link class of a dragonfly's links between groups
INSIDE: Final = (("switch",), ("bus",), ("links", "rings"))  # of a node: what joins its devices, one of these
BETWEEN: Final = (("dragonfly",), ("fat_tree",))  # of a machine: what joins its nodes
OUTSIDE: Final = ("nics", "chains")  # of a node: its part of the network
Document = Mapping[str, Any]


def without_inherited(merged: dict[str, Any], own: Document) -> dict[str, Any]:
    """A document on its base without the base's tables that `own`, the file's, replaces by others, and without the
    base's link classes that nothing uses then."""
    node, own_node = _table(merged, "node"), _table(own, "node")
    dropped = _replaced(INSIDE, own_node)
    above = _replaced(BETWEEN, own)
    if _value(own.get("num_nodes")) == 1:
        dropped |= {*OUTSIDE} - own_node.keys()
        above |= {name for names in BETWEEN for name in names} - own.keys()
    kept = {key: part for key, part in merged.items() if key not in above}
    if node:
        kept["node"] = {key: part for key, part in node.items() if key not in dropped}
    if _table(merged, "link_classes"):
        wanted = {*_used(kept), *_table(own, "link_classes")}
        kept["link_classes"] = {name: part for name, part in merged["link_classes"].items() if name in wanted}
    return kept


def _replaced(ways: tuple[tuple[str, ...], ...], own: Document) -> set[str]:
    """Tables of the other ways where a file has one of these."""
    if not any(name in own for names in ways for name in names):
        return set()
    return {name for names in ways if not any(each in own for each in names) for name in names}


def _used(document: Document) -> set[str]:
    """Link classes that a machine needs; a wrong document, which is refused later, may be anything."""
    node = _table(document, "node")
    used = set(_table(_table(node, "links"), "pairs"))
    used |= {name for name, user in ((BUS, "bus"), (PORT, "switch"), (PCIE, "nics"), (NIC, "nics")) if user in node}
    return used | ({GLOBAL} if "dragonfly" in document else set())


def _table(document: Document, key: str) -> Document:
    part = document.get(key)
    return part if isinstance(part, dict) else {}


def _value(number: object) -> object:
    return number.get("value") if isinstance(number, dict) else number
