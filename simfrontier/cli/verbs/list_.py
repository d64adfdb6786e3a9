"""`simfrontier list`: what a scenario may name, with a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from simfrontier.cli.console import console, print_json
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


def list_(
    what: Annotated[str, typer.Argument(help="models, plans, machines, libraries, stacks or keys")],
    json: Annotated[bool, typer.Option("--json", help="print them as JSON")] = False,
) -> None:
    """List what a scenario may name, with a sentence each: models, plans, machines, libraries, stacks, or all keys."""
    if what not in KINDS:
        raise InputError(f"got {what!r}; {nearest(what, KINDS)}", where="list")
    found = list(KINDS[what]())
    if json:
        kept = ("name", "sentence", "allowed", "default", "families") if what == "keys" else ("name", "sentence")
        print_json([{key: getattr(one, key) for key in kept} for one in found])
        return
    width = min(max(len(one.name) for one in found), 40)
    for one in found:
        console().print(f"{one.name:<{width}}  {_told(one)}", soft_wrap=True)
