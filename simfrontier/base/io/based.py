"""Files that say only what differs from another one, their base."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError, nearest, shown, wrong
from simfrontier.base.io.text import read_toml


def headed(value: Any, title: str, form: str, version: int, where: str) -> dict[str, Any]:
    """The other keys of a document that is of this form and version. Raises InputError."""
    if not isinstance(value, dict):
        raise InputError(f"not a {title}: {wrong(value, 'a table')}", where=where)
    if value.get("format") != form:
        raise InputError(f"{wrong(value.get('format'), shown(form))}, of a {title}", where=where, key=("format",))
    got = value.get("version")
    if got != version or isinstance(got, bool):
        raise InputError(wrong(got, f"{version}, which this simfrontier reads"), where=where, key=("version",))
    return {name: part for name, part in value.items() if name not in ("format", "version")}


Document = dict[str, Any]


def _as_merged(merged: Document, own: Document) -> Document:
    return merged


def on_base(
    document: Document,
    catalog: Path,
    names: Collection[str],
    what: str,
    *,
    folder: Path | None = None,
    settle: Callable[[Document, Document], Document] = _as_merged,
    above: tuple[str, ...] = (),
) -> Document:
    """A document with all that it leaves to its `base`, one of the `names` of a catalog of `what`s: table by table;
    what has a source is taken as a whole, with its own source. Raises InputError.

    `folder`: of the file, from which a base may also be a file of one's own, by a path that ends in .toml. `settle`
    makes of a merged document, and of the one that is on the base, what is taken. `above`: files that are on this one.
    """
    if "base" not in document:
        return document
    own = {key: part for key, part in document.items() if key != "base"}
    base = document["base"]
    path = catalog / f"{base}.toml"
    if folder is not None and isinstance(base, str) and base.endswith(".toml"):
        path = folder / base
    elif base not in names:
        text = f"got {shown(base)}, which is no {what} of the catalog; {nearest(str(base), names)}"
        raise InputError(text, key=("base",))
    if os.path.realpath(path) in above:
        raise InputError(f"got {shown(base)}, which is based on this file; allowed: another one", key=("base",))
    below = read_toml(path, f"{what} file")
    try:
        below = on_base(
            below,
            catalog,
            names,
            what,
            folder=folder and path.parent,
            settle=settle,
            above=(*above, os.path.realpath(path)),
        )
    except InputError as error:
        raise error.within(str(path)) from None
    return settle(_merged(below, own), own)


def _merged(base: Document, own: Document) -> Document:
    merged = dict(base)
    for key, part in own.items():
        tables = [each for each in (base.get(key), part) if isinstance(each, dict) and "source" not in each]
        merged[key] = _merged(base[key], part) if len(tables) == 2 else part
    return merged
