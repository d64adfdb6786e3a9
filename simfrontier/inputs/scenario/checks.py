"""Consistency checks of a well-formed scenario file: duplicate or unknown names, and values that contradict one
another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from simfrontier.base.errors import InputError, Key, located, nearest, shown, unknown_key
from simfrontier.base.limits import Limit
from simfrontier.core.machine import Perturbation
from simfrontier.core.program import Mesh
from simfrontier.inputs.scenario.form import ScenarioFile, SlowdownTable
from simfrontier.inputs.scenario.parts import refuse_size
from simfrontier.inputs.scenario.scenario import Scenario

STEPS_APART: Final = Limit(most=100, what="steps")  # every one is simulated, and kept until the slowest is known
CASES: Final = Limit(most=50_000, what="plans at a size")  # every one is laid out as the scenario is read: 10 s
SIZE: Final = re.compile(r"[1-9][0-9]{0,8}")  # a number of devices, as a key
SIZED: Final = ("model", "training", "engine", "plans")  # tables that may differ from size to size
FEWEST_SAMPLES: Final = 20  # that have one in twenty beyond a quantile of 5 %
FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def refuse_file(file: ScenarioFile, named: Collection[str]) -> None:
    """Raise InputError for names that cannot be file names or that no plan has, for duplicates, and for values that
    contradict one another. `named` are all plans of the file, including those that are not simulated."""
    _refuse_names(file, named)
    samples, training, model = file.uncertainty.samples, file.training, file.model
    if 0 < samples < FEWEST_SAMPLES:
        text = f"got {samples}, allowed: 0 (no error bars) or {FEWEST_SAMPLES} and more"
        raise InputError(text, key=("uncertainty", "samples"))
    if training.batch is not None and training.grad_accum != 1:  # which would be passed over
        text = f"got {training.grad_accum} beside training.batch = {training.batch}, of which it follows; leave one of "
        raise InputError(f"{text}the two out", key=("training", "grad_accum"))
    if model.checkpoint_every > 1 and model.checkpointing != "full":
        raise InputError(
            f"model.checkpoint_every = {model.checkpoint_every}: of layers that are checkpointed as a whole, and "
            f'model.checkpointing = "{model.checkpointing}"; allowed: 1, or model.checkpointing = "full"'
        )
    if model.narrow_products != "all" and model.linear_precision is None:
        text = f"got {shown(model.narrow_products)} without model.linear_precision, allowed: all"
        raise InputError(text, key=("model", "narrow_products"))
    if file.perturbation.calls_differ and (fault := STEPS_APART.fault(file.run.steps)):
        raise InputError(f"{fault}, as calls differ in each", key=("run", "steps"))
    if fault := CASES.fault(len(file.plans) * len(file.run.devices)):
        raise InputError(f"plans and run.devices: {fault}")


def _refuse_names(file: ScenarioFile, named: Collection[str]) -> None:
    named_by: list[tuple[Key, str]] = [(("name",), file.name), *((("plans", name), name) for name in file.plans)]
    for key, name in named_by:
        if not FILE_NAME.fullmatch(name):
            text = f"got {shown(name)}, allowed: letters, digits and . _ - (files are called after it)"
            raise InputError(text, key=key)
    for size, times in Counter(file.run.devices).items():
        if times > 1:
            raise InputError(f"got {size} twice, allowed: every size once", key=("run", "devices"))
    file.perturbation.refuse_wrong()
    for trouble_key, trouble in file.perturbation.troubles():
        if trouble.from_step >= file.run.steps:
            text = f"got {trouble.from_step}, allowed: 0 to {file.run.steps - 1} (run.steps = {file.run.steps})"
            raise InputError(text, key=("perturbation", trouble_key, "from_step"))
    if file.published is not None:
        for of_plans in ("ratios", "percent_of_peak", "efficiency"):
            _refuse_strangers(getattr(file.published, of_plans), named, file, ("published", of_plans))
    if file.sensitivity is not None:
        _refuse_strangers(file.sensitivity.plans, named, file, ("sensitivity", "plans"))


def _refuse_strangers(names: Iterable[str], named: Collection[str], file: ScenarioFile, key: Key) -> None:
    """Raise InputError for a name that no plan of the scenario has."""
    for name in names:
        if name not in named and name not in file.plans:
            raise InputError(f"{shown(name)} is not a plan of this scenario; {nearest(name, named)}", key=key)


def sizes_with_tables(file: ScenarioFile, named: Collection[str]) -> list[int]:
    """Return the simulated sizes for which the file has separate tables. Raises InputError for unknown sizes or
    tables."""
    for text, tables in file.at.items():
        if not SIZE.fullmatch(text):
            raise InputError(f"got {shown(text)}, allowed: a number of devices", key=("at", text))
        for name in tables:
            if name not in SIZED:
                raise InputError(unknown_key(name, SIZED), key=("at", text, name))
        _refuse_strangers(tables.get("plans", {}), named, file, ("at", text, "plans"))
    return [int(text) for text in file.at if int(text) in file.run.devices]


# ── on the machine, at every size ──


def refuse_on_machine(scenario: Scenario) -> None:
    """Raise InputError if, at any size, the machine has too few nodes for the job, or a perturbation names components
    that do not exist."""
    file = scenario.file
    for table, sizes in (
        ("run", file.run.devices),
        ("sensitivity", file.sensitivity.sizes if file.sensitivity else ()),
    ):
        for size in sizes:
            mesh = _mesh(scenario, size, table)
            with located(when=f"at {mesh.num_ranks} devices"):
                refuse_size(scenario.machine, mesh.num_ranks)
            _refuse_perturbation(scenario, file.perturbation, mesh)
    if file.slowdown is not None:
        _refuse_cases(scenario, file.slowdown, _mesh(scenario, scenario.troubled_size, "slowdown"))


def _mesh(scenario: Scenario, size: int, table: str) -> Mesh:
    try:
        return scenario.mesh(size)
    except InputError as error:
        raise error.within(key=(table,) if error.key == ("devices",) else ()) from None


def _refuse_cases(scenario: Scenario, table: SlowdownTable, mesh: Mesh) -> None:
    """Raise InputError unless each case has a unique name and perturbs components that exist."""
    labels = [case.label for case in table.cases]
    for number, case in enumerate(table.cases):
        with located(key=("slowdown", "cases", number)):
            if labels.count(case.label) > 1:
                raise InputError(f"got {shown(case.label)} twice, allowed: every label once", key=("label",))
            later = next((each for _, each in case.perturbation.troubles() if each.from_step), None)
            if later is not None:
                text = f"{later.thing} begins in step {later.from_step}; allowed: 0, the step that is looked at"
                raise InputError(text, key=("perturbation",))
            if not case.perturbation:
                raise InputError("got nothing; allowed: what a perturbation may have", key=("perturbation",))
            case.perturbation.refuse_wrong()
            _refuse_perturbation(scenario, case.perturbation, mesh)


def _refuse_perturbation(scenario: Scenario, perturbation: Perturbation, mesh: Mesh) -> None:
    """Raise InputError if a perturbation names components that the fabric of this size does not have."""
    if not perturbation:
        return
    from simfrontier.core.network import Fabric

    num_nodes = -(-mesh.num_ranks // scenario.machine.devices_per_node)
    try:
        Fabric.build(scenario.machine, num_nodes, perturbation.all_at_once, num_devices=mesh.num_ranks)
    except InputError as error:
        raise error.within(key=() if error.key else ("perturbation",), when=f"at {mesh.num_ranks} devices") from None
