"""`simfrontier list`: names that a scenario may use, with descriptions."""

from __future__ import annotations

from typing import Annotated

import typer

from simfrontier.inputs.scenario import Kind, Named, named
from simfrontier.interfaces.cli.console import print_json, tell


def list_(
    what: Annotated[
        Kind, typer.Argument(help="models, plans, machines, libraries, stacks, keys or scenarios", show_choices=False)
    ],
    json: Annotated[bool, typer.Option("--json", help="print them as JSON")] = False,
) -> None:
    """List the models, plans, machines, libraries, stacks or keys that a scenario may use, or the shipped scenarios,
    each with a description."""
    found = named(what)
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
    return f"{one['description']} ({'; '.join(more)})" if more else str(one["description"])
