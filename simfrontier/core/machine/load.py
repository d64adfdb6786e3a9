"""Loading of a machine from the catalog or from a user's own TOML file, with overrides from a scenario.

Any error in a file is raised as one InputError that names the file, the key, the value and the allowed values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier.base.io import read_toml, typed
from simfrontier.core.codecs import timed_codecs
from simfrontier.core.machine.catalogs import Catalog, Provenance, sources_of
from simfrontier.core.machine.device import CodecSpeeds, MatmulForms
from simfrontier.core.machine.form import GLOBAL, NIC, MachineFile, refuse_unfit, without_inherited
from simfrontier.core.machine.graph import node_of
from simfrontier.core.machine.hardware import UPLINK, FatTree, LinkClass, Machine

CATALOG = Path(__file__).parent / "catalog"
FILES = Catalog(folder=CATALOG, what="machine", own_bases=True, settle=without_inherited)
OVERRIDE_SOURCE = "scenario override"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNumbers:
    """Measured numbers that replace those of a machine's file: dotted key → value, and their common source."""

    numbers: Mapping[str, float]
    source: str


def catalog() -> tuple[str, ...]:
    """Return the names of the machines in the catalog."""
    return FILES.names()


def is_machine(name: str) -> bool:
    """Return whether a text is the name of a machine of the catalog, or a path to a user's own file (ending in
    .toml)."""
    return name in catalog() or name.endswith(".toml")


def document_of(name_or_path: str) -> dict[str, Any]:
    """Return the document of a machine's file, merged with its base. Raises InputError."""
    return FILES.document(FILES.path(name_or_path))


def catalog_name(name_or_path: str) -> str:
    """Return the name of a machine of the catalog; for a user's own file, the name of the catalog's machine at the end
    of its chain of bases, empty if there is none. Raises InputError for a file that cannot be read."""
    path = FILES.path(name_or_path)
    while path.parent != CATALOG:
        base = read_toml(path, "machine file").get("base", "")
        if not base.endswith(".toml"):
            return str(base)
        path = path.parent / base
    return path.stem


def load_machine(
    name_or_path: str, overrides: Mapping[str, float] | None = None, measured: MeasuredNumbers | None = None
) -> Machine:
    """Return a machine, given its name in the catalog or the path of a TOML file (any text with a "/" or ending in
    ".toml").

    A file may name a machine of the catalog, or another file, as its `base`, and then contains only the differences. It
    does not inherit parts of the base that it replaces by another kind (links by a switch, a dragonfly by a fat tree),
    nor link classes that are then unused.

    `measured`: numbers of a calibration that replace those of the file. `overrides`: dotted key of a number, e.g.
    `link_classes.nic.share`, to its new value; the kind of the number becomes "assumed" and its source "scenario
    override". Overrides take precedence over measured numbers. Overrides of `device.matmul_forms` and `device.codecs`
    may also name numbers that the file omits. Raises InputError.
    """
    where = FILES.where(FILES.path(name_or_path))
    document = document_of(name_or_path)
    more = [f"device.matmul_forms.{form.name}" for form in fields(MatmulForms)]  # 1, where a file is silent
    more += [f"device.codecs.{name}.{speed.name}" for name in timed_codecs() for speed in fields(CodecSpeeds)]
    try:
        machine = _made(document)
        if measured is not None and measured.numbers:
            where += ", with a calibration"
            document = FILES.with_numbers(document, measured.numbers, "measured", measured.source, more)
            machine = _made(document)
        if overrides:
            where += ", with overrides"
            document = FILES.with_numbers(document, overrides, "assumed", OVERRIDE_SOURCE, more)
            machine = _made(document)
    except InputError as error:
        raise error.within(where) from None
    return machine


def _made(document: dict[str, Any]) -> Machine:
    return build(typed(document, MachineFile), tuple(sources_of(document)))


def build(file: MachineFile, sources: tuple[Provenance, ...]) -> Machine:
    """Return the machine that a file describes, with the capacities of link pools, which are derived from it. Raises
    InputError, at the key concerned."""
    refuse_unfit(file)
    classes = {name: replace(link_class, name=name) for name, link_class in file.link_classes.items()}
    fly, tree = file.dragonfly, _fat_tree(file, classes)
    if fly is not None:
        fly = replace(fly, bytes_per_s=classes[GLOBAL].bytes_per_s)
    if tree is not None:
        classes[UPLINK] = LinkClass(name=UPLINK, bytes_per_s=tree.bytes_per_s, share=classes[NIC].share)
    return Machine(
        name=file.name,
        title=file.title,
        library=file.library,
        num_nodes=file.num_nodes,
        devices_per_node=file.devices_per_node,
        devices_per_package=file.devices_per_package,
        node=node_of(file, classes),
        dragonfly=fly,
        device=file.device,
        host=file.host,
        link_classes=classes,
        sources=sources,
        copies=file.copies,
        device_word=file.device_word or ("GCD" if file.devices_per_package > 1 else "device"),
        fat_tree=tree,
    )


def _fat_tree(file: MachineFile, classes: Mapping[str, LinkClass]) -> FatTree | None:
    """Return the fat tree with the uplink capacity of each leaf: the total rate of the NICs below the leaf, divided by
    the taper."""
    if file.fat_tree is None:
        return None
    assert file.node.nics is not None, "a machine of several nodes has NICs"
    num_nics = len(file.node.nics.devices(file.devices_per_node, file.devices_per_package))
    injected = file.fat_tree.nodes_per_leaf * num_nics * classes[NIC].bytes_per_s
    return replace(file.fat_tree, bytes_per_s=injected / file.fat_tree.taper)


def machine_named(name: str) -> Machine:
    """Return the machine of the catalog, or of a user's own file. Raises InputError if there is none."""
    return _machine(name, changed_ns(name))


def changed_ns(name: str) -> int:
    """Return the modification time of a user's own file in ns (0 for a machine of the catalog), so that results cached
    for an older version of the file are not reused."""
    try:
        return Path(name).stat().st_mtime_ns if name.endswith(".toml") else 0
    except OSError:
        return 0  # which loading it reports


@lru_cache(maxsize=8)
def _machine(name: str, changed: int) -> Machine:
    return load_machine(name)
