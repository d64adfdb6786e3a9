"""Catalogs of the TOML files that ship with simfrontier; every number in these files carries its source."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError, near, nearest
from simfrontier.base.io import on_base, read_toml
from simfrontier.base.units import unit_of

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Source of one number of a TOML file. For a table such as links or rings, the number is the count of its entries.
    `interval`: 90 % interval of a fitted number, None if unknown."""

    key: str
    value: float
    unit: str
    kind: str
    source: str
    interval: tuple[float, float] | None = None


def sources_of(document: Mapping[str, Any], prefix: str = "") -> Iterator[Provenance]:
    """Yield the source of every number of a valid document, in document order; a table without a value counts as one
    number, its number of entries."""
    for name, part in document.items():
        if not isinstance(part, dict):
            continue
        key = prefix + name
        if "source" not in part or "kind" not in part:  # a table of tables, in which a name may be "source"
            yield from sources_of(part, f"{key}.")
            continue
        value, unit = (part["value"], unit_of(key)) if "value" in part else (_num_entries(part), "entries")
        interval = (part["low"], part["high"]) if "low" in part else None
        yield Provenance(key=key, value=value, unit=unit, kind=part["kind"], source=part["source"], interval=interval)


def _num_entries(table: Mapping[str, Any]) -> int:
    """Return the number of entries of a table, not counting `kind` and `source`; 1 for a table without entries."""
    values = [value for key, value in table.items() if key not in ("kind", "source")]
    if len(values) == 1 and isinstance(values[0], dict):
        return sum(map(len, values[0].values()))
    return len(values[0]) if len(values) == 1 and isinstance(values[0], list) else len(values) or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Catalog of the TOML files of one sort (`what`, e.g. machines) in a folder; it also finds a user's own file of
    that sort.

    A file may name another file as its `base`, and then contains only the differences from it: a file of the catalog
    or, with `own_bases`, a user's own file. `settle(merged, own)` returns the document to use, from the merged document
    and the file's own document.
    """

    folder: Path
    what: str
    own_bases: bool = False
    settle: Callable[[Document, Document], Document] = lambda merged, own: merged

    def names(self) -> tuple[str, ...]:
        """Return the names of the catalog's files, sorted."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.toml")))

    def path(self, name_or_path: str, more: Iterable[str] = ()) -> Path:
        """Return the path of a file, given its name in the catalog or a path (any text with a "/" or ending in
        ".toml"). `more`: further names that the error message lists as allowed. Raises InputError for an unknown
        name."""
        if "/" in name_or_path or name_or_path.endswith(".toml"):
            return Path(name_or_path)
        if name_or_path not in self.names():
            raise InputError(
                f'{self.what} "{name_or_path}" is not in the catalog; {self._meant(name_or_path, more)} '
                "(a file of your own: give its path, ending in .toml)"
            )
        return self.folder / f"{name_or_path}.toml"

    def _meant(self, name: str, more: Iterable[str]) -> str:
        """Return the text that suggests a name of the catalog for an unknown one, which may be near to an alias."""
        names = (*more, *self.names())
        documents = {each: read_toml(self.folder / f"{each}.toml", f"{self.what} file") for each in self.names()}
        aliases = {alias: each for each, document in documents.items() for alias in document.get("aliases", ())}
        return nearest(aliases.get(near(name, (*names, *aliases)) or "", name), names)

    def where(self, path: Path) -> str:
        """Return the name by which error messages call a file."""
        return path.name if path.parent == self.folder else str(path)

    def document(self, path: Path) -> Document:
        """Return the document of a file, merged with its base. Raises InputError."""
        document = read_toml(path, f"{self.what} file")
        folder = path.parent if self.own_bases else None
        try:
            return on_base(document, self.folder, self.names(), self.what, folder=folder, settle=self.settle)
        except InputError as error:
            raise error.within(self.where(path)) from None

    def with_numbers(
        self, document: Document, numbers: Mapping[str, float], kind: str, source: str, more: Iterable[str] = ()
    ) -> Document:
        """Return the document with some numbers replaced: `numbers` maps dotted keys to new values, which get that
        `kind` and `source`. `more`: keys of numbers that a file may omit. Raises InputError for a key that is neither a
        number of the document nor one of `more`."""
        changed = copy.deepcopy(document)
        keys = [*(number.key for number in sources_of(document) if number.unit != "entries"), *more]
        for key, value in numbers.items():
            if key not in keys:
                raise InputError(f'"{key}" is not a number of this {self.what}; {_meant(key, keys)}')
            table = changed
            for name in key.split("."):
                table = table.setdefault(name, {})
            is_count = unit_of(key) == "count" or isinstance(table.get("value"), int)  # a scenario's are floats
            for bound in ("low", "high"):  # of the number that is replaced
                table.pop(bound, None)
            whole = is_count and float(value).is_integer()
            table |= {"value": int(value) if whole else value, "kind": kind, "source": source}
        return changed


def _meant(key: str, keys: Iterable[str]) -> str:
    """Return the text that suggests the key most similar to an unknown one. If the table of the unknown key has keys,
    only these are candidates, compared by their last name."""
    table, _, last = key.rpartition(".")
    beside = {name.rpartition(".")[2]: name for name in keys if name.rpartition(".")[0] == table}
    close = near(last, beside)
    return nearest(last, beside) if beside and close is None else nearest(beside.get(close or "", key), keys)
