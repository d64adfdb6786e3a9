"""Loading of scenarios: machine, library, model, engine and plans of a well-formed file."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from simfrontier.base.errors import InputError, Key, located, near, shown
from simfrontier.base.io import read_toml, typed
from simfrontier.core.collectives import Library
from simfrontier.core.machine import Machine, catalog, load_machine
from simfrontier.core.machine.stack import NONE as NO_STACK, load_stack
from simfrontier.core.workload import GptShape
from simfrontier.inputs.scenario.added_keys import SCENARIO_KEYS, FileForm
from simfrontier.inputs.scenario.case import precision_of
from simfrontier.inputs.scenario.checks import refuse_file, refuse_on_machine, sizes_with_tables
from simfrontier.inputs.scenario.form import MachineTable, ScenarioFile
from simfrontier.inputs.scenario.parts import (
    machine_and_library,
    named_file,
    on_nodes,
    scenario_beside,
    shape_of,
    with_tables,
)
from simfrontier.inputs.scenario.plans import options_of, refuse_idle, searched
from simfrontier.inputs.scenario.scenario import Scenario
from simfrontier.inputs.scenario.settings import (
    NUMBER_TABLES,
    changed_document,
    choose_plans,
    path_of,
    put,
    selected_plans,
    with_settings,
)
from simfrontier.inputs.scenario.shipped import shipped


def load_scenario(
    path: str | Path,
    settings: Mapping[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
    laid_out: bool = True,
) -> Scenario:
    """Read and validate a scenario file, or a shipped scenario by its name; `settings` (dotted key → value), `plans`
    (its own, or others in words) and `devices` override the values of the file. With `laid_out`, every plan must be
    able to run at every size.

    Raises InputError: one line with the file, the key, the value found and the allowed values.
    """
    path = Path(path)
    if str(path) in shipped() and not path.is_file():
        path = shipped()[str(path)]
    if not os.path.lexists(path):  # which says no of a name that is too long, too
        raise InputError(_no_file(path), where=str(path))
    if path.is_dir() or path.suffix in (".json", ".csv"):
        example = next(iter(sorted(map(str, (path if path.is_dir() else path.parent).glob("*.toml")))), "")
        got = "a folder" if path.is_dir() else f"a {path.suffix[1:].upper()} file"
        allowed = f"a scenario file (TOML), e.g. {example or 'scenarios/frontier-20b.toml'}"
        raise InputError(f"{got}; allowed: {allowed}", where=str(path))
    return scenario_of(read_toml(path, "scenario"), str(path), settings, plans, devices, laid_out)


def _no_file(path: Path) -> str:
    """Return the message that the file does not exist, with the nearest file name in its folder, or in `scenarios` of
    the working directory."""
    files = {name: name for name in shipped()}
    files |= {file.stem: str(file) for folder in (Path("scenarios"), path.parent) for file in folder.glob("*.toml")}
    close = near(path.stem, files)
    if path.name in catalog():
        return f'no such file; "{path}" is a machine, which compare takes with a model and devices'
    more = f'; did you mean "{files[close]}"?' if close else ""
    return f"cannot read this scenario: No such file or directory{more}"


def _loaded_once(path: Path) -> Scenario:
    """Return the scenario of the neighbouring job, cached. The table `neighbour` of that scenario is ignored, because
    it may name this scenario's file in turn."""
    return _loaded_at(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=4)
def _loaded_at(path: Path, _: int) -> Scenario:
    return load_scenario(path, {"neighbour": None})


