"""Keys of scenarios as axes of a study: what they hold, whether their values are allowed, and what they are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from simfrontier.errors import InputError, dotted, shown
from simfrontier.scenario import Scenario, ScenarioKey, path_of, scenario_keys, scenario_of
from simfrontier.sweep.axes import Axis, Settings
from simfrontier.sweep.form import Value
from simfrontier.units import unit_of

MOST_TRIED = 64  # numbers of an axis that are all tried by themselves; of more the ends, between which all are alike


class KeyForms:
    """What the keys of scenario files hold."""

    @cached_property
    def _known(self) -> Mapping[str, ScenarioKey]:
        return {key.name: key for key in scenario_keys()}

    def is_whole(self, key: str) -> bool:
        """Whether a key holds a whole number."""
        if _is_of_a_file(path_of(key)):
            return unit_of(key) == "count"
        form = self._of(key)
        return form is not None and form.is_whole

    def put(self, settings: Settings) -> dict[str, Any]:
        """Settings as a scenario takes them: a key that holds a list may be given one entry of it."""
        return {
            key: [value] if not isinstance(value, list) and self._is_list(key) else value
            for key, value in settings.items()
        }

    def names(self) -> list[str]:
        """The names of all keys, for messages."""
        return ["scenario", *self._known]

    def _is_list(self, key: str) -> bool:
        form = self._of(key)
        return form is not None and form.is_list

    def _of(self, key: str) -> ScenarioKey | None:
        parts = key.split(".")
        if parts[0] == "at" and len(parts) > 2:
            parts = parts[2:]
        if parts[0] == "plans" and len(parts) > 2:
            parts = ["plans", "NAME", *parts[2:]]
        return self._known.get(".".join(parts))


def is_of_plan(key: str, plan: str) -> bool:
    """Whether a setting is one of a plan: all are, except those of another plan alone."""
    parts = key.split(".")
    parts = parts[2:] if parts[0] == "at" and len(parts) > 2 else parts
    return parts[0] != "plans" or len(parts) < 3 or parts[1] in ("*", plan)


def refuse_values(
    axes: Sequence[Axis], document: Mapping[str, Any], where: str, settings: Settings, forms: KeyForms
) -> None:
    """Raise InputError for a value of an axis that a scenario takes neither by itself nor beside the first values of
    the other axes. Only its form is looked at: what goes wrong at a size or with other values is a matter of points."""
    first = {key: value for axis in axes for key, value in zip(axis.keys, axis.at(0), strict=True)}
    for axis in axes:
        for number, row in _tried(axis):
            alone = dict(zip(axis.keys, row, strict=True))
            fault = _fault(document, where, {**settings, **alone}, forms)
            if fault is not None and _fault(document, where, {**settings, **first, **alone}, forms) is not None:
                raise _said(axis, number, row, fault, where)


def _fault(document: Mapping[str, Any], where: str, settings: Settings, forms: KeyForms) -> InputError | None:
    try:
        scenario_of(document, where, forms.put(settings), laid_out=False)
    except InputError as error:
        return error
    return None


def _said(axis: Axis, number: int, row: tuple[Value, ...], fault: InputError, where: str) -> InputError:
    """The fault of a value, told at its place in the study."""
    got = ", ".join(f"{key} = {shown(value)}" for key, value in zip(axis.keys, row, strict=True))
    place = ("sampling",) if axis.number is None else ("axes", axis.number)
    inner = fault.outside(where)
    same = dotted(inner.key) in axis.keys or any(dotted(path_of(key)) == dotted(inner.key) for key in axis.keys)
    told = inner.what if same and not inner.where else str(inner)
    return InputError(f"value {number + 1}, {got}, in {where}: {told}", key=place)


def _tried(axis: Axis) -> list[tuple[int, tuple[Value, ...]]]:
    """The rows of an axis that are tried, with their numbers: all, or of many numbers the smallest and the largest of
    each key."""
    if axis.count <= MOST_TRIED:
        return list(enumerate(axis.rows()))
    if axis.is_long:
        return [(number, axis.at(number)) for number in (0, axis.count - 1)]
    chosen = {0: axis.at(0)}
    for place in range(len(axis.keys)):
        ends: dict[str, tuple[float, int]] = {}
        texts: set[str] = set()
        for number, row in enumerate(axis.rows()):
            value = row[place]
            if isinstance(value, int | float) and not isinstance(value, bool):
                ends["low"] = min(ends.get("low", (value, number)), (value, number))
                ends["high"] = max(ends.get("high", (value, number)), (value, number))
            elif (text := repr(value)) not in texts:
                texts.add(text)
                chosen[number] = row
        chosen |= {number: axis.at(number) for _, number in ends.values()}
    return sorted(chosen.items())


def value_of(scenario: Scenario, settings: Settings, key: str) -> Any:
    """What a key is at a point: as set, as the scenario says, or its default. Raises KeyError where there is none."""
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
