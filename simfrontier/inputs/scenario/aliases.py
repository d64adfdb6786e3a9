"""Documents of scenarios in full: usual abbreviations and words replaced by the keys, tables and numbers they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from simfrontier.base.errors import InputError, located
from simfrontier.core.machine import catalog
from simfrontier.core.plan import FAMILIES
from simfrontier.core.workload import known_models
from simfrontier.inputs.scenario.batches import batch_in_words
from simfrontier.inputs.scenario.plans import DATA_KEY
from simfrontier.inputs.scenario.words import OF_MEGATRON, ON_DATA, PLAN_KEYS, completed, plan_in_words

ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "plans": PLAN_KEYS,
    "training": {
        **dict.fromkeys(("global_batch", "global_batch_size", "gbs"), "batch"),
        **dict.fromkeys(("micro_batch_size", "mbs"), "micro_batch"),
    },
    "model": dict.fromkeys(("seq", "seq_len", "seq_length"), "sequence"),
}
"""Full names of keys, by table."""


def full_path(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of a setting with the full name of its key: `plans.a.tp` is `plans.a.tensor`."""
    if path[0] == "at" and len(path) > 2:
        return (*path[:2], *full_path(path[2:]))
    place = 2 if path[0] == "plans" else 1
    if len(path) <= place:
        return path
    return (*path[:place], ALIASES.get(path[0], {}).get(path[place], path[place]), *path[place + 1 :])


def in_full(document: Mapping[str, Any], is_whole: bool = True) -> dict[str, Any]:
    """Return a document whose tables have the full names of their keys; plans in words are tables, batches numbers of
    sequences or texts of tokens, and machine and model have the case of the catalog. What is no table stays as it is,
    for the form to refuse. A document that is not whole (tables of one size) has parts of plans, of which nothing
    follows. Raises InputError that names the key."""
    out = dict(document)
    for name in ("model", "training"):
        if isinstance(out.get(name), dict):
            out[name] = _named_in_full(out[name], ALIASES[name], (name,))
    training, plans, sized = out.get("training"), out.get("plans"), out.get("at")
    if isinstance(training, dict) and isinstance(training.get("batch"), str):
        with located(key=("training", "batch")):
            training["batch"] = batch_in_words(training["batch"])
    for table, names in (("machine", catalog()), ("model", (shape.name for shape in known_models()))):
        called = out[table].get("name") if isinstance(out.get(table), dict) else None
        if isinstance(called, str):
            out[table] = {**out[table], "name": in_case(called, names)}
    if isinstance(plans, dict):
        out["plans"] = {name: _plan_in_full(name, plan, is_whole) for name, plan in plans.items()}
    if isinstance(sized, dict):
        out["at"] = {size: in_full(each, False) if isinstance(each, dict) else each for size, each in sized.items()}
    return out


def in_case(name: str, names: Iterable[str]) -> str:
    """Return a name as it is written among `names`; one that is none of them, in any case, as it is."""
    return next((each for each in names if each.lower() == name.lower()), name)


def _named_in_full(table: Mapping[str, Any], aliases: Mapping[str, str], place: tuple[str, ...]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in table.items():
        full = aliases.get(key, key)
        if full in out or (full != key and full in table):
            raise InputError(f"is {full}, which the table has, too; leave one of the two out", key=(*place, key))
        out[full] = value
    return out


def has_degrees(table: Mapping[str, Any]) -> bool:
    """Return whether the table of a plan has a degree of a grid of Megatron-LM, by its full name or in short."""
    return any(PLAN_KEYS.get(key, key) in OF_MEGATRON for key in table)


def _plan_in_full(name: str, plan: Any, is_whole: bool) -> Any:
    """Return the table of a plan. A table with a degree that names no family, nor is named like one, is a grid of
    Megatron-LM as words have it; one with a degree in short has what that implies."""
    place = ("plans", name)
    if isinstance(plan, str):
        with located(key=place):
            return plan_in_words(plan)[1]
    if not isinstance(plan, dict):
        return plan
    table = _named_in_full(plan, PLAN_KEYS, place)
    if not is_whole:
        return table
    if "family" not in table and name not in FAMILIES and has_degrees(table):
        return completed({"family": "megatron", **table, DATA_KEY: table.get(DATA_KEY, {"family": ON_DATA})})
    return table if set(table) == set(plan) else completed(table)