def scenario_of(
    document: Mapping[str, Any],
    where: str,
    settings: Mapping[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
    laid_out: bool = True,
) -> Scenario:
    """Return the validated scenario from a document (parsed TOML) that was read from `where`; with `laid_out`, every
    plan must be able to run at every size."""
    with located(where):
        selected = selected_plans(document, plans, settings or ())
    changed, new = changed_document(document, where, settings or {}, selected)
    table = changed.get("plans")
    named = tuple(table) if isinstance(table, dict) else ()
    with located(where):
        if devices:
            put(changed, ("run", "devices"), list(devices))
        if plans:
            choose_plans(changed, selected)
        file = typed(changed, FileForm)
        return replace(_resolve(changed, where, file, named, laid_out), settings=new)


def devices_of_nodes(nodes: Sequence[int], machine: str, where: str, settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the numbers of devices on whole nodes of a machine, as settings change it. Raises InputError for an
    unknown machine."""
    own = {key: value for key, value in settings.items() if path_of(key)[0] == "machine"}
    with located(where):
        document = with_settings({"machine": {"name": machine}}, "", own)
        table = typed(document["machine"], MachineTable, key=("machine",))
        per_node = load_machine(table.name, table.overrides).devices_per_node
    return tuple(number * per_node for number in nodes)


def _resolve(
    document: Mapping[str, Any], where: str, file: ScenarioFile, named: Collection[str], laid_out: bool
) -> Scenario:
    """Return the scenario of a well-formed file. `named` are all plans of the file, including those that are not
    simulated."""
    refuse_file(file, named)
    folder = Path(where).parent
    file = with_tables(file, folder)
    precision_of(file)
    machine, library = _without_known_spread(file, *machine_and_library(folder, file))
    if file.model.linear_precision is not None:
        machine.matmul(file.model.linear_precision)
        narrow, which = file.model.linear_precision, file.model.narrow_products
        machine = replace(machine, kernels=replace(machine.kernels, linear=narrow, narrow=which))
    machine = replace(machine, job_nodes=on_nodes(file.nodes, machine, folder))
    for keys in SCENARIO_KEYS:
        machine = machine if keys.machine is None else keys.machine(file, machine)
    tables, shape = {name: searched(table, name) for name, table in file.plans.items()}, shape_of(file.model)
    scenario = Scenario(
        where=where,
        document=document,
        file=file,
        machine=machine,
        library=replace(library, routing=shape.routing) if isinstance(shape, GptShape) else library,
        shape=shape,
        plans={name: options_of(name, table) for name, (table, _) in tables.items()},
        searches={name: search for name, (_, search) in tables.items() if search is not None},
        contents={keys.form: keys.read(file, folder) for keys in SCENARIO_KEYS if keys.read is not None},
        beside=scenario_beside(file.neighbour, machine, folder, _loaded_once),
    )
    for name, (_, search) in tables.items() if laid_out else ():
        refuse_idle(name, scenario.plans[name], search)
    scenario = _with_stack(scenario, folder)
    scenario = replace(
        scenario, sized={size: _sized(scenario, size, laid_out) for size in sizes_with_tables(file, named)}
    )
    refuse_on_machine(scenario)
    for size in file.run.devices if laid_out else ():
        for name in scenario.plans:
            if name not in scenario.at(size).searches:
                scenario.case(name, size)
    return scenario


def _without_known_spread(file: ScenarioFile, machine: Machine, library: Library) -> tuple[Machine, Library]:
    """Return machine and library without the random spreads of devices, kernels and collectives that a perturbation
    states: these values are known and must not be sampled again."""
    if file.perturbation.differing("devices") is not None:
        machine = replace(machine, device=replace(machine.device, speed_sd=0.0))
    if file.perturbation.differing("kernels") is not None:
        machine = replace(machine, device=replace(machine.device, call_sd=0.0))
    if file.perturbation.differing("collectives") is not None and library.residual is not None:
        library = replace(library, residual=replace(library.residual, run_sd=0.0))
    return machine, library


def _with_stack(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario under the software stack that its file names; unchanged if the file names none."""
    name = scenario.file.stack
    if name is None or name == NO_STACK:
        return scenario
    with located(key=("stack",)):
        stack = load_stack(named_file(folder, name), (NO_STACK,))
    return scenario.under(stack)


def _sized(scenario: Scenario, size: int, laid_out: bool) -> Scenario:
    """Return the scenario with the tables for one size merged into the general tables."""
    read_once = {name for keys in SCENARIO_KEYS if keys.read is not None for name in keys.form.model_fields}
    left_out = {"at", "sensitivity", "slowdown", *read_once}
    rest = {key: value for key, value in scenario.document.items() if key not in left_out}
    document = _merged(rest, scenario.document["at"][str(size)])
    document["plans"] = {name: document["plans"][name] for name in scenario.plans}
    try:
        return scenario_of(document, scenario.where, devices=(size,), laid_out=laid_out)
    except InputError as error:
        raise error.inside(scenario.where, ("at", str(size))) from None


def _merged(document: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the document `over` merged into it, table by table; values of `over` take precedence."""
    out = dict(document)
    for key, value in over.items():
        known = out.get(key)
        out[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return out


def refuse_variations(scenario: Scenario) -> None:
    """Raise InputError for a setting in the table `sensitivity` that cannot be applied."""
    table = scenario.file.sensitivity
    if table is None:
        return
    tried: list[tuple[Key, dict[str, Any]]] = []
    for number, variation in enumerate(table.vary):
        tried += [(("vary", number), {variation.key: value}) for value in variation.values]
    for number, wanted in enumerate(table.required):
        if not wanted.key.startswith(NUMBER_TABLES):
            text = f"got {shown(wanted.key)}; allowed: a number of machine.overrides or library.overrides"
            raise InputError(text, where=scenario.where, key=("sensitivity", "required", number, "key"))
        tried.append((("required", number), {**wanted.given, wanted.key: 1.0}))
    for place, settings in tried:
        try:
            scenario_of(scenario.document, scenario.where, settings)
        except InputError as error:
            text = str(error.outside(scenario.where))
            raise InputError(text, where=scenario.where, key=("sensitivity", *place)) from None
