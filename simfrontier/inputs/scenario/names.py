"""Names that scenarios may use, with descriptions and sizes: the rows of `simfrontier list` and of `sf.models()`,
`sf.machines()`, `sf.plans()` and `sf.keys()`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from simfrontier.base.io import read_toml
from simfrontier.core.collectives import CATALOG as LIBRARIES
from simfrontier.core.machine import catalog, load_machine
from simfrontier.core.machine.stack import CATALOG as STACKS
from simfrontier.core.workload import known_models, sizes_of
from simfrontier.inputs.scenario.keys import plan_sentences, scenario_keys
from simfrontier.inputs.scenario.shipped import FOLDER

Kind = Literal["models", "plans", "machines", "libraries", "stacks", "keys", "scenarios"]
Named = dict[str, Any]  # `name`, `description`, and columns of its kind


def named(kind: Kind) -> list[Named]:
    """Return all names of a kind, each as a row with the same columns."""
    match kind:
        case "models":
            return list(_models())
        case "plans":
            return [{"name": name, "description": sentence} for name, sentence in plan_sentences().items()]
        case "machines":
            return list(_machines())
        case "libraries":
            return list(_titles(LIBRARIES))
        case "stacks":
            return list(_titles(STACKS))
        case "keys":
            return list(_keys())
        case "scenarios":
            return list(_titles(FOLDER))


def _models() -> Iterator[Named]:
    for shape in known_models():
        total, hidden = shape.num_parameters, getattr(shape, "hidden", None) if "hidden" in sizes_of(shape) else None
        active = getattr(shape, "num_active_parameters", total)
        of_token = "" if active == total else f", {_billions(active)} of them for a token"
        parts = [f"{_billions(total)} billion parameters{of_token}", f"{shape.num_layers} layers"]
        parts += [] if hidden is None else [f"width {hidden:,}"]
        yield {
            "name": shape.name,
            "description": f"{', '.join(parts)}; {shape.source}",
            "parameters": total,
            "active_parameters": active,
            "layers": shape.num_layers,
            "hidden": hidden,
        }


def _billions(number: int) -> str:
    """Return a number in billions to three digits, or to the last one before the point."""
    return f"{number / 1e9:,.3g}" if number < 1e12 else f"{number / 1e9:,.0f}"


def _machines() -> Iterator[Named]:
    for name in catalog():
        machine = load_machine(name)
        yield {
            "name": name,
            "description": machine.title,
            "nodes": machine.num_nodes,
            "devices_per_node": machine.devices_per_node,
            "device": machine.device_word,
            "device_memory_bytes": machine.device.hbm_bytes,
            "device_flops_per_s": machine.device.peak_flops_per_s,
        }


def _keys() -> Iterator[Named]:
    for key in scenario_keys():
        yield {
            "name": key.name,
            "description": key.sentence,
            "allowed": key.allowed,
            "default": key.default,
            "families": key.families,
        }


def _titles(folder: Path) -> Iterator[Named]:
    for path in sorted(folder.glob("*.toml")):
        document = read_toml(path, "file")
        if "title" in document:
            yield {"name": path.stem, "description": str(document["title"])}
