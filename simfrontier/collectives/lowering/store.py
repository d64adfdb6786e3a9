"""The stored form of a lowered schedule: JSON, recipes that repeat once, files that are never half-written."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Final, Never

from simfrontier.collectives.lowering.program import LoweredSchedule
from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.errors import InputError, nearest
from simfrontier.jsontext import unique_pairs
from simfrontier.limits import LOWERED_FILE
from simfrontier.plaintext import escape_in
from simfrontier.schedule.algorithms import ALGORITHMS
from simfrontier.wholefile import write_whole

FORMAT: Final = "simfrontier.lowered"
VERSION: Final = 1
KEYS: Final = ("format", "version", "digest", "recipes", "collectives")
RECIPE_KEYS: Final = ("algorithm", "orders", "per_node", "slices", "least_elements")


def save_lowered(lowered: LoweredSchedule, path: Path) -> None:
    """Write the JSON (and a newline); the file is there as a whole or not at all. Raises InputError."""
    write_whole(path, to_json(lowered) + "\n")


def load_lowered(path: Path) -> LoweredSchedule:
    """The lowered schedule of a file; raises InputError with the file and the place in it."""
    try:
        text = LOWERED_FILE.text(path)
        if fault := escape_in(text):
            raise ValueError(fault)
        value = json.loads(text, object_pairs_hook=unique_pairs)
    except OSError as error:
        raise InputError(f"{path}: cannot read the lowered schedule: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a lowered schedule: byte {error.start} is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno} column {error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{path}: not a lowered schedule: nested too deeply") from error
    except ValueError as error:  # a key that stands twice, a number of more digits than Python reads, too large a file
        raise InputError(f"{path}: not a lowered schedule: {str(error).partition(';')[0]}") from error
    return _Reader(path).lowered(value)


def to_json(lowered: LoweredSchedule) -> str:
    """Canonical: keys sorted; every recipe once, in the order in which the collectives' groups first use it."""
    number: dict[Recipe, int] = {}
    collectives = [[number.setdefault(recipe, len(number)) for recipe in groups] for groups in lowered.recipes]
    recipes = [asdict(recipe) for recipe in number]
    form = {
        "collectives": collectives,
        "digest": lowered.digest,
        "format": FORMAT,
        "recipes": recipes,
        "version": VERSION,
    }
    return json.dumps(form, sort_keys=True, separators=(",", ":"))


class _Reader:
    """Turns parsed JSON into values of the right types, or raises InputError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lowered(self, value: object) -> LoweredSchedule:
        form = self._object(value, KEYS, "")
        if form["format"] != FORMAT:
            self._fail("format", form["format"], f'"{FORMAT}"')
        if form["version"] != VERSION or isinstance(form["version"], bool):
            self._fail("version", form["version"], f"{VERSION}, the one that this simfrontier reads")
        digest = form["digest"]
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            self._fail("digest", digest, "a schedule's digest, 64 hexadecimal digits")
        listed = self._list(form["recipes"], "recipes")
        recipes = [self._recipe(entry, f"recipes.{number}") for number, entry in enumerate(listed)]
        collectives = []
        for number, groups in enumerate(self._list(form["collectives"], "collectives")):
            place = f"collectives.{number}"
            indices = self._whole_numbers(groups, place)
            for group, index in enumerate(indices):
                if not 0 <= index < len(recipes):
                    self._fail(f"{place}.{group}", index, f"one of the {len(recipes)} recipes, counted from 0")
            collectives.append(tuple(recipes[index] for index in indices))
        return LoweredSchedule(digest=digest, recipes=tuple(collectives))

    def _recipe(self, value: object, place: str) -> Recipe:
        form = self._object(value, RECIPE_KEYS, place)
        name = form["algorithm"]
        if not isinstance(name, str) or name not in ALGORITHMS:
            self._fail(f"{place}.algorithm", name, f"an algorithm; {nearest(str(name), ALGORITHMS)}")
        orders = self._list(form["orders"], f"{place}.orders")
        recipe = Recipe(
            algorithm=name,
            orders=tuple(self._whole_numbers(order, f"{place}.orders.{n}") for n, order in enumerate(orders)),
            per_node=self._whole_number(form["per_node"], f"{place}.per_node"),
            slices=self._whole_number(form["slices"], f"{place}.slices"),
            least_elements=self._whole_number(form["least_elements"], f"{place}.least_elements"),
        )
        if said := recipe.fault():
            raise InputError(f"{self.path}: {place}: {said}")
        return recipe

    def _object(self, value: object, keys: tuple[str, ...], place: str) -> dict[str, object]:
        if not isinstance(value, dict):
            self._fail(place, value, "an object")
        at = f"{self.path}: {place}: " if place else f"{self.path}: "
        for name in value:
            if name not in keys:
                raise InputError(f"{at}unknown key {name!r}; {nearest(name, keys)}")
        for name in keys:
            if name not in value:
                raise InputError(f"{at}key {name!r} is missing")
        return value

    def _list(self, value: object, place: str) -> list[object]:
        if not isinstance(value, list):
            self._fail(place, value, "a list")
        return value

    def _whole_numbers(self, value: object, place: str) -> tuple[int, ...]:
        return tuple(self._whole_number(entry, f"{place}.{n}") for n, entry in enumerate(self._list(value, place)))

    def _whole_number(self, value: object, place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self._fail(place, value, "a whole number")
        return value

    def _fail(self, place: str, value: object, wanted: str) -> Never:
        shown = json.dumps(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise InputError(f"{self.path}: {place + ': ' if place else ''}{shown} is not {wanted}")
