"""Reading a scenario: the machine, library, model, engine and plans that a file of the right form means."""

from __future__ import annotations

import copy
import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simfrontier.collectives import Library, load_calibration, load_library, machine_numbers
from simfrontier.errors import InputError, nearest
from simfrontier.machine import Emulation, Machine, emulated, load_machine, mesh_sizes
from simfrontier.machine.faults import one_line
from simfrontier.network import Fabric, Perturbation
from simfrontier.plan.families import FAMILIES, LatticeOptions, Options, codec_of, make_plan
from simfrontier.plan.plan import Engine, Plan
from simfrontier.scenario.form import ScenarioFile
from simfrontier.scenario.shape import shape_of
from simfrontier.schedule.mesh import Mesh
from simfrontier.tomlfile import read_toml
from simfrontier.workload import Precision, Shape, Workload, find_precision, workload_of

AXES = ("node", "package", "gcd")
AXES_KEYS = ("weight", "accumulator", "optimizer", "copy_axes", "nesting", "axes", "shard", "secondary")
FEWEST_SAMPLES = 20  # that have one in twenty beyond a quantile of 5 %
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A checked scenario: the file as read, its document (for variations) and what its names mean."""

    where: str
    document: Mapping[str, Any]
    file: ScenarioFile
    machine: Machine
    library: Library
    shape: Shape
    plans: Mapping[str, Options]
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def sequence(self) -> int:
        return self.shape.sequence

    @property
    def precision(self) -> Precision:
        return find_precision(self.file.model.precision)

    @property
    def checkpointing(self) -> bool:
        return self.file.model.checkpointing == "full"

    @property
    def engine(self) -> Engine:
        return Engine(**self.file.engine.model_dump())

    @property
    def perturbation(self) -> Perturbation | None:
        table = self.file.perturbation
        if not table.slow and not table.links:
            return None
        return Perturbation(
            slow={slow.device: slow.factor for slow in table.slow},
            links={(link.node, link.link): link.factor for link in table.links},
        )

    def mesh(self, num_devices: int) -> Mesh:
        """The mesh (node, package, gcd) of a size; raises InputError naming the nearest sizes that work."""
        cut = self.file.mesh
        sizes = mesh_sizes(self.machine, num_devices, cut.devices_per_node, cut.devices_per_package)
        return Mesh(tuple((axis, sizes[axis]) for axis in AXES))

    def workload(self, mesh: Mesh) -> Workload:
        """One micro-batch over all ranks of the mesh."""
        batch = self.file.training.micro_batch * mesh.num_ranks
        return workload_of(self.shape, batch, self.checkpointing, self.file.model.precision)

    def plan(self, name: str, mesh: Mesh) -> Plan:
        """A plan of this scenario on a mesh; raises InputError that names file and plan."""
        try:
            return make_plan(name, self.plans[name], mesh)
        except InputError as error:
            raise InputError(f"{self.where}: plans.{name}: {error}") from None

    def refuse_variations(self) -> None:
        """Raise InputError for a setting of the `sensitivity` table that cannot be made."""
        table = self.file.sensitivity
        if table is None:
            return
        tried: list[tuple[str, dict[str, Any]]] = []
        for number, variation in enumerate(table.vary):
            tried += [(f"vary[{number}]", {variation.key: value}) for value in variation.values]
        for number, wanted in enumerate(table.required):
            tried.append((f"required[{number}]", {**wanted.given, wanted.key: 1.0}))
        for place, settings in tried:
            try:
                scenario_of(self.document, self.where, settings)
            except InputError as error:
                text = str(error).removeprefix(f"{self.where}: ")
                raise InputError(f"{self.where}: sensitivity.{place}: {text}") from None


def load_scenario(
    path: str | Path,
    settings: Mapping[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
) -> Scenario:
    """Read and check a scenario file; `settings` (dotted key → value), `plans` and `devices` replace what it says.

    Raises InputError: one line that names the file, the key, what was got and what is allowed.
    """
    path = Path(path)
    document = read_toml(path, "scenario")
    return scenario_of(document, str(path), settings, plans, devices)


def scenario_of(
    document: Mapping[str, Any],
    where: str,
    settings: Mapping[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
) -> Scenario:
    """A checked scenario out of a document that was read from `where`."""
    changed = copy.deepcopy(dict(document))
    told: dict[str, Any] = {}  # what the document does not say already
    for key, value in (settings or {}).items():
        before = copy.deepcopy(changed)
        _put(changed, key, value, where)
        if changed != before:
            told[key] = value
    named = _names(changed.get("plans"))
    if devices:
        _put(changed, "run.devices", list(devices), where)
    if plans:
        _choose_plans(changed, plans, where)
    try:
        file = ScenarioFile.model_validate(changed)
    except ValidationError as error:
        raise InputError(f"{where}: {one_line(error, ScenarioFile)}") from None
    try:
        scenario = _resolve(changed, where, file, named)
        return replace(scenario, settings=tuple(f"{key} = {value}" for key, value in told.items()))
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(where) else f"{where}: {text}") from None


def _resolve(document: Mapping[str, Any], where: str, file: ScenarioFile, named: Collection[str]) -> Scenario:
    """The scenario of a file of the right form; `named`: all plans of the file, also those that are not run."""
    _refuse_names(file, named)
    _refuse_few_samples(file)
    machine, library = _machine_and_library(where, file)
    if file.emulation is not None:
        machine = emulated(machine, Emulation(**file.emulation.model_dump()))
    scenario = Scenario(
        where=where,
        document=document,
        file=file,
        machine=machine,
        library=library,
        shape=shape_of(file.model),
        plans={name: _options(name, table) for name, table in file.plans.items()},
    )
    for size in file.run.devices:
        mesh = _mesh(scenario, size, "run")
        for name in scenario.plans:
            scenario.plan(name, mesh)
        _refuse_perturbation(scenario, mesh)
    if file.sensitivity is not None:
        _refuse_perturbation(scenario, _mesh(scenario, file.sensitivity.devices, "sensitivity"))
    return scenario


def _machine_and_library(where: str, file: ScenarioFile) -> tuple[Machine, Library]:
    """As their files say; over these, as the calibration says; over that, as the scenario's overrides say."""
    machine_name, named = _beside(where, file.machine.name), file.library
    machine = load_machine(machine_name, file.machine.overrides)
    library_name = _beside(where, named.name or machine.library)
    if named.calibration is None:
        return machine, load_library(library_name, named.overrides)
    path = _beside(where, named.calibration)
    try:
        calibration = load_calibration(path)
    except InputError as error:
        raise InputError(f"library.calibration: {error}") from None
    try:
        library = load_library(library_name, named.overrides, calibration)
        measured = machine_numbers(calibration, load_machine(machine_name), library)
        return load_machine(machine_name, file.machine.overrides, measured), library
    except InputError as error:
        raise InputError(f"library.calibration: {path}: {error}") from None


