"""Settings: dotted keys of a scenario's document that a call, or a variation, sets otherwise."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from typing import Any

from simfrontier.errors import InputError
from simfrontier.io import refuse_unfit
from simfrontier.limits import SETTING, TOML_DEPTH
from simfrontier.plaintext import control_in

EVERY_PLAN = "plans.*."


def put(document: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key; the last parts of machine.overrides and library.overrides are dotted keys themselves, and
    `plans.*` means every plan."""
    for each in _of_plans(document, key):
        _put(document, each, value, where)


def _of_plans(document: Mapping[str, Any], key: str) -> list[str]:
    """The keys that a key with `plans.*` stands for."""
    if not key.startswith(EVERY_PLAN):
        return [key]
    plans = document.get("plans")
    return [f"plans.{plan}.{key.removeprefix(EVERY_PLAN)}" for plan in (plans if isinstance(plans, dict) else ())]


def _put(document: dict[str, Any], key: str, value: Any, where: str) -> None:
    parts = key.split(".")
    for table in ("machine", "library"):
        if parts[:2] == [table, "overrides"] and len(parts) > 2:
            parts = [table, "overrides", ".".join(parts[2:])]
    place: Any = document
    for part in parts[:-1]:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise InputError(f"{where}: {key}: {part} is not a table")
    place[parts[-1]] = value


def hold_everywhere(document: Mapping[str, Any], key: str) -> None:
    """A setting holds at every size: tables of single sizes say nothing else any more."""
    for each in _of_plans(document, key):
        _hold(document, each)


def _hold(document: Mapping[str, Any], key: str) -> None:
    tables = document.get("at")
    *path, last = key.split(".")
    for place in tables.values() if isinstance(tables, dict) else ():
        for part in path:
            place = place.get(part) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(last, None)


def parse_setting(text: str) -> tuple[str, Any]:
    """`key=value` with the value as in TOML; a bare word is a string. Raises InputError."""
    key, equals, value = text.partition("=")
    if fault := SETTING.fault(len(text)) or TOML_DEPTH.fault(key.count(".")):
        raise InputError(f"--set {key[:40]}: {fault}")
    if not equals or not key.strip():
        raise InputError(f"--set {text!r}: write key=value, e.g. training.micro_batch=4")
    if fault := control_in(text):
        raise InputError(f"--set {key}: {fault}")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        parsed = value.strip()
    try:
        refuse_unfit(parsed)
    except ValueError as error:
        raise InputError(f"--set {key}: {error}") from None
    if isinstance(parsed, float) and not math.isfinite(parsed):
        raise InputError(f"--set {key}: got {value}; allowed: a finite number")
    return key.strip(), parsed
