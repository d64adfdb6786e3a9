"""Reading a scenario: the machine, library, model, engine and plans that a file of the right form means."""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError, Key, near, nearest, not_modelled, shown, unknown_key, wrong
from simfrontier.base.io import read_toml, typed
from simfrontier.base.limits import Limit
from simfrontier.core.collectives import Library, load_calibration, load_library, machine_numbers, with_algorithms
from simfrontier.core.machine import Machine, Perturbation, catalog, load_machine
from simfrontier.core.machine.stack import NONE as NO_STACK, load_stack
from simfrontier.core.program import Mesh
from simfrontier.inputs.scenario.added_keys import SCENARIO_KEYS, FileForm
from simfrontier.inputs.scenario.beside import scenario_beside
from simfrontier.inputs.scenario.case import precision_of
from simfrontier.inputs.scenario.form import ScenarioFile, SlowdownTable
from simfrontier.inputs.scenario.job_nodes import on_nodes, refuse_size
from simfrontier.inputs.scenario.plans import choose_plans, name_plans, options_of, searched
from simfrontier.inputs.scenario.scenario import Scenario
from simfrontier.inputs.scenario.settings import NUMBER_TABLES, NUMBERS, hold_everywhere, is_of_every_plan, path_of, put
from simfrontier.inputs.scenario.shape import shape_of
from simfrontier.inputs.scenario.spreads import with_tables

STEPS_APART: Final = Limit(most=100, what="steps")  # every one is simulated, and kept until the slowest is known

CASES: Final = Limit(most=50_000, what="plans at a size")  # every one is laid out as the scenario is read: 10 s

SIZE = re.compile(r"[1-9][0-9]{0,8}")  # a number of devices, as a key
SIZED = ("model", "training", "engine", "plans")  # tables that may differ from size to size
FEWEST_SAMPLES = 20  # that have one in twenty beyond a quantile of 5 %
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


NO_SCENARIOS: Final = {".json": "JSON, as schedules and traces are", ".csv": "a table of results or measurements"}


