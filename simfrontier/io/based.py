"""Catalog files that say only what differs from another one of their catalog, their base."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from simfrontier.errors import InputError, nearest, shown
from simfrontier.io.text import read_toml


def on_base(document: dict[str, Any], catalog: Path, names: Collection[str], what: str) -> dict[str, Any]:
    """A document with all that it leaves to its `base`, one of the `names` of a catalog of `what`s: table by table;
    what has a source is taken as a whole, with its own source. Raises InputError."""
    if "base" not in document:
        return document
    own = {key: part for key, part in document.items() if key != "base"}
    base = document["base"]
    if base not in names:
        text = f"got {shown(base)}, which is no {what} of the catalog; {nearest(str(base), names)}"
        raise InputError(text, key=("base",))
    below = read_toml(catalog / f"{base}.toml", f"{what} file")
    return _merged(on_base(below, catalog, names, what), own)


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, part in own.items():
        tables = [each for each in (base.get(key), part) if isinstance(each, dict) and "source" not in each]
        merged[key] = _merged(base[key], part) if len(tables) == 2 else part
    return merged
