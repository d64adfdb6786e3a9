"""Check of the values of axes on a scenario of the study, each by itself, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simfrontier.answers.sweep.axes import Axis
from simfrontier.answers.sweep.keys import Settings, put
from simfrontier.base.errors import InputError, dotted, shown
from simfrontier.inputs.scenario import path_of, scenario_of

MOST_TRIED: Final = 64  # values of an axis that are all tried; of more numbers the ends, between which all are alike


def refuse_values(axes: Sequence[Axis], document: Mapping[str, Any], where: str, settings: Settings) -> None:
    """Raise InputError for a value of an axis that a scenario takes neither by itself nor beside the first values of
    the other axes. Only its form is looked at: what goes wrong at a size or with other values is a matter of points."""
    first = {key: value for axis in axes for key, value in zip(axis.keys, axis.rows[0], strict=True)}
    for axis in axes:
        for number in _tried(axis):
            alone = dict(zip(axis.keys, axis.rows[number], strict=True))
            fault = _fault(document, where, {**settings, **alone})
            if fault is not None and _fault(document, where, {**settings, **first, **alone}) is not None:
                raise _told(fault, axis, number, where)


def _fault(document: Mapping[str, Any], where: str, settings: Settings) -> InputError | None:
    try:
        scenario_of(document, where, put(settings), laid_out=False)
    except InputError as error:
        return error
    return None


def _told(fault: InputError, axis: Axis, number: int, where: str) -> InputError:
    """The fault of a value at its place in the study."""
    got = ", ".join(f"{key} = {shown(value)}" for key, value in zip(axis.keys, axis.rows[number], strict=True))
    place = ("sampling",) if axis.number is None else ("axes", axis.number)
    inner = fault.outside(where)
    is_same = not inner.where and any(dotted(path_of(key)) == dotted(inner.key) for key in axis.keys)
    return InputError(f"value {number + 1}, {got}, in {where}: {inner.what if is_same else inner}", key=place)


def _tried(axis: Axis) -> list[int]:
    """The numbers of the rows that are tried: all, or of many one with each text, and those with the smallest and the
    largest number of each key."""
    if axis.count <= MOST_TRIED:
        return list(range(axis.count))
    chosen = {0}
    for values in zip(*axis.rows, strict=True):
        numbers = [(each, at) for at, each in enumerate(values) if type(each) in (int, float)]
        others = {repr(each): at for at, each in enumerate(values) if type(each) not in (int, float)}
        chosen |= {*others.values(), *(at for _, at in (numbers and (min(numbers), max(numbers))))}
    return sorted(chosen)
