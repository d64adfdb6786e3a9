"""Settings: scenarios with changes, digests of all that results depend on, and batches of settings that share
schedules."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from simfrontier.base.errors import InputError
from simfrontier.base.io import read_toml
from simfrontier.base.version import __version__
from simfrontier.inputs.scenario import NUMBER_TABLES, Scenario, scenario_of, with_settings, without_comparisons

LIBRARIES: Final = ("numpy", "simpy", "plotly")
DEEPEST: Final = 3  # files that name files: a scenario, another job's scenario, and what that names
MOST_OF_BATCH: Final = 16  # settings
WINDOW: Final = 4_096  # settings that are held at once, to find those with the same schedules
PARTS: Final = 4  # batches that each worker has of few settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """A scenario with changes: the `document` of the scenario read from `where`, and `changes`: dotted key → value.

    `plans`: names of the plans to simulate; () for all plans of the changed scenario. `devices`: sizes; () for those of
    the scenario. `fidelity`: None for that of the scenario.
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
        """Return the scenario with its changes. Raises InputError for invalid changes."""
        return scenario_of(self.document, self.where, self.changes, devices=self.devices, laid_out=False)


Keyed: TypeAlias = tuple[str, Setting]  # with its digest


# ── what results depend on ──


@dataclass
class Digests:
    """Digests of settings, computed from the scenario's document with all changes, the catalogs of machines, libraries
    and stacks, the contents of files that the document names, the requested plans and sizes, and the version of
    simfrontier.
    """

    _known: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def of(self, setting: Setting) -> str:
        """Return the digest of a setting: 64 hexadecimal digits."""
        try:
            changed = with_settings(setting.document, setting.where, setting.changes)
        except InputError:  # a setting that is refused has its reason as its row
            changed = {**setting.document, "settings": setting.changes}
        changed.pop("title", None)  # no row depends on it
        files = self._files(changed, str(Path(setting.where).parent))
        asked = [setting.plans, setting.devices, setting.fidelity]
        return digest_of([changed, files, _catalogs(), *asked, __version__])

    def _files(self, document: Any, folder: str, depth: int = 0) -> dict[str, str]:
        """Return digests of the files that a document names, relative to its folder or to the working folder."""
        found = ((text, self._contents(folder, text, depth)) for text in sorted(set(_texts(document))))
        return {text: contents for text, contents in found if contents is not None}

    def _contents(self, folder: str, text: str, depth: int) -> str | None:
        """Return the digest of the file that a text names, including the files that this file names; None if it names
        none.
        """
        if (folder, text) not in self._known:
            self._known[folder, text] = None  # a file that names itself adds nothing
            path = next((path for path in (Path(folder) / text, Path(text)) if os.path.isfile(path)), None)
            if path is not None:
                with path.open("rb") as file:
                    own = file_digest(file, "sha256").hexdigest()
                inner = _tables(path) if path.suffix == ".toml" and depth < DEEPEST else {}
                self._known[folder, text] = digest_of([own, self._files(inner, str(path.parent), depth + 1)])
        return self._known[folder, text]


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a document, each of which may be a file name."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
    elif isinstance(value, str) and "." in value:
        yield value


def _tables(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; empty if it cannot be read."""
    try:
        return read_toml(path, "file")
    except InputError:
        return {}


@cache
def _catalogs() -> str:
    """Return the digest of all catalogs of simfrontier."""
    files = sorted(Path(__file__).parents[2].rglob("catalog/*.toml"))
    return digest_of([path.read_text(encoding="utf-8") for path in files])


def scenario_digest(scenario: Scenario) -> str:
    """Return the digest of the scenario's document, with what was set on the command line, whatever its layout."""
    return digest_of(scenario.document)


def inputs(scenario: Scenario) -> dict[str, str]:
    """Return names and digests of all inputs of a result: the scenario, the numbers of machine, library and stacks, and
    other files that the scenario names (the scenario of a concurrent job, and spread tables).
    """
    families = {options.family for options in scenario.plans.values()}
    stacks = {stack.name: digest_of(repr(stack)) for each in families if (stack := scenario.stack_of(each)) is not None}
    return {
        "scenario_sha256": scenario_digest(scenario),
        "machine": scenario.machine.name,
        "machine_sha256": digest_of([[p.key, p.value] for p in scenario.machine.provenance()]),
        "library": scenario.library.name,
        "library_sha256": digest_of([[p.key, p.value] for p in scenario.library.provenance()]),
        **{f"stack_{name}_sha256": digest for name, digest in sorted(stacks.items())},
        **({} if scenario.beside is None else {"neighbour_sha256": scenario_digest(scenario.beside)}),
        **{f"spread_{number}_sha256": digest_of(list(rows)) for number, rows in scenario.spread_tables.items()},
    }


def versions(*more: str) -> dict[str, str]:
    """Return versions of simfrontier, Python and the libraries that results depend on: those of a study, and `more`."""
    named = {name: _version(name) for name in (*LIBRARIES, *more)}
    return {"simfrontier": __version__, "python": platform.python_version(), **named}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def digest_of(value: object) -> str:
    """Return the SHA-256 of a value as JSON, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return sha256(text.encode(errors="backslashreplace")).hexdigest()


# ── batches ──


def is_number(key: str, value: Any) -> bool:
    """Return whether a change is of a number of the machine's or the library's file, which does not
    affect schedules.
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and key.startswith(NUMBER_TABLES)


def batches_of(settings: Iterable[Keyed], count: int, num_workers: int) -> Iterator[tuple[Keyed, ...]]:
    """Yield batches of settings, sized for `count` settings in total and `num_workers` workers. Settings that differ
    only in numbers of machine or library are batched together, as they share their schedules, which may take longer to
    build than to simulate.
    """
    size = max(1, min(MOST_OF_BATCH, count // (PARTS * num_workers)))
    waiting = iter(settings)
    for window in iter(lambda: list(islice(waiting, WINDOW)), []):
        ordered = [keyed for group in alike(window) for keyed in group]
        for first in range(0, len(ordered), size):
            yield tuple(ordered[first : first + size])


def alike(settings: Iterable[Keyed], is_free: Callable[[str, Any], bool] = is_number) -> list[list[Keyed]]:
    """Return groups of settings that differ only in keys for which `is_free` holds: by default numbers of machine or
    library.
    """
    groups: dict[tuple[Any, ...], list[Keyed]] = {}
    for keyed in settings:
        setting = keyed[1]
        others = [(key, repr(value)) for key, value in setting.changes.items() if not is_free(key, value)]
        groups.setdefault((setting.where, setting.plans, setting.devices, *others), []).append(keyed)
    return list(groups.values())
