"""Parsing of the tables of a scenario: model, machine and library, tables of factors, nodes of the job, and
neighbouring job."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError, located, near, nearest, shown
from simfrontier.core.collectives import Library, load_calibration, load_library, machine_numbers, with_algorithms
from simfrontier.core.machine import (
    LARGEST,
    SMALLEST,
    JobNodes,
    Machine,
    Perturbation,
    Spread,
    expanded,
    load_machine,
    read_topology,
)
from simfrontier.core.workload import GptShape, MlpShape, Shape, find_model, known_model, known_models, sizes_of
from simfrontier.inputs.scenario.form import ModelTable, NeighbourTable, NodesTable, ScenarioFile
from simfrontier.inputs.scenario.scenario import Scenario


def beside(folder: Path, name: str) -> Path:
    """Return the path of a file that a scenario names: in the folder of the scenario if the file exists there, else in
    the working directory."""
    path = folder / name
    return path if os.path.lexists(path) else Path(name)


# ── model ──

OF_EXPERTS: Final = (
    *("experts_per_token", "expert_ffn", "shared_ffn", "dense_layers", "expert_every", "capacity", "router"),
    *("expert_groups", "groups_per_token", "expert_skew", "expert_clamp"),
)  # which change nothing of a dense model
TRAITS: Final = (
    *("residual", "tied", "ffn_hidden", "gated", "kv_heads", "head_dim", "norm", "biases", "positions"),
    *("embedding_norm", "causal", "vocabulary_multiple", "dropout", "qkv_biases", "qk_norm"),
    *("q_rank", "kv_rank", "nope_features", "rope_features", "value_features"),
    *("window", "full_every", "lora_rank", "lora_of", "mtp_layers", "experts", *OF_EXPERTS),
)  # of a GPT


def shape_of(table: ModelTable) -> Shape:
    """Return the shape of a named model, changed by the settings of the table; or a user-defined shape, for which the
    table must set every size. Raises InputError, also for settings of experts that the shape lacks."""
    shape = _shape_of(table)
    rank, most = getattr(shape, "lora_rank", None), getattr(shape, "hidden", 0)
    if rank is not None and rank > most:
        raise InputError(f"got {rank}, allowed: up to hidden = {most:,}", key=("model", "lora_rank"))
    if getattr(shape, "experts", None) is None:
        defaults = {each.name: each.default for each in fields(GptShape)}
        idle = [key for key in OF_EXPERTS if getattr(table, key) not in (None, defaults[key])]
        if table.narrow_products == "experts":
            idle.append("narrow_products")
        if idle:
            raise InputError(f"model.{idle[0]}: {table.name} has no experts; missing: model.experts")
    return shape


def _shape_of(table: ModelTable) -> Shape:
    """Return the shape that the table describes."""
    sizes = {key: getattr(table, key) for key in dict.fromkeys((*sizes_of(GptShape), *sizes_of(MlpShape)))}
    given = {key: value for key, value in sizes.items() if value is not None}
    traits = {key: getattr(table, key) for key in TRAITS if getattr(table, key) is not None}
    known = known_model(table.name)
    if known is not None and not isinstance(known, GptShape | MlpShape):
        return known.with_settings({**given, **traits})
    form = _form_of(known, given)
    keys = sizes_of(form)
    for key in given:
        if key not in keys:
            kind = "an MLP" if form is MlpShape else "a GPT"
            raise InputError(f"model.{key}: {table.name} is {kind}, whose sizes are {', '.join(keys)}")
    for key in traits if form is MlpShape else ():
        raise InputError(f"model.{key}: {table.name} is an MLP, which has none; allowed: a GPT")
    lacking = [key for key in keys if key not in given]
    if not lacking:
        return form(name=table.name, source="scenario", **given, **traits)
    is_misspelt = len(given) == 1 and near(table.name, [each.name for each in known_models()]) is not None
    if known is None and given and not is_misspelt:
        raise InputError(f"model: a shape of your own needs all of {', '.join(keys)}; missing: {', '.join(lacking)}")
    return find_model(table.name).with_settings({**given, **traits})


def _form_of(known: Shape | None, given: Collection[str]) -> type[GptShape] | type[MlpShape]:
    """Return the kind of model shape that the sizes describe: that of the named model if the name is known; else an MLP
    if a size is set that only an MLP has; else a GPT."""
    if isinstance(known, GptShape | MlpShape):
        return type(known)
    return MlpShape if set(given) - set(sizes_of(GptShape)) else GptShape


# ── machine and library ──


def machine_and_library(folder: Path, file: ScenarioFile) -> tuple[Machine, Library]:
    """Return machine and library from their files, with the algorithms that the scenario chooses. A calibration
    overrides numbers of the files, and the scenario overrides both."""
    machine, library = _from_files(folder, file)
    with located(key=("library", "algorithms")):
        return machine, with_algorithms(library, file.library.algorithms.chosen())


def _from_files(folder: Path, file: ScenarioFile) -> tuple[Machine, Library]:
    machine_name, table = named_file(folder, file.machine.name), file.library
    machine = load_machine(machine_name, file.machine.overrides)
    library_name = named_file(folder, table.name or machine.library)
    if table.calibration is None:
        return machine, load_library(library_name, table.overrides)
    path = named_file(folder, table.calibration)
    with located(key=("library", "calibration")):
        calibration = load_calibration(path)
        with located(path):
            library = load_library(library_name, table.overrides, calibration)
            measured = machine_numbers(calibration, load_machine(machine_name), library)
            return load_machine(machine_name, file.machine.overrides, measured), library


def named_file(folder: Path, name: str) -> str:
    """Return a name in the catalog unchanged, and for a TOML file the path where `beside` finds it."""
    return str(beside(folder, name)) if name.endswith(".toml") else name


# ── tables of factors ──


def with_tables(file: ScenarioFile, folder: Path) -> ScenarioFile:
    """Return the scenario file with the rows of every table that its spreads name. Raises InputError that names the key
    of the table, or the faulty line in the table."""
    changed: dict[str, object] = {}
    if file.perturbation.spread:
        changed["perturbation"] = _filled(file.perturbation, folder)
    if file.slowdown is not None and any(case.perturbation.spread for case in file.slowdown.cases):
        cases = []
        for number, case in enumerate(file.slowdown.cases):
            with located(key=("slowdown", "cases", number)):
                cases.append(case.model_copy(update={"perturbation": _filled(case.perturbation, folder)}))
        changed["slowdown"] = file.slowdown.model_copy(update={"cases": cases})
    return file.model_copy(update=changed) if changed else file


def _filled(perturbation: Perturbation, folder: Path) -> Perturbation:
    spreads = []
    for number, spread in enumerate(perturbation.spread):
        with located(key=("perturbation", "spread", number, "table")):
            spreads.append(spread if spread.table is None else replace(spread, listed=_factors(spread, folder)))
    return replace(perturbation, spread=tuple(spreads))


def _factors(spread: Spread, folder: Path) -> tuple[float, ...]:
    from simfrontier.inputs.measured import read_lines

    column, allowed = "factor", f"a factor from {SMALLEST:g} to {LARGEST:g}"
    lines = read_lines(beside(folder, str(spread.table)), (column,))
    factors = tuple(line.above_zero(column, "a factor above 0") for line in lines)
    for line, factor in zip(lines, factors, strict=True):
        if not SMALLEST <= factor <= LARGEST:
            raise line.fault(column, allowed)
    return factors


# ── the neighbouring job ──

SAME: Final = ("node", "dragonfly", "fat_tree", "num_nodes")  # what is one for both jobs


def scenario_beside(
    table: NeighbourTable | None, machine: Machine, folder: Path, load: Callable[[Path], Scenario]
) -> Scenario | None:
    """Return the scenario of the neighbouring job, with the one plan and size that it runs; None if there is no such
    table. Raises InputError that names a key of the table."""
    if table is None:
        return None
    with located(key=("neighbour", "scenario")):
        other = load(beside(folder, table.scenario))
    if table.plan is not None and table.plan not in other.plans:
        raise InputError(f'plan "{table.plan}": {nearest(table.plan, other.plans)}', key=("neighbour", "plan"))
    plan, devices = table.plan or next(iter(other.plans)), table.devices or max(other.file.run.devices)
    _refuse_beside(other, plan, machine)
    run = other.file.run.model_copy(update={"devices": [devices]})
    return replace(other, plans={plan: other.plans[plan]}, file=other.file.model_copy(update={"run": run}))


def _refuse_beside(other: Scenario, plan: str, machine: Machine) -> None:
    """Raise InputError for parts of the neighbouring job's scenario that cannot be simulated together with this job, or
    that would be ignored."""
    differs = [part for part in SAME if getattr(other.machine, part) != getattr(machine, part)]
    if other.machine.name != machine.name or differs:
        got = f"of another machine, {other.machine.name}" if not differs else f"whose machine has another {differs[0]}"
        raise InputError(
            f"got a scenario {got}; allowed: of {machine.name} as it is here", key=("neighbour", "scenario")
        )
    if plan in other.searches:
        text = f'plan "{plan}" of {other.where} is searched for; allowed: a plan with all its sizes'
        raise InputError(text, key=("neighbour", "plan"))
    if other.file.perturbation:
        text = f"{other.where} has a table perturbation; allowed: none, this scenario's counts for both"
        raise InputError(text, key=("neighbour", "scenario"))


# ── the nodes of the job ──

TABLE = "nodes"


def on_nodes(table: NodesTable, machine: Machine, folder: Path) -> JobNodes:
    """Return the placement of the job on the nodes that the table names. Raises InputError that names a key of the
    table, or the faulty line in the topology's file."""
    _refuse_unused(table)
    names, group_of = _topology(table, machine, folder)
    num_nodes = len(names) or machine.num_nodes
    listed = _listed(table, names, num_nodes)
    for node, times in Counter(listed).items():
        if times > 1:
            raise InputError(
                f"got node {names[node] if names else node} twice, allowed: every node once", key=(TABLE, "list")
            )
    placement = "list" if listed else table.placement
    named = tuple(names[node] for node in listed) if names else ()
    return JobNodes(placement=placement, seed=table.seed, listed=listed, group_of=group_of, names=named)


