"""Extras: folders of the package `simfrontier_extras`, which add to the core without being named in it.

An extra adds something by a module of a fixed name with a tuple `ADDS`, such as `verbs.py` with values of `Verb`. The
module is imported when what it adds is asked for, and no sooner. docs/architecture.md lists the names and types."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

PACKAGE: Final = "simfrontier_extras"
Added = TypeVar("Added")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb of a command line: the function that typer makes it of, and its name if not the function's."""

    function: Callable[..., None]
    name: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A line of `simfrontier doctor`: `run` gives what was looked at, whether it works, and what was found."""

    run: Callable[[], tuple[str, bool, str]]


@cache
def extras() -> tuple[str, ...]:
    """Return the names of all extras, in alphabetical order."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.submodule_search_locations is None:
        return ()
    found = pkgutil.iter_modules(import_module(PACKAGE).__path__)
    return tuple(sorted(module.name for module in found if module.ispkg))


def added(module: str, kind: type[Added]) -> tuple[Added, ...]:
    """Return the values that extras add in their modules of that name (dotted below the extra: `real.verbs`), extra by
    extra in alphabetical order. Raises TypeError for a value that is not of type `kind`."""
    values = [value for name in extras() for value in _adds(name, module)]
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{PACKAGE}: {module}.ADDS: got {value!r}; allowed: values of {kind.__name__}")
    return tuple(values)


@cache
def _adds(name: str, module: str) -> tuple[Any, ...]:
    """Return `ADDS` of one extra's module; empty if it has no such module."""
    full = f"{PACKAGE}.{name}.{module}"
    try:
        spec = find_spec(full)
    except ModuleNotFoundError:  # no such folder
        return ()
    return () if spec is None else tuple(import_module(full).ADDS)