def _beside(where: str, name: str) -> str:
    """A TOML file of the user's own is looked for beside the scenario first, then from the working folder."""
    beside = Path(where).parent / name
    return str(beside) if name.endswith(".toml") and beside.is_file() else name


def _refuse_names(file: ScenarioFile, named: Collection[str]) -> None:
    """Names that files are called after, names of plans that are not there, and what stands twice."""
    for key, name in (("name", file.name), *((f"plans.{name!r}", name) for name in file.plans)):
        if not FILE_NAME.fullmatch(name):
            raise InputError(f"{key}: got {name!r}, allowed: letters, digits and . _ - (files are called after it)")
    sizes = file.run.devices
    for size in sizes:
        if sizes.count(size) > 1:
            raise InputError(f"run.devices: got {size} twice, allowed: every size once")
    slow = [entry.device for entry in file.perturbation.slow]
    links = [(entry.node, entry.link) for entry in file.perturbation.links]
    for device in slow:
        if slow.count(device) > 1:
            raise InputError(f"perturbation.slow: got device {device} twice, allowed: every device once")
    for node, link in links:
        if links.count((node, link)) > 1:
            raise InputError(f"perturbation.links: got {link!r} of node {node} twice, allowed: every link once")
    for key, names in _plan_names(file):
        for name in names:
            if name not in named and name not in file.plans:
                raise InputError(f"{key}: {name!r} is not a plan of this scenario; {nearest(name, named)}")


def _refuse_few_samples(file: ScenarioFile) -> None:
    samples = file.uncertainty.samples
    if 0 < samples < FEWEST_SAMPLES:
        raise InputError(f"uncertainty.samples: got {samples}, allowed: 0 (no error bars) or {FEWEST_SAMPLES} and more")


def _plan_names(file: ScenarioFile) -> list[tuple[str, Collection[str]]]:
    """Where a scenario names its plans again."""
    out: list[tuple[str, Collection[str]]] = []
    if file.published is not None:
        out += [("published.ratios", file.published.ratios), ("published.efficiency", file.published.efficiency)]
    if file.sensitivity is not None:
        out.append(("sensitivity.plans", file.sensitivity.plans))
    return out


def _mesh(scenario: Scenario, size: int, table: str) -> Mesh:
    try:
        return scenario.mesh(size)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith("mesh: ") else f"{table}.{text}") from None


