"""Settings: dotted keys of a scenario's document that a call, or a variation, sets otherwise."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.io import refuse_unfit

Path = tuple[str, ...]  # of a setting in a scenario's document

EVERY_PLAN = "*"  # in the place of a plan's name
NUMBER_TABLES: Final = ("machine.overrides.", "library.overrides.")  # what keys of their numbers begin with
NUMBERS: Path = ("overrides",)  # of a machine or library: what follows is the dotted key of a number there


def path_of(key: str) -> Path:
    """The path that a dotted key means; the end of `machine.overrides.device.hbm_bytes` is a dotted key itself."""
    parts = tuple(key.split("."))
    if parts[:1] in (("machine",), ("library",)) and parts[1:2] == NUMBERS and len(parts) > 2:
        return (*parts[:2], ".".join(parts[2:]))
    return parts


def is_of_every_plan(path: Path) -> bool:
    return path[:2] == ("plans", EVERY_PLAN) and len(path) > 2


def put(document: dict[str, Any], path: Path, value: Any, where: str) -> None:
    """Set the value at a path; `plans.*` means every plan. Raises InputError where something on it is no table."""
    for each in _of_plans(document, path):
        place: Any = document
        for number, part in enumerate(each[:-1], 1):
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise InputError(f"{'.'.join(each[:number])} is not a table", where=where, key=each)
        place[each[-1]] = value


def hold_everywhere(document: Mapping[str, Any], path: Path) -> None:
    """Apply a setting at every size: tables of single sizes lose that key."""
    tables = document.get("at")
    for each in _of_plans(document, path):
        for place in tables.values() if isinstance(tables, dict) else ():
            for part in each[:-1]:
                place = place.get(part) if isinstance(place, dict) else None
            if isinstance(place, dict):
                place.pop(each[-1], None)


def _of_plans(document: Mapping[str, Any], path: Path) -> list[Path]:
    """The paths that one with `plans.*` stands for."""
    if not is_of_every_plan(path):
        return [path]
    plans = document.get("plans")
    return [("plans", plan, *path[2:]) for plan in (plans if isinstance(plans, dict) else ())]


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` with the value as in TOML; a bare word is a string. Raises InputError."""
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
