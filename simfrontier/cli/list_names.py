"""`simfrontier list`: what a scenario may name, with a sentence each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import typer

from simfrontier.cli.console import console
from simfrontier.errors import InputError, nearest
from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A name with a sentence; of a key also what it may hold, its default, and the families of plans that have it."""

    name: str
    sentence: str
    allowed: str = ""
    default: str = ""
    families: tuple[str, ...] = ()


def print_names(what: str, as_json: bool) -> None:
    """Print the names of a kind. Raises InputError for a kind that there is not."""
    if what not in KINDS:
        raise InputError(f"got {what!r}; {nearest(what, KINDS)}", where="list")
    found = list(KINDS[what]())
    if as_json:
        kept = ("name", "sentence", "allowed", "default", "families") if what == "keys" else ("name", "sentence")
        typer.echo(json.dumps([{key: getattr(one, key) for key in kept} for one in found], indent=1))
        return
    width = min(max(len(one.name) for one in found), 40)
    for one in found:
        console().print(f"{one.name:<{width}}  {_told(one)}", soft_wrap=True)


def _told(one: Named) -> str:
    more = [one.allowed] if one.allowed else []
    more += [f"default {one.default}"] if one.default else []
    more += [f"of {', '.join(one.families)}"] if 0 < len(one.families) < 4 else []
    return f"{one.sentence} ({'; '.join(more)})" if more else one.sentence


def _models() -> Iterator[Named]:
    from simfrontier.workload import known_models, sizes_of

    for shape in known_models():
        sizes = sizes_of(shape)
        parts = [f"{shape.num_parameters / 1e9:,.3g} billion parameters", f"{shape.num_layers} layers"]
        parts += [f"width {shape.hidden:,}"] if "hidden" in sizes else []
        yield Named(name=shape.name, sentence=f"{', '.join(parts)}; {shape.source}")


def _plans() -> Iterator[Named]:
    from simfrontier.scenario import plan_sentences

    for name, sentence in plan_sentences().items():
        yield Named(name=name, sentence=sentence)


def _titles(folder: Path) -> Iterator[Named]:
    from simfrontier.io import read_toml

    for path in sorted(folder.glob("*.toml")):
        document = read_toml(path, "file")
        if "title" in document:
            yield Named(name=path.stem, sentence=str(document["title"]))


def _machines() -> Iterator[Named]:
    from simfrontier.machine import CATALOG

    return _titles(CATALOG)


def _libraries() -> Iterator[Named]:
    from simfrontier.collectives import CATALOG

    return _titles(CATALOG)


def _stacks() -> Iterator[Named]:
    from simfrontier.stack import CATALOG

    return _titles(CATALOG)


def _keys() -> Iterator[Named]:
    from simfrontier.scenario import scenario_keys

    for key in scenario_keys():
        yield Named(
            name=key.name,
            sentence=key.sentence,
            allowed=key.allowed,
            default=key.default,
            families=key.families,
        )


KINDS: Final[dict[str, Callable[[], Iterator[Named]]]] = {
    "models": _models,
    "plans": _plans,
    "machines": _machines,
    "libraries": _libraries,
    "stacks": _stacks,
    "keys": _keys,
}
