"""Keys of scenarios as axes of a study: what they hold, and what they are at a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from simfrontier.base.units import unit_of
from simfrontier.inputs.scenario import Scenario, ScenarioKey, path_of, scenario_keys

Settings: TypeAlias = Mapping[str, Any]  # of a point: dotted key → value


@cache
def _known() -> Mapping[str, ScenarioKey]:
    return {key.name: key for key in scenario_keys()}


def key_names() -> list[str]:
    """The names of all keys that filters may have, for messages."""
    return ["scenario", *_known()]


def is_whole(key: str) -> bool:
    """Return whether a key holds a whole number."""
    if _is_of_a_file(path_of(key)):
        return unit_of(key) == "count"
    form = _form_of(key)
    return form is not None and form.is_whole


def put(settings: Settings) -> dict[str, Any]:
    """Return settings as a scenario takes them: a key that holds a list may be given one entry of it."""
    return {
        key: [value] if not isinstance(value, list) and (form := _form_of(key)) is not None and form.is_list else value
        for key, value in settings.items()
    }


def _form_of(key: str) -> ScenarioKey | None:
    parts = _at_any_size(key)
    if parts[0] == "plans" and len(parts) > 2:
        parts = ["plans", "NAME", *parts[2:]]
    return _known().get(".".join(parts))


def is_of_plan(key: str, plan: str) -> bool:
    """Return whether a setting is one of a plan: all are, except those of another plan alone."""
    parts = _at_any_size(key)
    return parts[0] != "plans" or len(parts) < 3 or parts[1] in ("*", plan)


def _at_any_size(key: str) -> list[str]:
    """The parts of a key, without the size that `at.SIZE.` is for."""
    parts = key.split(".")
    return parts[2:] if parts[0] == "at" and len(parts) > 2 else parts


def value_of(scenario: Scenario, settings: Settings, key: str) -> Any:
    """Return what a key is at a point: as set, as the scenario says, or its default. Raises KeyError where there is
    none."""
    path = path_of(key)
    of_plan = path[0] == "plans" and len(path) > 2
    same = (key, ".".join(("plans", "*", *path[2:]))) if of_plan else (key,)
    for name in reversed(list(settings)):  # of two that set it, the last one does
        if name in same:
            return _plain(settings[name])
    if key == "scenario":
        return scenario.name
    if of_plan:
        return _followed(scenario.plans[path[1]], path[2:], key)
    if _is_of_a_file(path):
        thing = scenario.machine if path[0] == "machine" else scenario.library
        return {each.key: each.value for each in thing.provenance()}[path[2]]
    return _followed(scenario.file, path, key)


def _followed(value: Any, path: Sequence[str], key: str) -> Any:
    """What stands at a path of a table."""
    for part in path:
        fields = getattr(type(value), "model_fields", None) or getattr(type(value), "__dataclass_fields__", {})
        if part not in fields:
            raise KeyError(key)
        value = getattr(value, part)
    if value is None or isinstance(value, bool | int | float | str | list | tuple):
        return "" if value is None else _plain(value)
    raise KeyError(key)


def _is_of_a_file(path: Sequence[str]) -> bool:
    """Whether a key is a number of the file of a machine or a library."""
    return len(path) == 3 and path[0] in ("machine", "library") and path[1] == "overrides"


def _plain(value: Any) -> Any:
    """A value as filters see it: the one entry of a list of one."""
    if isinstance(value, list | tuple):
        return value[0] if len(value) == 1 else list(value)
    return value
