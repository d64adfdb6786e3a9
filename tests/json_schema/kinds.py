"""The kinds of files that have a schema: those that simfrontier brings along, and what reads them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

from simfrontier import collectives, machine, stack
from simfrontier.collectives import Calibration, LibraryFile, TwoLevelFile, libraries, load_calibration, load_library
from simfrontier.io import on_base, toml_document, typed
from simfrontier.json_schema import json_schema
from simfrontier.machine import MachineFile, catalog, load_machine
from simfrontier.scenario import FileForm, options_of, scenario_of
from simfrontier.scenario.plans import searched
from simfrontier.stack import Stack, load_stack, stacks
from simfrontier.sweep import StudyFile, study_of
from tests.scenario_files import SCENARIOS, STUDIES

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of file: documents of it by file, what reads a document as if it stood in such a file, in a folder to
    write to, and what holds it against its form alone. Both raise InputError."""

    name: str
    documents: Mapping[Path, Document]
    read: Callable[[Document, Path, Path], object]
    form: Callable[[Document], object]


schema_of: Final = cache(json_schema)


@cache
def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(kind))


def faults(kind: str, document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Place and message of each fault that the schema finds, in order."""
    return sorted((error.json_path, error.message) for error in validator(kind).iter_errors(document))


def _scenario_form(document: Document) -> None:
    said = document.get("stack")
    file = typed(load_stack(said).under(document) if said in stacks() else document, FileForm)
    for name, table in file.plans.items():
        options_of(name, searched(table, name)[0])


def _library_form(document: Document) -> None:
    whole = on_base(document, collectives.CATALOG, libraries(), "library")
    typed(whole, TwoLevelFile if "levels" in whole else LibraryFile)


def _written(load: Callable[[str], object]) -> Callable[[Document, Path, Path], object]:
    def read(document: Document, _: Path, folder: Path) -> object:
        path = folder / "own.toml"
        path.write_text(toml_document(document), encoding="utf-8")
        return load(str(path))

    return read


def _shipped(paths: Iterable[Path]) -> dict[Path, Document]:
    return {path: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(paths)}


CALIBRATION: Final = """
title = "two nodes"
where = "a cluster"
when = "2024"
how = "osu"
[machine]
"link_classes.nic.share" = 0.8
[library]
"ring.base_s" = 1e-5
[intervals]
"ring.base_s" = [5e-6, 2e-5]
[[calls]]
kind = "all_gather"
ranks = 8
nodes = 2
packages = 4
residual = 0.1
points = [{ bytes = 1024, seconds = 1e-5, spread = 0.01 }, { bytes = 1048576, seconds = 1e-4 }]
"""

KINDS: Final = (
    Kind(
        name="scenario",
        documents=_shipped(SCENARIOS),
        read=lambda document, path, _: scenario_of(document, str(path), laid_out=False),
        form=_scenario_form,
    ),
    Kind(
        name="machine",
        documents=_shipped(machine.CATALOG.glob("*.toml")),
        read=_written(load_machine),
        form=lambda document: typed(on_base(document, machine.CATALOG, catalog(), "machine"), MachineFile),
    ),
    Kind(
        name="library",
        documents=_shipped(collectives.CATALOG.glob("*.toml")),
        read=_written(load_library),
        form=_library_form,
    ),
    Kind(
        name="stack",
        documents=_shipped(stack.CATALOG.glob("*.toml")),
        read=_written(load_stack),
        form=lambda document: typed(on_base(document, stack.CATALOG, stacks(), "stack"), Stack),
    ),
    Kind(
        name="calibration",
        documents={Path("calibration.toml"): tomllib.loads(CALIBRATION)},
        read=_written(load_calibration),
        form=lambda document: typed(document, Calibration),
    ),
    Kind(
        name="study",
        documents=_shipped(STUDIES),
        read=lambda document, path, _: study_of(document, str(path)),
        form=lambda document: typed(document, StudyFile),
    ),
)
