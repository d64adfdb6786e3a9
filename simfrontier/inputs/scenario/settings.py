"""Editing of scenario documents (parsed TOML) before validation: applying settings and selecting plans."""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from simfrontier.base.errors import InputError, located, near, shown, technique, unknown_key, wrong
from simfrontier.base.io import refuse_unfit
from simfrontier.base.limits import DEPTH
from simfrontier.core.plan import FAMILIES
from simfrontier.inputs.scenario.added_keys import USUAL, FileForm
from simfrontier.inputs.scenario.aliases import ALIASES, full_path, in_full
from simfrontier.inputs.scenario.keys import scenario_keys
from simfrontier.inputs.scenario.usual_grid import USUAL_KEYS
from simfrontier.inputs.scenario.words import plan_in_words

Path = tuple[str, ...]  # of a setting in a scenario's document

COMPARING: Final = ("published", "sensitivity", "slowdown")  # tables that compare plans of the whole scenario
EVERY_PLAN = "*"  # in the place of a plan's name
NUMBER_TABLES: Final = ("machine.overrides.", "library.overrides.")  # what keys of their numbers begin with
NUMBERS: Path = ("overrides",)  # of a machine or library: what follows is the dotted key of a number there


def path_of(key: str) -> Path:
    """Return a dotted key as a path of keys; the end of `machine.overrides.device.hbm_bytes`, after `overrides`, is a
    single key with dots. Raises InputError for a key with more parts than a document has levels."""
    parts = tuple(key.split("."))
    if len(parts) > DEPTH:
        raise InputError(f"a key of {len(parts)} parts; allowed: {DEPTH}", where=f"--set {key[:40]}…")
    if parts[:1] in (("machine",), ("library",)) and parts[1:2] == NUMBERS and len(parts) > 2:
        return (*parts[:2], ".".join(parts[2:]))
    return parts


def is_of_every_plan(path: Path) -> bool:
    return path[:2] == ("plans", EVERY_PLAN) and len(path) > 2


def put(document: dict[str, Any], path: Path, value: Any) -> None:
    """Set the value at a path; `plans.*` means every plan. Raises InputError if a value on the path is not a table."""
    for each in _paths(document, path):
        place: Any = document
        for number, part in enumerate(each[:-1], 1):
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise InputError(f"{'.'.join(each[:number])} is not a table", key=each)
        place[each[-1]] = value


def hold_everywhere(document: Mapping[str, Any], path: Path) -> None:
    """Apply a setting at every size: the key is removed from the tables of single sizes."""
    tables = document.get("at")
    for each in _paths(document, path):
        for place in tables.values() if isinstance(tables, dict) else ():
            for part in each[:-1]:
                place = place.get(part) if isinstance(place, dict) else None
            if isinstance(place, dict):
                place.pop(each[-1], None)


