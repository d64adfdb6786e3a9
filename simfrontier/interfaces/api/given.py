"""Validation of arguments of the Python API; an error is one line that states the allowed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

from annotated_types import Ge, Le
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from simfrontier.base.errors import InputError, nearest, shown, wrong
from simfrontier.base.workers import PROCESSES
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.scenario import split_plans


def _whole(value: Any) -> int:
    """Return an integer as int; integers of numpy are accepted."""
    if isinstance(value, bool):
        raise ValueError("not a whole number")
    try:
        return index(value)
    except TypeError:
        raise ValueError("not a whole number") from None


T = TypeVar("T")
Settings = Mapping[str, Any]
Whole = Annotated[int, BeforeValidator(_whole)]
SIZE: Final = TypeAdapter[int | None](Whole | None)
SIZES: Final = TypeAdapter[tuple[int, ...]](tuple[Whole, ...])
NODES: Final = TypeAdapter[tuple[int, ...]](tuple[Annotated[Whole, Ge(1)], ...])
COUNT: Final = TypeAdapter[int](Annotated[Whole, Ge(1)])
JOBS: Final = TypeAdapter[int](Annotated[Whole, Ge(1), Le(PROCESSES.most)])
TEXT: Final = TypeAdapter[str](str)
NAME: Final = TypeAdapter[str | None](str | None)
FLAG: Final = TypeAdapter[bool](bool)
NUMBER: Final = TypeAdapter[float | None](float | None)
NAMES: Final = TypeAdapter[tuple[str, ...]](tuple[str, ...])


def argument(form: TypeAdapter[T], value: Any, where: str, allowed: str) -> T:
    """Validate an argument and convert it to the type of `form`; a single value is accepted where several are allowed.
    Raises InputError with `where` (the argument's name) and the `allowed` values."""
    try:
        return form.validate_python(_several(value) if form in (SIZES, NODES, NAMES) else value, strict=True)
    except ValidationError:
        raise InputError(wrong(value, allowed), where=where) from None


def _several(value: Any) -> Any:
    """Return the values of any iterable as a tuple; a single value is returned as it is."""
    return (value,) if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) else tuple(value)


def sizes(value: Any) -> tuple[int, ...]:
    """Return numbers of devices as a tuple, empty for None; a single number is accepted."""
    return argument(SIZES, () if value is None else value, "devices", "numbers of devices, e.g. devices=[8, 64, 384]")


def nodes(value: Any) -> tuple[int, ...]:
    """Return numbers of nodes as a tuple, empty for None; a single number is accepted."""
    return argument(NODES, () if value is None else value, "nodes", "numbers of nodes, e.g. nodes=[1, 8, 48]")


def refuse_both(devices: int | tuple[int, ...] | None, nodes: int | tuple[int, ...] | None) -> None:
    """Raise InputError for sizes in devices and in nodes."""
    if devices and nodes:
        raise InputError(f"got {shown(nodes)} beside devices; allowed: one of the two", where="nodes")


def size(value: Any) -> int | None:
    """Return a number of devices, or None. Raises InputError for any other value."""
    return argument(SIZE, value, "devices", "one number of devices, e.g. devices=64")


def count(where: str, value: Any) -> int:
    """Return an integer of at least 1. Raises InputError for any other value."""
    return argument(COUNT, value, where, "a whole number of at least 1")


def jobs(value: Any) -> int:
    """Return a number of processes."""
    return argument(JOBS, value, "jobs", f"at least 1, up to {PROCESSES.most:,} processes")


def names(value: Any) -> tuple[str, ...]:
    """Return plans, by name or in words, as a tuple without duplicates; a text may have several."""
    allowed = 'plans, every one once, e.g. plans=["zero3", "tp 8 pp 2"], or a dict of plans by name'
    found = split_plans(value) if isinstance(value, str) else argument(NAMES, value, "plans", allowed)
    if len(set(found)) < len(found):
        raise InputError(wrong(value, allowed), where="plans")
    return found


def name(value: Any, where: str = "plan", allowed: str = 'the name of one plan, e.g. "zero3"') -> str | None:
    """Return a name, by default that of a plan, or None."""
    return argument(NAME, value, where, allowed)


def machine(value: Any) -> str:
    """Return the name of a machine, or the path of its file."""
    return argument(TEXT, value, "machine", 'the name of a machine, e.g. "frontier"')


def flag(value: Any, where: str) -> bool:
    """Return a switch. Raises InputError for any other value, such as a text."""
    return argument(FLAG, value, where, "True or False")


def number(value: Any, where: str, allowed: str) -> float | None:
    """Return a number, or None."""
    return argument(NUMBER, plain(value), where, allowed)


def plain(value: Any) -> Any:
    """Return a number or an array of numpy or pandas as Python's own, any other value unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value


def settings(value: Any, batch: Any = None) -> Settings:
    """Return settings as a mapping from dotted key to value, with that of the batch of a step unless it is None."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        wanted = value if batch is None else {**value, "training.batch": batch}
        return {key: plain(each) for key, each in wanted.items()}
    raise InputError(wrong(value, 'a dict of dotted keys, e.g. {"training.grad_accum": 4}'), where="settings")


def fidelity(value: Any) -> Fidelity | None:
    """Return a fidelity of the simulation, or None. Raises InputError for any other value."""
    if value is not None and value not in get_args(Fidelity):
        raise InputError(f"got {value!r}; {nearest(str(value), get_args(Fidelity))}", where="fidelity")
    return value  # type: ignore[no-any-return]


def path(value: Any, where: str, allowed: str) -> Path:
    """Return the path of a file."""
    if isinstance(value, str | Path) and str(value):
        return Path(value)
    raise InputError(wrong(value, allowed), where=where)
