"""Reading a machine from the catalog or from a user's own TOML file, with overrides from a scenario.

Whatever is wrong with a file is one InputError: file, key, what was got, what is allowed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError, Key, near, nearest
from simfrontier.base.io import on_base, read_toml, typed
from simfrontier.base.units import unit_of
from simfrontier.core.codecs import timed_codecs
from simfrontier.core.machine.build import build
from simfrontier.core.machine.form import MachineFile
from simfrontier.core.machine.hardware import CodecSpeeds, Machine, MatmulForms, Provenance
from simfrontier.core.machine.inherited import without_inherited


def sources_of(
    document: Mapping[str, Any], num_entries: Callable[[Mapping[str, Any]], int], prefix: str = ""
) -> Iterator[Provenance]:
    """The numbers of a valid document in its order; of a table without a value, how many entries it has."""
    for name, part in document.items():
        if not isinstance(part, dict):
            continue
        key = prefix + name
        if "source" not in part or "kind" not in part:  # a table of tables, in which a name may be "source"
            yield from sources_of(part, num_entries, f"{key}.")
            continue
        value, unit = (part["value"], unit_of(key)) if "value" in part else (num_entries(part), "entries")
        interval = (part["low"], part["high"]) if "low" in part else None
        yield Provenance(key=key, value=value, unit=unit, kind=part["kind"], source=part["source"], interval=interval)


CATALOG = Path(__file__).parent / "catalog"
OVERRIDE_SOURCE = "scenario override"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNumbers:
    """Numbers of a machine's file that were measured elsewhere: dotted key → value, and their common source."""

    numbers: Mapping[str, float]
    source: str


def catalog() -> tuple[str, ...]:
    """Names of the machines that simfrontier brings along."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.toml")))


def is_machine(name: str) -> bool:
    """Whether a text names a machine of the catalog, or a file of one's own (by a path that ends in .toml)."""
    return name in catalog() or name.endswith(".toml")


def document_of(name_or_path: str) -> dict[str, Any]:
    """The document of a machine's file, with all that it leaves to its base. Raises InputError."""
    path = _path(name_or_path)
    document = read_toml(path, "machine file")
    try:
        return on_base(document, CATALOG, catalog(), "machine", folder=path.parent, settle=without_inherited)
    except InputError as error:
        raise error.within(_where(path)) from None


def catalog_name(name_or_path: str) -> str:
    """The machine of the catalog that a machine is, or that its file, or the base of that, has as its base; empty where
    there is none. Raises InputError for a file that cannot be read."""
    path = _path(name_or_path)
    while path.parent != CATALOG:
        base = read_toml(path, "machine file").get("base", "")
        if not base.endswith(".toml"):
            return str(base)
        path = path.parent / base
    return path.stem


def load_machine(
    name_or_path: str, overrides: Mapping[str, float] | None = None, measured: MeasuredNumbers | None = None
) -> Machine:
    """The machine of that name in the catalog, or of the TOML file at that path (anything with a "/" or ".toml").

    A file may name a machine of the catalog, or another file, as its `base`, and then says only what differs; what of
    the base it replaces (a switch its links, a fat tree its dragonfly) and link classes that are left without a use are
    not its own.
    `measured`: what a calibration says instead of the file. `overrides`: dotted key of a number, e.g.
    `link_classes.nic.share`, to its new value; the number's kind becomes "assumed" and its source "scenario override";
    they win over what was measured. Those of `device.matmul_forms` and `device.codecs` need not be in the file. Raises
    InputError.
    """
    where = _where(_path(name_or_path))
    document = document_of(name_or_path)
    try:
        machine = _made(document)
        if measured is not None and measured.numbers:
            where += ", with a calibration"
            document = _overridden(document, measured.numbers, "measured", measured.source)
            machine = _made(document)
        if overrides:
            where += ", with overrides"
            document = _overridden(document, overrides, "assumed", OVERRIDE_SOURCE)
            machine = _made(document)
    except InputError as error:
        raise error.within(where) from None
    return machine


def _path(name_or_path: str) -> Path:
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        return Path(name_or_path)
    if name_or_path not in catalog():
        raise InputError(
            f'machine "{name_or_path}" is not in the catalog; {nearest(name_or_path, catalog())} '
            "(a file of your own: give its path, ending in .toml)"
        )
    return CATALOG / f"{name_or_path}.toml"


def _where(path: Path) -> str:
    return path.name if path.parent == CATALOG else str(path)


def _made(document: dict[str, Any]) -> Machine:
    _refuse_half_codecs(document)
    return build(typed(document, MachineFile), _sources(document))


def _refuse_half_codecs(document: Mapping[str, Any]) -> None:
    """A codec has both speeds, or neither."""
    place: Any = document
    for part in ("device", "codecs"):
        place = place.get(part) if isinstance(place, dict) else None
    both = [each.name for each in fields(CodecSpeeds)]
    for name, table in place.items() if isinstance(place, dict) else ():
        if isinstance(table, dict) and len(table) == 1 and (text := next(iter(table))) in both:
            key: Key = ("device", "codecs", name)
            raise InputError(f"got {text} alone, allowed: {' and '.join(both)}, or neither", key=key)


def _sources(document: Mapping[str, Any]) -> tuple[Provenance, ...]:
    return tuple(sources_of(document, _num_entries))


def _num_entries(table: Mapping[str, Any]) -> int:
    listed = next((value for name, value in table.items() if name not in ("kind", "source")), None)
    if listed is None:
        return 1  # a bus has nothing but its kind and source
    return sum(map(len, listed.values())) if isinstance(listed, dict) else len(listed)


def _meant(key: str, keys: Iterable[str]) -> str:
    """The nearest of the keys: of the same table where there is one, as its name alone decides there."""
    table, _, last = key.rpartition(".")
    beside = {name.rpartition(".")[2]: name for name in keys if name.rpartition(".")[0] == table}
    close = near(last, beside)
    return nearest(last, beside) if beside and close is None else nearest(beside.get(close or "", key), keys)


def _overridden(document: dict[str, Any], overrides: Mapping[str, float], kind: str, source: str) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    keys = [number.key for number in _sources(document) if number.unit != "entries"]
    keys += [f"device.matmul_forms.{form.name}" for form in fields(MatmulForms)]  # 1, where a file is silent
    keys += [f"device.codecs.{name}.{speed.name}" for name in timed_codecs() for speed in fields(CodecSpeeds)]
    for key, value in overrides.items():
        if key not in keys:
            raise InputError(f'"{key}" is not a number of this machine; {_meant(key, keys)}')
        table = changed
        for name in key.split("."):
            table = table.setdefault(name, {})
        # A scenario's numbers are floats; a count is a whole number all the same.
        whole = isinstance(value, float) and value.is_integer() and unit_of(key) == "count"
        for bound in ("low", "high"):  # of the number that is replaced
            table.pop(bound, None)
        table |= {"value": int(value) if whole else value, "kind": kind, "source": source}
    return changed


def machine_named(name: str) -> Machine:
    """The machine of the catalog, or of the file of one's own. Raises InputError where there is none."""
    return _machine(name, changed_ns(name))


def changed_ns(name: str) -> int:
    """When a file of one's own was written last, so that what is kept of it is kept no longer; 0 for the catalog."""
    try:
        return Path(name).stat().st_mtime_ns if name.endswith(".toml") else 0
    except OSError:
        return 0  # which loading it reports


@lru_cache(maxsize=8)
def _machine(name: str, changed: int) -> Machine:
    return load_machine(name)
