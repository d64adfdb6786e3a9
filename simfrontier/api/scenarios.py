"""Scenarios from Python: out of a file, or out of a machine, a model, plans and sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from simfrontier.errors import InputError, shown
from simfrontier.scenario import Scenario, load_scenario, scenario_of

if TYPE_CHECKING:
    from simfrontier.plan import Options

OnePlan: TypeAlias = "Mapping[str, Any] | Options | str"
Plans: TypeAlias = "str | Sequence[str] | Mapping[str, OnePlan]"
Settings: TypeAlias = Mapping[str, Any]

USUAL_PLANS = ("zero3", "zero1", "zero2", "hsdp", "zeropp", "zero-topo")
IN_PYTHON = "scenario"  # where errors say that a scenario stands that no file holds


def load(
    path: str | Path,
    settings: Settings | None = None,
    plans: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
) -> Scenario:
    """Read and check a scenario file (TOML). `settings` (dotted key → value), `plans` and `devices` replace what it
    says. Raises InputError: one line that names the file, the key, what was got and what is allowed."""
    return load_scenario(path, settings, tuple(plans), tuple(devices))


def new_scenario(
    machine: str,
    model: str | Mapping[str, Any],
    plans: Plans = USUAL_PLANS,
    *,
    devices: int | Sequence[int],
    settings: Settings | None = None,
    title: str | None = None,
) -> Scenario:
    """A checked scenario without a file.

    `machine`: a name of `simfrontier list machines`, or the path of a TOML file. `model`: a name of `simfrontier list
    models`, or the keys of the table `model` (`num_layers`, `hidden`, `heads` …). `plans`: names of families, or names
    of one's own, each with a family's name, the keys of its table, or options (a table without `family` that is not
    named like one is of family `lattice`). `devices`: the sizes, in GCDs or GPUs. `settings`: any other key of a
    scenario file, dotted, such as {"training.grad_accum": 4}. Raises InputError as `load` does.

    >>> new_scenario("frontier", "gpt-13b", {"zero3": {}, "mine": {"weight": ["gcd"], "accumulator": ["package", "gcd"],
    ...     "optimizer": ["node", "package", "gcd"], "nesting": ["gcd", "package", "node"]}}, devices=[8, 64])
    """
    table = {"name": model} if isinstance(model, str) else {"name": "own", **model}
    sizes = [devices] if isinstance(devices, int) else list(devices)
    document = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", f"{table['name']}-on-{Path(machine).stem}"),
        "title": title or f"{table['name']} on {Path(machine).stem.capitalize()}",
        "machine": {"name": machine},
        "model": table,
        "run": {"devices": sizes},
        "plans": _tables(plans),
    }
    return scenario_of(document, IN_PYTHON, settings)


def _tables(plans: Plans) -> dict[str, dict[str, Any]]:
    if isinstance(plans, str):
        plans = (plans,)
    if not isinstance(plans, Mapping):
        return {name: {} for name in plans}
    return {name: _table(name, plan) for name, plan in plans.items()}


def _table(name: str, plan: OnePlan) -> dict[str, Any]:
    """The table of a plan."""
    from simfrontier.plan import FAMILIES, Options, table_of

    match plan:
        case str():
            return {"family": plan}
        case Mapping():
            own = {} if "family" in plan or name in FAMILIES else {"family": "lattice"}
            return {**own, **plan}
        case Options():
            return table_of(plan)
    allowed = "a family's name, a dict of its keys, or options"
    raise InputError(f"got {shown(plan)}, allowed: {allowed}", where=IN_PYTHON, key=("plans", name))
