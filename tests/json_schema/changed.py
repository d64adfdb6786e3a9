"""Documents with one thing changed: a key that is missing, misspelt or unknown, a value of another type, beyond its
bounds or not quite a name, or one from another place of the document."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from typing import Any, Final

Path = tuple[str | int, ...]
KEYS: Final = ("x", "name", "base", "family", "source", "kind", "search", "devices", "data", "levels", "stack")
VALUES: Final = (
    *(0, -1, 1, 1.5, 2**70, -0.5, 1e40, 1e-40, math.inf, True, "", "x", "frontier", "zero3", "a.toml", "two\nlines"),
    *([], [1], ["x"], {}, {"x": 1}),
    {"value": 1.0, "kind": "quoted", "source": "s"},
    {"value": 1.0, "kind": "quoted", "source": "s", "low": 0.5},
    {"value": -1.0, "kind": "guess", "source": "s"},
)
WAYS: Final = ("missing", "misspelt", "value", "unknown", "near", "moved")


def changed(document: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], str]:
    """The document with one change, and which it is."""
    while True:
        new = copy.deepcopy(document)
        *path, key = rng.choice(list(_places(new)))
        way, parent = rng.choice(WAYS), _at(new, path)
        if _change(new, parent, key, way, rng):
            return new, f"{way} {'.'.join(map(str, (*path, key)))}"


def _change(new: dict[str, Any], parent: Any, key: Any, way: str, rng: random.Random) -> bool:
    """Change what is at a key; whether that was possible."""
    if way == "missing":
        del parent[key]
    elif way == "misspelt" and isinstance(key, str):
        place = rng.randrange(len(key))
        parent[key[:place] + rng.choice(("", "q")) + key[place + 1 :]] = parent.pop(key)
    elif way == "value":
        parent[key] = copy.deepcopy(rng.choice(VALUES))
    elif way == "unknown":
        table = parent if isinstance(parent, dict) else new
        table[rng.choice(KEYS)] = copy.deepcopy(rng.choice(VALUES))
    elif way == "moved":
        parent[key] = copy.deepcopy(_at(new, rng.choice(list(_places(new)))))
    elif way == "near" and isinstance(parent[key], str | int | float):
        parent[key] = _near(parent[key], rng)
    else:
        return False
    return True


def _near(value: str | float | bool, rng: random.Random) -> object:
    if isinstance(value, str):
        return rng.choice((value[:-1], value + "z", value.upper()))
    if isinstance(value, bool):
        return not value
    return rng.choice((-value, value * 1e6, value + 0.5, float(value), value * 10**20))


def _places(part: Any) -> Iterator[Path]:
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        yield (key,)
        yield from ((key, *path) for path in _places(value))


def _at(part: Any, path: Any) -> Any:
    for key in path:
        part = part[key]
    return part
