"""`simfrontier list`: names that a scenario may use, with descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from simfrontier.base.io import read_toml
from simfrontier.core.collectives import CATALOG as LIBRARIES
from simfrontier.core.machine import CATALOG as MACHINES
from simfrontier.core.machine.stack import CATALOG as STACKS
from simfrontier.core.workload import known_models, sizes_of
from simfrontier.inputs.scenario import plan_sentences, scenario_keys
from simfrontier.interfaces.cli.console import print_json, tell

Kind = Literal["models", "plans", "machines", "libraries", "stacks", "keys"]
KEY = ("name", "sentence", "allowed", "default", "families")  # what is listed of a key
Named = dict[str, Any]  # a name with a sentence; of a key also what it may hold, its default, and families of plans


def list_(
    what: Annotated[
        Kind, typer.Argument(help="models, plans, machines, libraries, stacks or keys", show_choices=False)
    ],
    json: Annotated[bool, typer.Option("--json", help="print them as JSON")] = False,
) -> None:
    """List the models, plans, machines, libraries, stacks or keys that a scenario may use, each with a description."""
    found = list(_named(what))
    if json:
        print_json(found)
        return
    width = min(max(len(one["name"]) for one in found), 40)
    for one in found:
        tell(f"{one['name']:<{width}}  {_told(one)}")


def _told(one: Named) -> str:
    more = [one["allowed"]] if one.get("allowed") else []
    more += [f"default {one['default']}"] if one.get("default") else []
    more += [f"of {', '.join(one['families'])}"] if 0 < len(one.get("families", ())) < 4 else []
    return f"{one['sentence']} ({'; '.join(more)})" if more else str(one["sentence"])


def _named(what: Kind) -> Iterator[Named]:
    match what:
        case "models":
            yield from _models()
        case "plans":
            for name, sentence in plan_sentences().items():
                yield {"name": name, "sentence": sentence}
        case "machines":
            yield from _titles(MACHINES)
        case "libraries":
            yield from _titles(LIBRARIES)
        case "stacks":
            yield from _titles(STACKS)
        case "keys":
            for key in scenario_keys():
                yield {name: getattr(key, name) for name in KEY}


def _models() -> Iterator[Named]:
    for shape in known_models():
        active = getattr(shape, "num_active_parameters", shape.num_parameters)
        of_token = "" if active == shape.num_parameters else f", {_billions(active)} of them for a token"
        parts = [f"{_billions(shape.num_parameters)} billion parameters{of_token}", f"{shape.num_layers} layers"]
        parts += [f"width {shape.hidden:,}"] if "hidden" in sizes_of(shape) else []
        yield {"name": shape.name, "sentence": f"{', '.join(parts)}; {shape.source}"}


def _billions(number: int) -> str:
    """Return a number in billions to three digits, or to the last one before the point."""
    return f"{number / 1e9:,.3g}" if number < 1e12 else f"{number / 1e9:,.0f}"


def _titles(folder: Path) -> Iterator[Named]:
    for path in sorted(folder.glob("*.toml")):
        document = read_toml(path, "file")
        if "title" in document:
            yield {"name": path.stem, "sentence": str(document["title"])}
