"""Argument validation of the Python API: one line that states what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from simfrontier.base.errors import InputError, nearest, wrong
from simfrontier.base.workers import PROCESSES

if TYPE_CHECKING:
    from simfrontier.core.engine import Fidelity

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
    from simfrontier.core.engine import Fidelity

    if given is None or given in get_args(Fidelity):
        return given  # type: ignore[no-any-return]
    raise InputError(f"got {given!r}; {nearest(str(given), get_args(Fidelity))}", where="fidelity")


def path(given: Any, name: str, allowed: str) -> Path:
    """The path of a file."""
    if isinstance(given, str | Path) and str(given):
        return Path(given)
    raise InputError(wrong(given, allowed), where=name)
