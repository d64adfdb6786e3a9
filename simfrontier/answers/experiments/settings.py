"""Settings, their digests (all that their rows depend on), and batches of settings that share schedules."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.io import read_toml
from simfrontier.base.version import __version__
from simfrontier.core.collectives import load_library
from simfrontier.core.machine import load_machine
from simfrontier.core.machine.stack import NONE as NO_STACK, USUAL, load_stack
from simfrontier.inputs.scenario import NUMBER_TABLES, Scenario, scenario_of, with_settings, without_comparisons


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """The `document` of a scenario that was read from `where`, with `changes`: dotted key → value.

    `plans`: those whose rows are asked for; () for all that it has then. `devices`: the sizes; () for its own.
    `fidelity`: None for the scenario's own.
    """

    document: Mapping[str, Any]
    where: str
    changes: Mapping[str, Any]
    plans: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()
    fidelity: str | None = None

    @classmethod
    def at(
        cls,
        scenario: Scenario,
        plans: Iterable[str],
        devices: int,
        changes: Mapping[str, Any] | None = None,
        fidelity: str | None = None,
    ) -> Setting:
        """Return plans of a scenario at one size, without the tables that compare them."""
        return cls(
            document=without_comparisons(scenario.document, scenario.plans),
            where=scenario.where,
            changes=changes or {},
            plans=tuple(plans),
            devices=(devices,),
            fidelity=fidelity,
        )

    def scenario(self) -> Scenario:
        """Return the scenario with its changes. Raises InputError for changes that it cannot have."""
        return scenario_of(self.document, self.where, self.changes, devices=self.devices, laid_out=False)


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


MOST_OF_BATCH: Final = 16  # settings
MOST_TOGETHER: Final = 24  # settings with the same schedules in one batch: what is lost at most where all is ended
WINDOW: Final = 4_096  # settings that are held at once, to find those with the same schedules
PARTS: Final = 4  # of what each worker would have of the settings that are left: its next batch
Keyed = tuple[str, Setting]  # with its digest


def is_number(key: str, value: Any) -> bool:
    """Whether a change is of a number of the machine's or the library's file, which leaves schedules as they are."""
    return isinstance(value, int | float) and not isinstance(value, bool) and key.startswith(NUMBER_TABLES)


def batches_of(settings: Iterable[Keyed], count: int, num_workers: int) -> Iterator[tuple[Keyed, ...]]:
    """Batches of so many settings. Those that differ in numbers of machine or library alone go together, as they share
    their schedules, which may take longer to make than to simulate. Batches become smaller towards the end, so that no
    worker is waited for long."""
    waiting = iter(settings)
    windows = iter(lambda: list(islice(waiting, WINDOW)), [])
    batch = list[Keyed]()
    for left in (each for window in windows for each in sorted(alike(window), key=len, reverse=True)):
        while left:
            size = max(1, min(MOST_OF_BATCH, count // (PARTS * num_workers)))
            piece, left = _cut(left, size)
            if batch and len(batch) + len(piece) > size:
                yield tuple(batch)
                batch = []
            batch += piece
            count -= len(piece)
    if batch:
        yield tuple(batch)


def alike(settings: Iterable[Keyed], is_free: Callable[[str, Any], bool] = is_number) -> list[list[Keyed]]:
    """Return groups of settings that differ in free changes alone: by default in numbers of machine or library."""
    groups: dict[tuple[Any, ...], list[Keyed]] = {}
    for keyed in settings:
        setting = keyed[1]
        others = [(key, repr(value)) for key, value in setting.changes.items() if not is_free(key, value)]
        groups.setdefault((setting.where, setting.plans, setting.devices, *others), []).append(keyed)
    return list(groups.values())


def _cut(group: list[Keyed], size: int) -> tuple[list[Keyed], list[Keyed]]:
    """Settings with the same schedules that are done at once, and the others. Few are cut only where little is left."""
    if len(group) <= MOST_TOGETHER:
        size = len(group) if size > 1 and len(group) <= PARTS * size else -(-len(group) // PARTS)
    return group[:size], group[size:]
