"""Discovery of extras: subpackages of `simfrontier_extras`, which add features without being named in the core.

An extra adds objects with a module of a fixed name that has a tuple `ADDS`, such as `verbs.py` with objects of type
`Verb`. The module is imported only when the objects are needed. docs/architecture.md lists the module names and types.
"""

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
    """A verb of the command line: the function that typer turns into a subcommand, and the verb's name if it differs
    from the function's."""

    function: Callable[..., None]
    name: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A line in the report of `simfrontier doctor`: `run` returns the name of what it checked, whether that works, and
    the finding."""

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
    """Return the objects that all extras add in their modules called `module` (dotted within the extra: `real.verbs`),
    with the extras in alphabetical order. Raises TypeError for an object that is not of type `kind`."""
    values = [value for name in extras() for value in _adds(name, module)]
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{PACKAGE}: {module}.ADDS: got {value!r}; allowed: values of {kind.__name__}")
    return tuple(values)


@cache
def _adds(name: str, module: str) -> tuple[Any, ...]:
    """Return the tuple `ADDS` of an extra's module; () if the extra has no such module."""
    full = f"{PACKAGE}.{name}.{module}"
    try:
        spec = find_spec(full)
    except ModuleNotFoundError:  # no such folder
        return ()
    return () if spec is None else tuple(import_module(full).ADDS)