def refuse_size(machine: Machine, num_devices: int) -> None:
    """Raise InputError if the machine has too few nodes for a job of this size."""
    job, needed = machine.job_nodes, -(-num_devices // machine.devices_per_node)
    if job.placement == "list" and len(job.listed) < needed:
        text = f"got {len(job.listed)} node{'s' if len(job.listed) > 1 else ''}, allowed: {needed} or more"
        raise InputError(f"{text} ({machine.devices_per_node} devices on each)", key=(TABLE, "list"))
    if job.group_of and len(job.group_of) < needed:
        text = f"has {len(job.group_of)} nodes; {num_devices} devices need {needed}"
        raise InputError(text, key=(TABLE, "topology"))


def _refuse_unused(table: NodesTable) -> None:
    """Raise InputError for a key that would be ignored, or that is missing."""
    if table.placement == "list" and table.list is None:
        raise InputError('missing, needed because nodes.placement is "list"', key=(TABLE, "list"))
    if table.placement in ("spread", "random") and table.list is not None:
        raise InputError(
            f'not allowed beside nodes.placement = "{table.placement}"; allowed: "list"', key=(TABLE, "list")
        )
    if table.topology is None and table.group_level:
        raise InputError("of the switches of nodes.topology, which is missing", key=(TABLE, "group_level"))


def _topology(table: NodesTable, machine: Machine, folder: Path) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the names of the machine's nodes and the network group of each node; both are empty without a topology."""
    if table.topology is None:
        return (), ()
    with located(key=(TABLE, "topology")):
        read = read_topology(beside(folder, table.topology))
    group_of = read.groups(table.group_level)
    count = max(group_of) + 1
    fly, tree = machine.dragonfly, machine.fat_tree
    if fly is None and tree is None:
        raise InputError(f"{machine.name} has no groups or leaves; allowed: none", key=(TABLE, "topology"))
    has, things = (fly.num_groups, "groups") if fly is not None else (tree.num_leaves if tree else 0, "leaves")
    if count > has:
        text = f"{read.where} has {count} switches at level {table.group_level}; {machine.name} has {has} {things}"
        raise InputError(text, key=(TABLE, "topology"))
    most = fly.nodes_per_group if fly is not None else tree.nodes_per_leaf if tree else machine.num_nodes
    for group, num_nodes in Counter(group_of).items():
        if num_nodes > most:
            switch = shown(read.switches(table.group_level)[group])
            text = f"{read.where} has {num_nodes} nodes below {switch}; {things} of {machine.name} have up to {most}"
            raise InputError(text, key=(TABLE, "topology"))
    if len(group_of) > machine.num_nodes:
        text = f"{read.where} has {len(group_of)} nodes; {machine.name} has {machine.num_nodes}"
        raise InputError(text, key=(TABLE, "topology"))
    return tuple(read.switch_of), group_of


def _listed(table: NodesTable, names: Sequence[str], num_nodes: int) -> tuple[int, ...]:
    """Return the numbers of the nodes in the table's list."""
    if table.list is None:
        return ()
    if isinstance(table.list, str):
        if not names:
            text = f"got {shown(table.list)}; names need nodes.topology, which says where they are; allowed: numbers"
            raise InputError(text, key=(TABLE, "list"))
        number = {name: place for place, name in enumerate(names)}
        with located(key=(TABLE, "list")):
            wanted = expanded(table.list)
        for name in wanted:
            if name not in number:
                text = f"{shown(name)} is no node of {table.topology}; {nearest(name, names)}"
                raise InputError(text, key=(TABLE, "list"))
        return tuple(number[name] for name in wanted)
    for node in table.list:
        if node >= num_nodes:
            raise InputError(
                f"got node {node}, allowed: 0 to {num_nodes - 1} (nearest: {num_nodes - 1})", key=(TABLE, "list")
            )
    return tuple(table.list)
