"""The stored form of a lowered schedule: JSON, recipes that repeat once, files that are never half-written."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from simfrontier.base.errors import InputError, wrong
from simfrontier.base.io import Rule, headed, read_json, typed
from simfrontier.base.wholefile import write_whole
from simfrontier.core.collectives.lowering.lower import LoweredSchedule
from simfrontier.core.collectives.lowering.recipe import Recipe

FORMAT: Final = "simfrontier.lowered"
VERSION: Final = 1
DIGEST: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    digest: Annotated[str, Rule(lambda text: DIGEST.fullmatch(text) is not None, "64 hexadecimal digits")]
    recipes: tuple[Recipe, ...]
    collectives: tuple[tuple[int, ...], ...]  # per collective, of each group, the recipe's number


def save_lowered(lowered: LoweredSchedule, path: Path) -> None:
    """Write the JSON (and a newline); the file is there as a whole or not at all. Raises InputError."""
    write_whole(path, to_json(lowered) + "\n")


def load_lowered(path: Path) -> LoweredSchedule:
    """The lowered schedule of a file; raises InputError with the file and the place in it."""
    where, what = str(path), "lowered schedule"
    form = typed(headed(read_json(path, what), what, FORMAT, VERSION, where), _File, where)
    for number, recipe in enumerate(form.recipes):
        if text := recipe.fault():
            raise InputError(text, where=where, key=("recipes", number))
    for number, groups in enumerate(form.collectives):
        for group, index in enumerate(groups):
            if not 0 <= index < len(form.recipes):
                text = wrong(index, f"one of the {len(form.recipes)} recipes, counted from 0")
                raise InputError(text, where=where, key=("collectives", number, group))
    recipes = tuple(tuple(form.recipes[index] for index in groups) for groups in form.collectives)
    return LoweredSchedule(digest=form.digest, recipes=recipes)


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
