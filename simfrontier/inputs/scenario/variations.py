"""Machine and library with numbers that are arrays over variations, derived by loading the scenario at both ends of
each axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library
from simfrontier.core.machine import Machine
from simfrontier.inputs.scenario.load import scenario_of
from simfrontier.inputs.scenario.scenario import Scenario
from simfrontier.inputs.scenario.settings import NUMBER_TABLES

APART: Final = ("at", "published", "sensitivity", "slowdown")  # say nothing of machine and library
CLOSE: Final = 1e-12  # relative distance at which two numbers are one but for rounding
Place = tuple[str | int, ...]  # of a number in a machine or a library


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedNumbers:
    """Machine and library of a scenario in which the numbers that vary are arrays [num_variations]; the first variation
    is the scenario itself."""

    num_variations: int
    machine: Machine
    library: Library


def varied_numbers(scenario: Scenario, axes: Mapping[str, Floats]) -> VariedNumbers:
    """Return the machine and library of a scenario under settings that are arrays [num_variations] each.

    The scenario's loader is run with the smallest and the largest value of each axis in turn. A number that then equals
    the setting itself varies with it; so does a number proportional to the setting, or to its inverse, whatever else
    the number depends on. Raises InputError for keys outside `NUMBER_TABLES`, for a value that the loader refuses, and
    if anything other than numbers of these kinds changes: a count, a route, a rule.
    """
    lengths = {len(values) for values in axes.values()}
    if not lengths or 0 in lengths:
        raise InputError("axes of what-ifs: got no values; allowed: at least one axis with at least one value")
    if len(lengths) > 1:
        raise InputError(f"axes of what-ifs: got {sorted(lengths)} values; allowed: equally many on each axis")
    found: dict[Place, Floats] = {}
    own: dict[Place, str] = {}
    for key, values in axes.items():
        for place, each in _of_axis(scenario, key, values).items():
            if place in own and (each[1] or own[place] == "itself"):
                raise InputError(f"{key}: another axis sets {_text(place)} already; allowed: one of them")
            own[place] = "itself" if each[1] else "factor"
            found[place] = each[0] if each[1] or place not in found else found[place] * each[0]
    both = scenario.machine, scenario.library
    numbers = {}
    for place, values in found.items():
        base = float(_at(both, place))
        numbers[place] = np.concatenate([[base], values if own[place] == "itself" else base * values])
    _hold(scenario, axes, numbers)
    machine, library = _put_in(both, numbers)
    return VariedNumbers(num_variations=lengths.pop() + 1, machine=machine, library=library)


def with_numbers(scenario: Scenario, settings: Mapping[str, float]) -> Scenario:
    """Return the scenario with other settings, and without the tables that do not concern its machine and library."""
    kept = {name: table for name, table in scenario.document.items() if name not in APART}
    made = scenario_of(kept, scenario.where, settings, laid_out=False)
    return made.of(next(iter(scenario.plans)), scenario.file.run.devices[0])


def _of_axis(scenario: Scenario, key: str, values: Floats) -> dict[Place, tuple[Floats, bool]]:
    """Return, for each number that a setting changes, either the number's values or factors on the number, by
    variation, and which of the two they are."""
    if not key.startswith(NUMBER_TABLES):
        keys = ", ".join(f"{table}KEY" for table in NUMBER_TABLES)
        raise InputError(f"{key}: not a number that what-ifs can vary; allowed: {keys}, or a simulation")
    if not np.isfinite(values).all():
        raise InputError(f"{key}: got values that are not finite numbers; allowed: finite ones")
    seen: dict[float, dict[Place, tuple[Any, Any]]] = {}
    both = scenario.machine, scenario.library
    for value in dict.fromkeys((float(values.min()), float(values.max()))):
        other = with_numbers(scenario, {key: value})
        seen[value] = {place: pair for place, *pair in _differing(both, (other.machine, other.library))}  # type: ignore[misc]
    places = dict.fromkeys(place for changes in seen.values() for place in changes)
    if not all(isinstance(each, float) for changes in seen.values() for pair in changes.values() for each in pair):
        odd = next(place for changes in seen.values() for place, pair in changes.items() if not _floats(pair))
        raise InputError(f"{key}: changes {_text(odd)}, which is no number that what-ifs can vary; simulate it")
    is_own = {
        place: all(_is_close(pair[1], v) for v, ch in seen.items() for p, pair in ch.items() if p == place)
        for place in places
    }
    base = next((float(_at(both, place)) for place, itself in is_own.items() if itself), None)
    out = {}
    for place, itself in is_own.items():
        power = 0 if itself else _power(base, {v: ch[place] for v, ch in seen.items() if place in ch})
        if not itself and not power:
            raise InputError(f"{key}: changes {_text(place)} by a law that what-ifs do not know; simulate it")
        out[place] = (values, True) if itself else ((values / base) ** power, False)  # type: ignore[operator]
    return out


def _power(base: float | None, pairs: Mapping[float, tuple[float, float]]) -> int:
    """Return 1 if a number is proportional to a setting, -1 if inversely proportional, else 0."""
    if not base:
        return 0
    for power in (1, -1):
        if all(_is_close(new, old * (value / base) ** power) for value, (old, new) in pairs.items()):
            return power
    return 0


def _hold(scenario: Scenario, axes: Mapping[str, Floats], numbers: Mapping[Place, Floats]) -> None:
    """Raise InputError if these numbers differ from those of the loader when the settings of all axes change
    together."""
    last = with_numbers(scenario, {key: float(values[-1]) for key, values in axes.items()})
    changed = [place for place, *_ in _differing((scenario.machine, scenario.library), (last.machine, last.library))]
    for place in dict.fromkeys([*changed, *numbers]):
        new = _at((last.machine, last.library), place)
        if place not in numbers or not _is_close(new, float(numbers[place][-1])):
            raise InputError(f"{_text(place)} depends on several axes in a way that what-ifs do not know; simulate it")


def _differing(one: Any, other: Any, place: Place = ()) -> Iterator[tuple[Place, Any, Any]]:
    """Yield the leaves in which two nested values differ, except in their sources, as (place, one, other)."""
    if one is other or one == other:
        return
    if is_dataclass(one) and type(one) is type(other):
        for field in fields(one):
            if field.name not in ("sources", "residual"):
                yield from _differing(getattr(one, field.name), getattr(other, field.name), (*place, field.name))
    elif isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        for key in one:
            yield from _differing(one[key], other[key], (*place, key))
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from _differing(*pair, (*place, number))
    else:
        yield place, one, other


def _at(value: Any, place: Place) -> Any:
    for part in place:
        value = getattr(value, str(part)) if is_dataclass(value) else value[part]
    return value


def _put_in(value: Any, numbers: Mapping[Place, Any]) -> Any:
    """Return a nested value in which the numbers at the given places are replaced."""
    if () in numbers:
        return numbers[()]
    by_part: dict[str | int, dict[Place, Any]] = {}
    for place, number in numbers.items():
        by_part.setdefault(place[0], {})[place[1:]] = number
    if is_dataclass(value):
        changed = {str(part): _put_in(getattr(value, str(part)), inner) for part, inner in by_part.items()}
        return replace(value, **changed)  # type: ignore[type-var]
    if isinstance(value, Mapping):
        return {key: _put_in(each, by_part[key]) if key in by_part else each for key, each in value.items()}
    return tuple(_put_in(each, by_part[n]) if n in by_part else each for n, each in enumerate(value))


def _floats(pair: tuple[Any, Any]) -> bool:
    return all(isinstance(each, float) for each in pair)


def _is_close(one: Any, other: Any) -> bool:
    return isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=CLOSE)


def _text(place: Place) -> str:
    return ".".join(map(str, (("machine", "library")[int(place[0])], *place[1:])))
