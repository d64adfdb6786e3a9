"""Scenarios from Python: from a file, or from a machine, a model, plans and sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from simfrontier.base.errors import InputError, located, shown, wrong
from simfrontier.core.machine import catalog
from simfrontier.core.plan import FAMILIES, Options, table_of
from simfrontier.core.workload import MODELS
from simfrontier.inputs.scenario import (
    USUAL_BATCH,
    Scenario,
    devices_of_nodes,
    full_path,
    has_degrees,
    load_scenario,
    path_of,
    scenario_of,
    selected_plans,
)
from simfrontier.interfaces.api import given

OnePlan: TypeAlias = "Mapping[str, Any] | Options | str"
Plans: TypeAlias = "str | Sequence[str] | Mapping[str, OnePlan]"

USUAL_PLANS = ("zero3", "zero1", "zero2", "hsdp", "zeropp", "zero-topo")
USUAL_ATTENTION = "fused"  # of a GPT: FlashAttention is the default of today's frameworks
IN_PYTHON = "scenario"  # where errors say that a scenario stands that no file holds


def load(
    path: str | Path,
    settings: given.Settings | None = None,
    plans: str | Sequence[str] = (),
    devices: int | Sequence[int] | None = None,
) -> Scenario:
    """Read and check a scenario: a TOML file that says what is trained, where, and by which plans.

    Args:
        path: path of the file, or the name of a shipped scenario (`simfrontier list scenarios`).
        settings: values that replace those of the file, by dotted key (`sf.keys()`).
        plans: names of some of its plans, or others in words ("tp 8 pp 2"). Default: all of its own.
        devices: numbers of devices. Default: its own.

    Returns:
        A `Scenario` that the other functions take.

    Raises:
        InputError: one line with the file, the key, the value and what is allowed.

    Example:
        >>> import simfrontier as sf
        >>> sf.load("frontier-20b", {"training.micro_batch": 2}, devices=[64, 384])
    """
    file = given.path(path, "scenario", "the path of a scenario file (TOML)")
    return load_scenario(file, given.settings(settings or {}), given.names(plans), given.sizes(devices))


def new_scenario(
    machine: str,
    model: str | Mapping[str, Any],
    plans: Plans = USUAL_PLANS,
    *,
    devices: int | Sequence[int] | None = None,
    nodes: int | Sequence[int] | None = None,
    batch: int | str | None = None,
    settings: given.Settings | None = None,
    title: str | None = None,
) -> Scenario:
    """Return a checked scenario of a machine, a model, plans and sizes, without a file.

    Args:
        machine: name (`sf.machines()`), or path of a TOML file that describes yours.
        model: name (`sf.models()`), or a dict of its sizes: `num_layers`, `hidden`, `heads` … (keys `model.…` of
            `sf.keys()`). Attention is fused unless it says otherwise.
        plans: names of families (`sf.plans()`); plans in words ("tp 2 pp 4; ep 8 zero3"); or a dict from names of
            yours to plans in words or dicts of options. A dict without `family` is a grid if it has a degree such as
            `tp`, else of family `lattice`, whose options say over which mesh axes each state is sharded.
        devices: numbers of devices (GPUs; GCDs, the halves of an MI250X), one or several.
        nodes: numbers of nodes, instead of `devices`.
        batch: sequences per step over all devices, or its tokens as a text ("4M"). Default: as usual for models of
            this size.
        settings: any other key of a scenario with its value, such as {"training.grad_accum": 4}.
        title: title of tables and pages. Default: model and machine.

    Returns:
        A `Scenario` that the other functions take.

    Raises:
        InputError: one line with the key, the value and what is allowed.

    Example:
        >>> import simfrontier as sf
        >>> mine = {"weight": ["gcd"], "accumulator": ["package", "gcd"], "optimizer": ["node", "package", "gcd"],
        ...     "nesting": ["gcd", "package", "node"]}
        >>> sf.new_scenario("frontier", "gpt-13b", {"zero3": {}, "mine": mine}, devices=[8, 64])
    """
    _refuse_swapped(machine, model)
    changes = given.settings(settings or {}, batch)
    named = {"name": model} if isinstance(model, str) else {"name": "own", **model}
    tables, table = _tables(plans), {key: given.plain(value) for key, value in named.items()}
    document = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", f"{table['name']}-on-{Path(machine).stem}"),
        "title": title or f"{table['name']} on {Path(machine).stem.capitalize()}",
        "machine": {"name": machine},
        "model": table,
        "run": {"devices": _sizes(given.sizes(devices), given.nodes(nodes), machine, changes)},
        "plans": tables,
    }
    keys = [*(full_path(path_of(key))[-1] for key in changes), *(key for plan in tables.values() for key in plan)]
    if not {"batch", "grad_accum", "ga"} & {*keys}:
        document["training"] = {"batch": USUAL_BATCH}
    if "inputs" not in table:
        document["model"] = {"attention": USUAL_ATTENTION, **table}
    return scenario_of(document, IN_PYTHON, changes)


def _refuse_swapped(machine: Any, model: Any) -> None:
    """Raise InputError if the machine or the model is of a wrong type, or if the two arguments were swapped."""
    given.machine(machine)
    if not isinstance(model, str | Mapping) or not model:
        raise InputError(wrong(model, 'the name of a model, e.g. "gpt-13b", or a dict of its keys'), where="model")
    if machine in MODELS and model in catalog():
        raise InputError(
            f'got "{machine}", a model, and as model "{model}"; allowed: the machine first, then the model',
            where="machine",
        )


def _sizes(devices: tuple[int, ...], nodes: tuple[int, ...], machine: str, settings: given.Settings) -> tuple[int, ...]:
    """Return the numbers of devices of a comparison. Raises InputError unless either devices or nodes are given."""
    given.refuse_both(devices, nodes)
    if not devices and not nodes:
        raise InputError("got none; allowed: sizes, e.g. devices=[8, 64, 384], or nodes", where="devices")
    return devices or devices_of_nodes(nodes, machine, IN_PYTHON, settings)


def _tables(plans: Plans) -> Mapping[str, dict[str, Any] | str]:
    if not isinstance(plans, Mapping):
        with located(IN_PYTHON):
            names = given.names(plans)
            if not names:
                raise InputError(wrong(plans, 'plans, e.g. plans=["zero3", "tp 8 pp 2"]'), where="plans")
            return selected_plans({}, names)
    return {name: _table(name, plan) for name, plan in plans.items()}


def _table(name: str, plan: OnePlan) -> dict[str, Any] | str:
    """Return a plan as in a scenario file: in words, or the keys and values of its table."""
    match plan:
        case str():
            return plan
        case Mapping():
            own = {} if "family" in plan or name in FAMILIES or has_degrees(plan) else {"family": "lattice"}
            return {**own, **{key: given.plain(value) for key, value in plan.items()}}
        case Options():
            return table_of(plan)
    allowed = "a family's name, a dict of its keys, or options"
    raise InputError(f"got {shown(plan)}, allowed: {allowed}", where=IN_PYTHON, key=("plans", name))