def _paths(document: Mapping[str, Any], path: Path) -> list[Path]:
    """Return the paths that result from replacing `plans.*` in a path by each plan."""
    if not is_of_every_plan(path):
        return [path]
    plans = document.get("plans")
    return [("plans", plan, *path[2:]) for plan in (plans if isinstance(plans, dict) else ())]


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse `key=value`, with a TOML value; a bare word is a string. Raises InputError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError("write key=value, e.g. training.micro_batch=4", where=f"--set {text!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value.strip()
    try:
        refuse_unfit(parsed)
    except ValueError as error:
        raise InputError(str(error), where=f"--set {key}") from None
    if isinstance(parsed, float) and not math.isfinite(parsed):
        raise InputError(f"got {value}; allowed: a finite number", where=f"--set {key}")
    return key.strip(), parsed


def with_settings(document: Mapping[str, Any], where: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with settings applied, before it is validated as a scenario. Raises InputError for a key that
    no scenario has."""
    return changed_document(document, where, settings, {})[0]


def changed_document(
    document: Mapping[str, Any], where: str, settings: Mapping[str, Any], plans: Mapping[str, dict[str, Any]]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a document in full with settings applied, and, as text, the settings that change the document. Settings of
    single sizes are applied last, because the others apply to every size; `plans.*` includes `plans`."""
    new: list[str] = []
    given = [(key, full_path(path_of(key)), value) for key, value in settings.items()]
    with located(where):
        changed = in_full(copy.deepcopy(dict(document)))
        _name_plans(changed, plans)
        for key, path, value in sorted(given, key=lambda setting: setting[1][0] == "at"):
            if path[0] not in FileForm.model_fields:
                raise _unknown(key)
            _refuse_astray(path, value)
            before = copy.deepcopy(changed)
            put(changed, path, value)
            _end_search(changed, path)
            hold_everywhere(changed, path)
            if changed != before:
                new.append(f"{key} = {value}")
        return in_full(changed), tuple(new)


def _end_search(document: dict[str, Any], path: Path) -> None:
    """Remove the search for the usual grid of a plan of which a degree is set."""
    for _, name, *key in _paths(document, path) if path[0] == "plans" and len(path) == 3 else ():
        search = document["plans"][name].get("search")
        if key[0] in USUAL_KEYS and isinstance(search, dict) and search.get("by") == USUAL.name:
            del document["plans"][name]["search"]


def _refuse_astray(path: tuple[str, ...], value: Any) -> None:
    """Raise InputError for a value that is set in place of a table, and for a number that belongs into `overrides`."""
    table = _keys_of(path[0])
    if len(path) == 1 and "name" in table and not isinstance(value, dict):
        raise InputError(f'{wrong(value, "a table")}; did you mean "{path[0]}.name"?', key=path)
    if len(path) > 2 and "overrides" in table and path[1] not in table:
        meant = ".".join((path[0], *NUMBERS, *path[1:]))
        raise InputError(f'unknown key; did you mean "{meant}"?', key=path)


def _keys_of(table: str) -> tuple[str, ...]:
    """Return the keys that a table of a scenario may have; only for tables whose keys are fixed."""
    return tuple(getattr(FileForm.model_fields[table].annotation, "model_fields", ()))


def _unknown(key: str) -> InputError:
    """Return the error for a key whose first part is not a table: the key of a known technique, or the nearest key with
    the same last part is proposed."""
    if absent := next(filter(None, map(technique, key.split("."))), None):
        return InputError(f"unknown key; {absent}", key=(key,))
    last, names = key.rpartition(".")[2], [each.name for each in scenario_keys()]
    last = next((aliases[last] for aliases in ALIASES.values() if last in aliases), last)
    by_end = {name.rpartition(".")[2]: name for name in reversed(names)}  # the first of each
    likely = last if last in by_end else near(last, by_end)
    if likely is not None:
        return InputError(f'unknown key; did you mean "{by_end[likely]}"?', key=(key,))
    first = key.partition(".")[0]
    return InputError(unknown_key(first, FileForm.model_fields), key=(first,))


def _by_name() -> frozenset[str]:
    """Return the families whose plans can be selected by name alone, because they need no options (unlike a lattice,
    which needs its axes)."""
    return frozenset(FAMILIES) - {"lattice"}


def selected_plans(
    document: Mapping[str, Any], plans: Iterable[str], settings: Iterable[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return the tables of the plans that texts select, by name: of a plan of this name, of the document or with a
    family among the keys of `settings`, empty, of another one that which its words mean. Raises InputError for unknown
    words, and for a plan that is named twice."""
    table, out = document.get("plans"), {}
    known = dict(table) if isinstance(table, dict) else {}
    known |= {path[1]: {} for path in map(path_of, settings) if (path[0], *path[2:]) == ("plans", "family")}
    for text in (part for each in plans for part in _names_in(each, known)):
        name, words = (text, {}) if text in {*known, *_by_name()} - {USUAL.family} else plan_in_words(text, known)
        if words and "family" not in words:
            raise InputError(
                f"plan {text!r}: names no plan; allowed: with degrees (tp 8 pp 2), or zero3, hsdp, megatron …"
            )
        if name in out:
            raise InputError(f"got {shown(name)} twice, allowed: every plan once", key=("plans",))
        out[name] = words
    return out


def _names_in(text: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the plans of the document that a text names, separated by commas (`tp8,pp4`), or the text itself."""
    parts = tuple(part.strip() for part in text.split(","))
    return parts if all(part in known for part in parts) else (text,)


def _name_plans(document: dict[str, Any], plans: Mapping[str, dict[str, Any]]) -> None:
    """Add to the document the selected plans that it does not have."""
    known = document.get("plans")
    if isinstance(known, dict):
        known |= {name: table for name, table in plans.items() if name not in known}


def without_comparisons(document: Mapping[str, Any], plans: Collection[str]) -> dict[str, Any]:
    """Return a document for these plans only, without the tables that compare plans, and without the settings of other
    plans in the tables of single sizes."""
    said = {name: table for name, table in document.items() if name not in COMPARING}
    if "at" in said:
        said["at"] = {size: _of_plans(table, plans) for size, table in said["at"].items()}
    return said


def _of_plans(table: Mapping[str, Any], plans: Collection[str]) -> dict[str, Any]:
    kept = {name: options for name, options in table.get("plans", {}).items() if name in plans}
    rest = {key: value for key, value in table.items() if key != "plans"}
    return {**rest, "plans": kept} if kept else rest


def choose_plans(document: dict[str, Any], plans: Collection[str]) -> None:
    """Keep only the named plans, in the order of the names."""
    known = document.get("plans", {})
    if not isinstance(known, dict):
        return  # whatever it is, the form refuses it
    document["plans"] = {name: known[name] for name in plans}
    table = document.get("sensitivity")
    compared = table.get("plans") if isinstance(table, dict) else None
    if isinstance(compared, list) and any(name in list(known) and name not in plans for name in compared):
        del document["sensitivity"]