def load_scenario(
    path: str | Path,
    settings: Mapping[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
    laid_out: bool = True,
) -> Scenario:
    """Read and check a scenario file; `settings` (dotted key → value), `plans` and `devices` replace its values;
    `laid_out` as in `scenario_of`.

    Raises InputError: one line that names the file, the key, what was got and what is allowed.
    """
    path = Path(path)
    if not os.path.lexists(path):  # which says no of a name that is too long, too
        raise InputError(_no_file(path), where=str(path))
    if path.is_dir():
        raise InputError(f"a folder; {_allowed(path.glob('*.toml'))}", where=str(path))
    if path.suffix in NO_SCENARIOS:
        raise InputError(f"{NO_SCENARIOS[path.suffix]}; {_allowed(path.parent.glob('*.toml'))}", where=str(path))
    document = read_toml(path, "scenario")
    return scenario_of(document, str(path), settings, plans, devices, laid_out)


def _loaded_once(path: Path) -> Scenario:
    """The scenario of another job, read once; its own `neighbour` is not, as its file may name this one."""
    return _loaded_at(path, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=4)
def _loaded_at(path: Path, _: int) -> Scenario:
    return load_scenario(path, {"neighbour": None})


def _no_file(path: Path) -> str:
    """That there is no such file, and the nearest that there is in its folder, or in `scenarios` of the working one."""
    files = {file.stem: str(file) for folder in (Path("scenarios"), path.parent) for file in folder.glob("*.toml")}
    close = near(path.stem, files)
    if path.name in catalog():
        return f'no such file; "{path}" is a machine, which compare takes with a model and devices'
    more = f'; did you mean "{files[close]}"?' if close else ""
    return f"cannot read this scenario: No such file or directory{more}"


def _allowed(files: Iterable[Path]) -> str:
    """What a scenario is, with an example of these files."""
    example = next(iter(sorted(map(str, files))), "scenarios/frontier-20b.toml")
    return f"allowed: a scenario file (TOML), e.g. {example}"


def scenario_of(
    document: Mapping[str, Any],
    where: str,
    settings: Mapping[str, Any] | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
    laid_out: bool = True,
) -> Scenario:
    """A checked scenario out of a document that was read from `where`; `laid_out`: every plan must be able to run at
    every size."""
    changed, known = _changed(document, where, settings or {}, plans)
    named = _names(changed.get("plans"))
    if devices:
        put(changed, ("run", "devices"), list(devices), where)
    if plans:
        choose_plans(changed, plans, where)
    file = typed(changed, FileForm, where)
    try:
        scenario = _resolve(changed, where, file, named, laid_out)
        return replace(scenario, settings=tuple(f"{key} = {value}" for key, value in known.items()))
    except InputError as error:
        raise error.within(where) from None


def with_settings(document: Mapping[str, Any], where: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A document with settings put into it, as `scenario_of` does, before it is looked at as a scenario. Raises
    InputError for a key that no scenario has."""
    return _changed(document, where, settings, ())[0]


def _changed(
    document: Mapping[str, Any], where: str, settings: Mapping[str, Any], plans: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same, and those settings that the document does not say already."""
    changed = copy.deepcopy(dict(document))
    known: dict[str, Any] = {}  # what the document does not say already
    given = [(key, path_of(key), value) for key, value in settings.items()]
    for key, path, value in sorted(given, key=lambda setting: setting[1][0] == "at"):
        if is_of_every_plan(path):
            name_plans(changed, plans)
        if path[0] not in FileForm.model_fields:
            raise _unknown(key).within(where)
        _refuse_astray(path, value, where)
        before = copy.deepcopy(changed)
        put(changed, path, value, where)
        hold_everywhere(changed, path)
        if changed != before:
            known[key] = value
    return changed, known


def _refuse_astray(path: tuple[str, ...], value: Any, where: str) -> None:
    """Raise InputError for a name that is set in the place of a table, and a number outside of `overrides`."""
    table = _keys_of(path[0])
    if len(path) == 1 and "name" in table and not isinstance(value, dict):
        raise InputError(f'{wrong(value, "a table")}; did you mean "{path[0]}.name"?', where=where, key=path)
    if len(path) > 2 and "overrides" in table and path[1] not in table:
        meant = ".".join((path[0], *NUMBERS, *path[1:]))
        raise InputError(f'unknown key; did you mean "{meant}"?', where=where, key=path)


def _keys_of(table: str) -> tuple[str, ...]:
    """The keys that a table of a scenario may have, where they are fixed."""
    return tuple(getattr(FileForm.model_fields[table].annotation, "model_fields", ()))


def _unknown(key: str) -> InputError:
    """The fault of a key whose first part is no table: it is not modelled yet, or the nearest key, by its last part."""
    from simfrontier.inputs.scenario.keys import scenario_keys

    if absent := next(filter(None, map(not_modelled, key.split("."))), None):
        return InputError(f"unknown key; {absent}", key=(key,))
    last = key.rpartition(".")[2]
    names = [each.name for each in scenario_keys()]
    same = [name for name in names if name.rpartition(".")[2] == last]
    likely = near(last, {name.rpartition(".")[2] for name in names})
    like = [name for name in names if name.rpartition(".")[2] == likely]
    if found := same or like:
        return InputError(f'unknown key; did you mean "{found[0]}"?', key=(key,))
    first = key.partition(".")[0]
    return InputError(unknown_key(first, FileForm.model_fields), key=(first,))


def _resolve(
    document: Mapping[str, Any], where: str, file: ScenarioFile, named: Collection[str], laid_out: bool
) -> Scenario:
    """The scenario of a file of the right form; `named`: all plans of the file, also those that are not run."""
    _refuse_names(file, named)
    file = with_tables(file, Path(where).parent)
    _refuse_few_samples(file)
    _refuse_two_batches(file)
    machine, library = _machine_and_library(where, file)
    precision_of(file)
    if file.model.checkpoint_every > 1 and file.model.checkpointing != "full":
        raise InputError(
            f"model.checkpoint_every = {file.model.checkpoint_every}: of layers that are checkpointed as a whole, and "
            f'model.checkpointing = "{file.model.checkpointing}"; allowed: 1, or model.checkpointing = "full"'
        )
    if file.model.linear_precision is not None:
        machine.matmul(file.model.linear_precision)
        machine = replace(machine, kernels=replace(machine.kernels, linear=file.model.linear_precision))
    machine = replace(machine, job_nodes=on_nodes(file.nodes, machine, Path(where).parent))
    if file.perturbation.differing("devices") is not None:  # they are known, and not sampled once more
        machine = replace(machine, device=replace(machine.device, speed_sd=0.0))
    if file.perturbation.differing("kernels") is not None:
        machine = replace(machine, device=replace(machine.device, call_sd=0.0))
    if file.perturbation.differing("collectives") is not None and library.residual is not None:
        library = replace(library, residual=replace(library.residual, run_sd=0.0))
    if file.perturbation.calls_differ and (fault := STEPS_APART.fault(file.run.steps)):
        raise InputError(f"{fault}, as calls differ in each", key=("run", "steps"))
    for keys in SCENARIO_KEYS:
        machine = machine if keys.machine is None else keys.machine(file, machine)
    tables = {name: searched(table, name) for name, table in file.plans.items()}
    scenario = Scenario(
        where=where,
        document=document,
        file=file,
        machine=machine,
        library=library,
        shape=shape_of(file.model),
        plans={name: options_of(name, table) for name, (table, _) in tables.items()},
        searches={name: search for name, (_, search) in tables.items() if search is not None},
        contents={keys.form: keys.read(file, Path(where).parent) for keys in SCENARIO_KEYS if keys.read is not None},
        beside=scenario_beside(file.neighbour, machine, Path(where).parent, _loaded_once),
    )
    if fault := CASES.fault(len(scenario.plans) * len(file.run.devices)):
        raise InputError(f"plans and run.devices: {fault}")
    scenario = _with_stack(scenario)
    sized = {size: _sized(scenario, size, laid_out) for size in _sizes_of(file, named)}
    scenario = replace(scenario, sized=sized)
    for size in file.run.devices:
        _refuse_on_machine(scenario, _mesh(scenario, size, "run"))
        for name in scenario.plans if laid_out else ():
            if name not in scenario.at(size).searches:
                scenario.case(name, size)
    if file.sensitivity is not None:
        for size in file.sensitivity.sizes:
            _refuse_on_machine(scenario, _mesh(scenario, size, "sensitivity"))
    if file.slowdown is not None:
        _refuse_cases(scenario, file.slowdown, _mesh(scenario, scenario.troubled_size, "slowdown"))
    return scenario


def refuse_variations(scenario: Scenario) -> None:
    """Raise InputError for a setting of the `sensitivity` table that cannot be made."""
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


def _refuse_strangers(names: Iterable[str], named: Collection[str], file: ScenarioFile, key: Key) -> None:
    """Raise InputError for a name that is no plan of the scenario."""
    for name in names:
        if name not in named and name not in file.plans:
            raise InputError(f"{shown(name)} is not a plan of this scenario; {nearest(name, named)}", key=key)


def _sizes_of(file: ScenarioFile, named: Collection[str]) -> list[int]:
    """The sizes that have tables of their own, of those that are run."""
    out = []
    for text, tables in file.at.items():
        if not SIZE.fullmatch(text):
            raise InputError(f"got {shown(text)}, allowed: a number of devices", key=("at", text))
        for name in tables:
            if name not in SIZED:
                raise InputError(unknown_key(name, SIZED), key=("at", text, name))
        _refuse_strangers(tables.get("plans", {}), named, file, ("at", text, "plans"))
        if int(text) in file.run.devices:
            out.append(int(text))
    return out


def _sized(scenario: Scenario, size: int, laid_out: bool) -> Scenario:
    """The scenario with the tables of one size put over its own."""
    read_once = {name for keys in SCENARIO_KEYS if keys.read is not None for name in keys.form.model_fields}
    left_out = {"at", "sensitivity", "slowdown", *read_once}
    rest = {key: value for key, value in scenario.document.items() if key not in left_out}
    document = merged(rest, scenario.document["at"][str(size)])
    chosen = document["plans"]
    document["plans"] = {name: chosen[name] for name in scenario.plans}
    try:
        return scenario_of(document, scenario.where, devices=(size,), laid_out=laid_out)
    except InputError as error:
        raise error.inside(scenario.where, ("at", str(size))) from None


def merged(document: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A document with another put over it, table by table."""
    out = dict(document)
    for key, value in over.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return out


def _machine_and_library(where: str, file: ScenarioFile) -> tuple[Machine, Library]:
    """The values of their files, the library with the algorithms that the scenario chooses."""
    machine, library = _read_machine_and_library(where, file)
    try:
        return machine, with_algorithms(library, file.library.algorithms.chosen())
    except InputError as error:
        raise error.within(key=("library", "algorithms")) from None


def _read_machine_and_library(where: str, file: ScenarioFile) -> tuple[Machine, Library]:
    """The values of their files; the calibration overrides these, and the scenario's overrides both."""
    machine_name, named = _beside(where, file.machine.name), file.library
    machine = load_machine(machine_name, file.machine.overrides)
    library_name = _beside(where, named.name or machine.library)
    if named.calibration is None:
        return machine, load_library(library_name, named.overrides)
    path = _beside(where, named.calibration)
    try:
        calibration = load_calibration(path)
    except InputError as error:
        raise error.within(key=("library", "calibration")) from None
    try:
        library = load_library(library_name, named.overrides, calibration)
        measured = machine_numbers(calibration, load_machine(machine_name), library)
        return load_machine(machine_name, file.machine.overrides, measured), library
    except InputError as error:
        raise error.within(path).within(key=("library", "calibration")) from None


def _with_stack(scenario: Scenario) -> Scenario:
    """The scenario under the stack that its file names, if it does."""
    name = scenario.file.stack
    if name is None or name == NO_STACK:
        return scenario
    try:
        stack = load_stack(_beside(scenario.where, name), (NO_STACK,))
    except InputError as error:
        raise error.within(key=("stack",)) from None
    return scenario.under(stack)


def _beside(where: str, name: str) -> str:
    """A TOML file of the user's own is looked for beside the scenario first, then from the working folder."""
    beside = Path(where).parent / name
    return str(beside) if name.endswith(".toml") and os.path.lexists(beside) else name


def _refuse_names(file: ScenarioFile, named: Collection[str]) -> None:
    """Refuse names that cannot name files, plans that do not exist, and duplicates."""
    named_by: list[tuple[Key, str]] = [(("name",), file.name), *((("plans", name), name) for name in file.plans)]
    for key, name in named_by:
        if not FILE_NAME.fullmatch(name):
            text = f"got {shown(name)}, allowed: letters, digits and . _ - (files are called after it)"
            raise InputError(text, key=key)
    sizes = file.run.devices
    for size, times in Counter(sizes).items():
        if times > 1:
            raise InputError(f"got {size} twice, allowed: every size once", key=("run", "devices"))
    file.perturbation.refuse_wrong()
    _refuse_beyond(file.perturbation, file.run.steps)
    for key, names in _plan_names(file):
        _refuse_strangers(names, named, file, key)


def _refuse_beyond(perturbation: Perturbation, num_steps: int) -> None:
    """Raise InputError for a trouble that begins after the last step that is looked at."""
    for key, trouble in perturbation.troubles():
        if trouble.from_step >= num_steps:
            text = f"got {trouble.from_step}, allowed: 0 to {num_steps - 1} (run.steps = {num_steps})"
            raise InputError(text, key=("perturbation", key, "from_step"))


def _refuse_few_samples(file: ScenarioFile) -> None:
    samples = file.uncertainty.samples
    if 0 < samples < FEWEST_SAMPLES:
        text = f"got {samples}, allowed: 0 (no error bars) or {FEWEST_SAMPLES} and more"
        raise InputError(text, key=("uncertainty", "samples"))


def _refuse_two_batches(file: ScenarioFile) -> None:
    """Micro-batches follow of a batch: a number that is not the default would be passed over."""
    training = file.training
    if training.batch is not None and training.grad_accum != 1:
        raise InputError(
            f"got {training.grad_accum} beside training.batch = {training.batch}, of which it follows; leave one of "
            "the two out",
            key=("training", "grad_accum"),
        )


def _plan_names(file: ScenarioFile) -> list[tuple[Key, Collection[str]]]:
    """Where a scenario names its plans again."""
    out: list[tuple[Key, Collection[str]]] = []
    if file.published is not None:
        out += [
            (("published", key), getattr(file.published, key)) for key in ("ratios", "percent_of_peak", "efficiency")
        ]
    if file.sensitivity is not None:
        out.append((("sensitivity", "plans"), file.sensitivity.plans))
    return out


def _mesh(scenario: Scenario, size: int, table: str) -> Mesh:
    try:
        return scenario.mesh(size)
    except InputError as error:
        raise error.within(key=(table,) if error.key == ("devices",) else ()) from None


def _refuse_on_machine(scenario: Scenario, mesh: Mesh) -> None:
    """The job must have its nodes, and a perturbation must name what is there, at every size."""
    try:
        refuse_size(scenario.machine, mesh.num_ranks)
    except InputError as error:
        raise error.within(when=f"at {mesh.num_ranks} devices") from None
    _refuse_perturbation(scenario, scenario.file.perturbation, mesh)


def _refuse_cases(scenario: Scenario, table: SlowdownTable, mesh: Mesh) -> None:
    """Each case must have a name of its own, and something wrong that is there."""
    labels = [case.label for case in table.cases]
    for number, case in enumerate(table.cases):
        place: Key = ("slowdown", "cases", number)
        if labels.count(case.label) > 1:
            raise InputError(f"got {shown(case.label)} twice, allowed: every label once", key=(*place, "label"))
        later = next((each for _, each in case.perturbation.troubles() if each.from_step), None)
        if later is not None:
            text = f"{later.thing} begins in step {later.from_step}; allowed: 0, the step that is looked at"
            raise InputError(text, key=(*place, "perturbation"))
        if not case.perturbation:
            raise InputError("got nothing; allowed: what a perturbation may have", key=(*place, "perturbation"))
        try:
            case.perturbation.refuse_wrong()
            _refuse_perturbation(scenario, case.perturbation, mesh)
        except InputError as error:
            raise error.within(key=place) from None


def _refuse_perturbation(scenario: Scenario, perturbation: Perturbation, mesh: Mesh) -> None:
    """A perturbation must name what is there, at every size."""
    if not perturbation:
        return
    from simfrontier.core.network import Fabric

    try:
        num_nodes = -(-mesh.num_ranks // scenario.machine.devices_per_node)
        Fabric.build(scenario.machine, num_nodes, perturbation.all_at_once, num_devices=mesh.num_ranks)
    except InputError as error:
        raise error.within(key=() if error.key else ("perturbation",), when=f"at {mesh.num_ranks} devices") from None


def _names(table: Any) -> tuple[str, ...]:
    return tuple(table) if isinstance(table, dict) else ()
