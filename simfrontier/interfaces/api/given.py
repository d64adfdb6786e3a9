"""Validation of arguments of the Python API: one line that states what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from operator import index
from pathlib import Path
from typing import Annotated, Any, get_args

from annotated_types import Ge, Le
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from simfrontier.base.errors import InputError, nearest, wrong
from simfrontier.base.workers import PROCESSES
from simfrontier.core.engine import Fidelity


def _whole(value: Any) -> int:
    """Return a whole number, also one of numpy's."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError("not a whole number")
    return index(value)


Whole = Annotated[int, BeforeValidator(_whole)]
Settings = Mapping[str, Any]
PLANS = 'names of plans, every one once, e.g. plans=["zero3", "zero-topo"], or a dict of plans by name'


def argument(value: Any, form: Any, where: str, allowed: str) -> Any:
    """Return an argument in its form. Raises InputError."""
    try:
        return _adapter(form).validate_python(value, strict=True)
    except ValidationError:
        raise InputError(wrong(value, allowed), where=where) from None


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def sizes(value: Any) -> tuple[int, ...]:
    """Return numbers of devices, also a single one."""
    several = value if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else (value,)
    allowed = "numbers of devices, e.g. devices=[8, 64, 384]"
    return tuple(argument(each, Whole, "devices", allowed) for each in several)


def size(value: Any) -> int | None:
    """Return a number of devices, or None."""
    return argument(value, Whole | None, "devices", "one number of devices, e.g. devices=64")  # type: ignore[no-any-return]


def count(where: str, value: Any) -> int:
    """Return a number of at least 1."""
    return argument(value, Annotated[Whole, Ge(1)], where, "a whole number of at least 1")  # type: ignore[no-any-return]


def jobs(value: Any) -> int:
    """Return a number of processes."""
    form = Annotated[Whole, Ge(1), Le(PROCESSES.most)]
    return argument(value, form, "jobs", f"at least 1, up to {PROCESSES.most:,} processes")  # type: ignore[no-any-return]


def names(value: Any) -> tuple[str, ...]:
    """Return names of plans, also a single one."""
    found = (value,) if isinstance(value, str) else tuple(argument(value, Iterable[str], "plans", PLANS))
    if any("," in each for each in found) or len(set(found)) < len(found):
        raise InputError(wrong(value, PLANS), where="plans")
    return found


def name(value: Any, where: str = "plan") -> str | None:
    """Return the name of a plan, or None."""
    return argument(value, str | None, where, 'the name of one plan, e.g. "zero3"')  # type: ignore[no-any-return]


def settings(value: Any) -> Settings:
    """Return values by dotted key."""
    return argument(value, Settings, "settings", 'a dict of dotted keys, e.g. {"training.grad_accum": 4}')  # type: ignore[no-any-return]


def fidelity(value: Any) -> Fidelity | None:
    """Return how closely is simulated, or None."""
    if value is not None and value not in get_args(Fidelity):
        raise InputError(f"got {value!r}; {nearest(str(value), get_args(Fidelity))}", where="fidelity")
    return value  # type: ignore[no-any-return]


def path(value: Any, where: str, allowed: str) -> Path:
    """Return the path of a file."""
    if isinstance(value, str | Path) and str(value):
        return Path(value)
    raise InputError(wrong(value, allowed), where=where)
