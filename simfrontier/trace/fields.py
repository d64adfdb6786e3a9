"""JSON files of a known form: written whole, and read so that every fault is one InputError naming file and place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Never, TypeVar, cast

from simfrontier.errors import InputError, nearest
from simfrontier.limits import TRACE_FILE, FileLimit
from simfrontier.plaintext import escape_in
from simfrontier.wholefile import write_whole

_Made = TypeVar("_Made")
MAX_NUMBER: Final = 1e30  # far beyond anything measured, and far from where floats end
_LONGEST: Final = 40  # of a wrong value that is shown


class Fault(Exception):
    """What is wrong, and where in the file."""


def write_json(value: object, path: Path) -> None:
    """Write a file by way of a neighbour that is renamed. Raises InputError where it cannot be written."""
    write_whole(path, json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n")


def read_json(path: Path, what: str, made: Callable[[object], _Made], limit: FileLimit = TRACE_FILE) -> _Made:
    """What `made` makes of the file's value; it raises Fault. Raises InputError: file, place, fault."""
    try:
        text = limit.text(path)
        if fault := escape_in(text):
            raise ValueError(fault)
        value: object = json.loads(text, parse_constant=_no_constant)
    except OSError as error:
        raise InputError(f"{path}: cannot read this {what}: {error.strerror or error}") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno} column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{path}: not a {what}: nested too deeply") from None
    except ValueError as error:  # no UTF-8, NaN, a number of thousands of digits, or too large a file
        raise InputError(f"{path}: not a {what}: {error}") from None
    try:
        return made(value)
    except Fault as fault:
        raise InputError(f"{path}: {fault}") from None


def mapping_of(value: object, place: str, keys: Sequence[str]) -> Mapping[str, object]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise Fault(f"{place}: {shown(value)} is not an object")
    found = cast("dict[str, object]", value)
    for key in found:
        if key not in keys:
            raise Fault(f"{place}: unknown key {shown(key)}; {nearest(key, keys)}")
    for key in keys:
        if key not in found:
            raise Fault(f"{place}: key {key!r} is missing")
    return found


def list_of(values: Mapping[str, object], key: str, place: str) -> Sequence[object]:
    value = values[key]
    if not isinstance(value, list):
        raise Fault(f"{place}.{key}: {shown(value)} is not a list")
    return cast("list[object]", value)


def text_of(values: Mapping[str, object], key: str, place: str) -> str:
    value = values[key]
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Fault(f"{place}.{key}: {shown(value)} is not a text")
    return value


def number_of(
    values: Mapping[str, object], key: str, place: str, least: float = 0.0, most: float = MAX_NUMBER
) -> float:
    """A finite number from `least` to `most`. An int of JSON may be longer than any float: it is compared first."""
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fault(f"{place}.{key}: {shown(value)} is not a number")
    if not least <= value <= most:
        raise Fault(f"{place}.{key}: {shown(value)} is out of range; allowed: {least:g} to {most:g}")
    return float(value)


def _no_constant(text: str) -> Never:
    raise ValueError(f"{text} is not a number")


def shown(value: object) -> str:
    """A wrong value, cut where it is long."""
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        return "something too deep or too long to show"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
