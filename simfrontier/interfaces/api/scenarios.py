"""Scenarios from Python, and the validation of arguments: one line that states what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any, TypeAlias, get_args

from simfrontier.base.errors import InputError, nearest, shown, wrong
from simfrontier.base.workers import PROCESSES
from simfrontier.core.engine import Fidelity
from simfrontier.core.machine import catalog
from simfrontier.core.plan import FAMILIES, Options, table_of
from simfrontier.core.workload import MODELS
from simfrontier.inputs.scenario import Scenario, load_scenario, scenario_of, unknown_family
from simfrontier.interfaces.api import scenarios as given

SIZES = "numbers of devices, e.g. devices=[8, 64, 384]"
SIZE = "one number of devices, e.g. devices=64"
NAMES = 'names of plans, e.g. plans=["zero3", "zero-topo"]'
SETTINGS = 'a dict of dotted keys, e.g. {"training.grad_accum": 4}'


def sizes(given: Any) -> tuple[int, ...]:
    """Numbers of devices, also a single one."""
    several = given if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping) else (given,)
    return tuple(_whole(each, given, "devices", SIZES) for each in several)


def size(given: Any) -> int | None:
    """A number of devices; None where none is given."""
    return None if given is None else _whole(given, given, "devices", SIZE)


def count(name: str, given: Any) -> int:
    """A number of at least 1."""
    number = _whole(given, given, name, "a whole number of at least 1")
    if number < 1:
        raise InputError(wrong(number, "at least 1"), where=name)
    return number


def jobs(given: Any) -> int:
    """A number of processes."""
    number = count("jobs", given)
    if fault := PROCESSES.fault(number):
        raise InputError(f"got {fault}", where="jobs")
    return number


def _whole(value: Any, given: Any, name: str, allowed: str) -> int:
    """A whole number, also one of numpy's."""
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise InputError(wrong(given, allowed), where=name)


def names(given: Any) -> tuple[str, ...]:
    """Names of plans, also a single one; every one once."""
    several = (given,) if isinstance(given, str) else given
    if not isinstance(several, Iterable):
        raise InputError(wrong(given, NAMES), where="plans")
    found: list[str] = []
    for each in several:
        if not isinstance(each, str) or "," in each:
            raise InputError(wrong(each, f"{NAMES}, or a dict of plans by name"), where="plans")
        if each in found:
            raise InputError(f'got "{each}" twice, allowed: every plan once', where="plans")
        found.append(each)
    return tuple(found)


def name(given: Any, what: str = "plan") -> str | None:
    """The name of a plan; None where none is given."""
    if given is None or isinstance(given, str):
        return given
    raise InputError(wrong(given, 'the name of one plan, e.g. "zero3"'), where=what)


def settings(given: Any) -> Mapping[str, Any]:
    """Values by dotted key."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InputError(wrong(given, SETTINGS), where="settings")
    return given


def fidelity(given: Any) -> Fidelity | None:
    """How closely is simulated; None where it is not said."""
    if given is None or given in get_args(Fidelity):
        return given  # type: ignore[no-any-return]
    raise InputError(f"got {given!r}; {nearest(str(given), get_args(Fidelity))}", where="fidelity")


def path(given: Any, name: str, allowed: str) -> Path:
    """The path of a file."""
    if isinstance(given, str | Path) and str(given):
        return Path(given)
    raise InputError(wrong(given, allowed), where=name)


OnePlan: TypeAlias = "Mapping[str, Any] | Options | str"
Plans: TypeAlias = "str | Sequence[str] | Mapping[str, OnePlan]"
Settings: TypeAlias = Mapping[str, Any]

USUAL_PLANS = ("zero3", "zero1", "zero2", "hsdp", "zeropp", "zero-topo")
IN_PYTHON = "scenario"  # where errors say that a scenario stands that no file holds


def load(
    path: str | Path,
    settings: Settings | None = None,
    plans: str | Sequence[str] = (),
    devices: int | Sequence[int] = (),
) -> Scenario:
    """Read and check a scenario file (TOML). `settings` (dotted key → value), `plans` and `devices` override the
    file. Raises InputError: one line with the file, the key, the value and what is allowed."""
    file = given.path(path, "scenario", "the path of a scenario file (TOML)")
    return load_scenario(file, given.settings(settings or {}), given.names(plans), given.sizes(devices))


def new_scenario(
    machine: str,
    model: str | Mapping[str, Any],
    plans: Plans = USUAL_PLANS,
    *,
    devices: int | Sequence[int],
    settings: Settings | None = None,
    title: str | None = None,
) -> Scenario:
    """Return a checked scenario without a file.

    `machine`: a name of `simfrontier list machines`, or the path of a TOML file. `model`: a name of `simfrontier list
    models`, or the keys of the table `model` (`num_layers`, `hidden`, `heads` …). `plans`: names of families, or names
    of one's own, each with a family's name, the keys of its table, or options (a table without `family` that is not
    named like one is of family `lattice`). `devices`: the sizes, in GCDs or GPUs. `settings`: any other key of a
    scenario file, dotted, such as {"training.grad_accum": 4}. Raises InputError as `load` does.

    >>> new_scenario("frontier", "gpt-13b", {"zero3": {}, "mine": {"weight": ["gcd"], "accumulator": ["package", "gcd"],
    ...     "optimizer": ["node", "package", "gcd"], "nesting": ["gcd", "package", "node"]}}, devices=[8, 64])
    """
    _refuse_swapped(machine, model)
    table = {"name": model} if isinstance(model, str) else {"name": "own", **model}
    document = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", f"{table['name']}-on-{Path(machine).stem}"),
        "title": title or f"{table['name']} on {Path(machine).stem.capitalize()}",
        "machine": {"name": machine},
        "model": table,
        "run": {"devices": given.sizes(devices)},
        "plans": _tables(plans),
    }
    return scenario_of(document, IN_PYTHON, given.settings(settings or {}))


def _refuse_swapped(machine: Any, model: Any) -> None:
    """Raise InputError for what can be no machine or no model, and for the two in the other's place."""
    if not isinstance(machine, str):
        raise InputError(wrong(machine, 'the name of a machine, e.g. "frontier"'), where="machine")
    if not isinstance(model, str | Mapping):
        raise InputError(wrong(model, 'the name of a model, e.g. "gpt-13b", or a dict of its keys'), where="model")
    if machine in MODELS and model in catalog():
        raise InputError(
            f'got "{machine}", a model, and as model "{model}"; allowed: the machine first, then the model',
            where="machine",
        )


def _tables(plans: Plans) -> dict[str, dict[str, Any]]:
    if not isinstance(plans, Mapping):
        from simfrontier.core.plan import FAMILIES

        names = given.names(plans)
        for name in names:
            if name not in FAMILIES:
                raise InputError(unknown_family(name, FAMILIES), where=IN_PYTHON, key=("plans",))
        return {name: {} for name in names}
    return {name: _table(name, plan) for name, plan in plans.items()}


def _table(name: str, plan: OnePlan) -> dict[str, Any]:
    """The table of a plan."""
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