def _refuse_perturbation(scenario: Scenario, mesh: Mesh) -> None:
    """A perturbation must name what is there, at every size."""
    perturbation = scenario.perturbation
    if perturbation is None:
        return
    try:
        num_nodes = -(-mesh.num_ranks // scenario.machine.devices_per_node)
        Fabric.build(scenario.machine, num_nodes, perturbation, num_devices=mesh.num_ranks)
    except InputError as error:
        text = str(error).removeprefix("perturbation: ")
        raise InputError(f"perturbation: {text} (with {mesh.num_ranks} devices)") from None


def _options(name: str, table: Mapping[str, Any]) -> Options:
    family = table.get("family", name)
    if not isinstance(family, str) or family not in FAMILIES:
        raise InputError(f"plans.{name}.family: {family!r} is unknown; {nearest(str(family), FAMILIES)}")
    form = FAMILIES[family][0]
    try:
        options = form.model_validate(_prepared({**table, "family": family}, f"plans.{name}"))
    except ValidationError as error:
        raise InputError(f"plans.{name}.{one_line(error, form)}") from None
    if isinstance(options, LatticeOptions):
        _refuse_outside_nesting(options, f"plans.{name}")
    return options


def _prepared(value: Any, place: str) -> Any:
    """TOML's arrays as tuples, which frozen options hold, and texts of codecs as codecs; axes must be there, once."""
    key = place.rpartition(".")[2]
    match value:
        case dict():
            return {name: _prepared(part, f"{place}.{name}") for name, part in value.items()}
        case list():
            if key in AXES_KEYS:
                _refuse_axes(value, place)
            return tuple(_prepared(part, f"{place}[{number}]") for number, part in enumerate(value))
        case _ if key == "codec" or key.endswith("_codec"):
            if not isinstance(value, str):
                raise InputError(f'{place}: got {value!r}, allowed: a codec, such as "fp16" or "int8:6144"')
            try:
                return codec_of(value)
            except InputError as error:
                raise InputError(f"{place}: {error}") from None
    return value


def _refuse_axes(names: list[Any], place: str) -> None:
    for name in names:
        if name not in AXES:
            raise InputError(f"{place}: got {name!r}; {nearest(str(name), AXES)}")
        if names.count(name) > 1:
            raise InputError(f"{place}: got {name!r} twice, allowed: every axis once")


def _refuse_outside_nesting(options: LatticeOptions, place: str) -> None:
    if options.nesting is None:
        return
    for key in ("weight", "accumulator", "optimizer", "copy_axes"):
        outside = [axis for axis in getattr(options, key) or () if axis not in options.nesting]
        if outside:
            raise InputError(
                f"{place}.{key}: got {outside[0]!r}, allowed: axes of nesting: {', '.join(options.nesting)}"
            )


def _names(table: Any) -> tuple[str, ...]:
    return tuple(table) if isinstance(table, dict) else ()


def _choose_plans(document: dict[str, Any], plans: tuple[str, ...], where: str) -> None:
    """Keep the named plans, in the order given; a family's own name means its defaults where the file has no such
    plan."""
    known = document.get("plans", {})
    if not isinstance(known, dict):
        return  # whatever it is, the form refuses it
    allowed = {*known, *FAMILIES} - ({"lattice"} - {*known})
    for name in plans:
        if name not in allowed:
            raise InputError(f"{where}: plans: {name!r} is unknown; {nearest(name, allowed)}")
        if plans.count(name) > 1:
            raise InputError(f"{where}: plans: got {name!r} twice, allowed: every plan once")
    document["plans"] = {name: known.get(name, {}) for name in plans}
    table = document.get("sensitivity")
    compared = table.get("plans") if isinstance(table, dict) else None
    if isinstance(compared, list) and any(name in list(known) and name not in plans for name in compared):
        del document["sensitivity"]


def _put(document: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key; the last parts of machine.overrides and library.overrides are dotted keys themselves."""
    parts = key.split(".")
    for table in ("machine", "library"):
        if parts[:2] == [table, "overrides"] and len(parts) > 2:
            parts = [table, "overrides", ".".join(parts[2:])]
    place: Any = document
    for part in parts[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise InputError(f"{where}: {key}: {part} is not a table")
    place[parts[-1]] = value


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` with the value as in TOML; a bare word is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set {text!r}: write key=value, e.g. training.micro_batch=4")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value.strip()
    if isinstance(parsed, float) and not math.isfinite(parsed):
        raise InputError(f"--set {key}: got {value}; allowed: a finite number")
    return key.strip(), parsed
