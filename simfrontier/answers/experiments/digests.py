"""Digests of settings: of all that their rows depend on, without reading a scenario for each."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simfrontier.answers.experiments.setting import Setting
from simfrontier.base.errors import InputError
from simfrontier.base.io import read_toml
from simfrontier.base.version import __version__
from simfrontier.core.collectives import load_library
from simfrontier.core.machine import load_machine
from simfrontier.core.machine.stack import NONE as NO_STACK, USUAL, load_stack
from simfrontier.inputs.scenario import with_settings

DEEPEST = 3  # files that name files: a scenario, another job's scenario, and what that names
NOT_COUNTED = ("title",)  # tables and keys of a scenario that no row depends on


@dataclass
class Digests:
    """Digests of settings: of the scenario's document with all changes, the numbers of machine, library and stack, the
    contents of files that the document names, what is asked for, and the version of simfrontier."""

    _named: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _numbers: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def of(self, setting: Setting) -> str:
        """Return the digest of a setting: 64 hexadecimal digits."""
        try:
            changed = with_settings(setting.document, setting.where, setting.changes)
        except InputError:  # a setting that is refused has its reason as its row
            changed = {**setting.document, "settings": setting.changes}
        for name in NOT_COUNTED:
            changed.pop(name, None)
        folder = str(Path(setting.where).parent)
        files = {text: sum_ for text in sorted(set(_texts(changed))) if (sum_ := self._contents(folder, text))}
        value = {
            "document": changed,
            "numbers": self._numbers_of(changed, folder),
            "files": files,
            "plans": setting.plans,
            "devices": setting.devices,
            "fidelity": setting.fidelity,
            "version": __version__,
        }
        return _digest(value)

    def _numbers_of(self, document: Mapping[str, Any], folder: str) -> str:
        """The digest of the numbers of machine, library and stack by their names."""
        machine, library = (_name(document.get(table)) for table in ("machine", "library"))
        stack = document.get("stack")
        names = machine, library, stack if isinstance(stack, str) else None, folder
        if names not in self._numbers:
            self._numbers[names] = _digest(list(_provenance(*names)))
        return self._numbers[names]

    def _contents(self, folder: str, text: str, depth: int = 0) -> str | None:
        """The digest of a file that a text names, beside the scenario or from the working folder, and of those that it
        names itself; None where it names none."""
        if (folder, text) in self._named:
            return self._named[folder, text]
        self._named[folder, text] = None  # a file that names itself adds nothing
        found = next((path for path in (Path(folder) / text, Path(text)) if _is_file(path)), None)
        if found is None:
            return None
        with found.open("rb") as file:
            sums = [hashlib.file_digest(file, "sha256").hexdigest()]
        if found.suffix == ".toml" and depth < DEEPEST:
            try:
                inner = read_toml(found, "file")
            except InputError:
                inner = {}
            beside = str(found.parent)
            sums += [each for name in sorted(set(_texts(inner))) if (each := self._contents(beside, name, depth + 1))]
        self._named[folder, text] = _digest(sums)
        return self._named[folder, text]


def _name(table: Any) -> str | None:
    name = table.get("name") if isinstance(table, dict) else None
    return name if isinstance(name, str) else None


def _provenance(machine: str | None, library: str | None, stack: str | None, folder: str) -> Iterator[object]:
    """The numbers of what can be read; what cannot be is no part of any row."""
    try:
        if machine is not None:
            found = load_machine(_beside(folder, machine))
            yield from ([each.key, each.value] for each in found.provenance())
            library = library or found.library
        if library is not None:
            yield from ([each.key, each.value] for each in load_library(_beside(folder, library)).provenance())
        if stack is None:
            yield from (repr(load_stack(name)) for name in sorted(set(USUAL.values())))
        elif stack != NO_STACK:
            yield repr(load_stack(_beside(folder, stack)))
    except InputError as error:
        yield error.what


def _beside(folder: str, name: str) -> str:
    path = Path(folder) / name
    return str(path) if name.endswith(".toml") and os.path.lexists(path) else name


def _texts(value: Any) -> Iterator[str]:
    """Texts of a document that may name files."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and "." in each:
            yield each


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
