"""The scenario that a published run means: what its rules have told, with what follows of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simfrontier.answers.accuracy.published_runs.batch import training_of
from simfrontier.answers.accuracy.published_runs.nodes import devices_of, network_of
from simfrontier.answers.accuracy.published_runs.plans import plan_of
from simfrontier.answers.accuracy.published_runs.rates import PER_DEVICE, Rate
from simfrontier.answers.accuracy.published_runs.rules import Rule, Told, Unknown, load_rules, told
from simfrontier.answers.accuracy.published_runs.table import VALUE, Run
from simfrontier.base.errors import InputError, nearest, wrong
from simfrontier.core.machine import catalog, load_machine
from simfrontier.inputs.scenario import Scenario, scenario_of

PLAN: Final = "run"
USUAL_HEAD: Final = 128  # features of a head, where a source tells no number of heads
KNOWN_DEVICES: Final = "A100, H100, H200, GH200, V100, MI250, MI250X"
PADDED: Final = 128  # vocabularies are padded to multiples of this on each rank (Megatron-LM, arguments.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A published run as a scenario of one plan at one size, what its value counts, and what its source does
    not tell of it. `document` is the scenario's file; `stated_bytes`: memory of a device that the source states;
    `steps`: of how many of the scenario's steps one of the run is, where that has more micro-batches than are laid
    out."""

    run: Run
    scenario: Scenario
    document: Mapping[str, Any]
    rate: Rate
    unknown: tuple[Unknown, ...]
    stated_bytes: float | None = None
    steps: float = 1.0


def job_of(run: Run, rules: Sequence[Rule] | None = None) -> Job:
    """The scenario of a run by rules (default: the shipped ones). Raises InputError where none expresses it."""
    if run.fault:
        raise InputError(run.fault)
    if math.isnan(run.value):
        raise InputError(f"value: {wrong(run['value'], VALUE)}")
    said = told(run, load_rules() if rules is None else rules)
    if said.refused:
        raise InputError(said.refused)
    assumed = list(said.assumed)
    document, steps = _document(run, said, assumed)
    return Job(
        run=run,
        scenario=scenario_of(document, run.where, laid_out=False),
        document=document,
        rate=_rate(said, document["machine"]["name"], document["run"]["devices"][0]),
        unknown=tuple(assumed),
        stated_bytes=_stated_bytes(said),
        steps=steps,
    )


def _rate(said: Told, machine: str, devices: int) -> Rate:
    """`rate.per`: of a node or of the job, where the value is not of a device."""
    values = said.table("rate")
    if "measure" not in values:
        raise InputError(
            "unit: no rule knows what it counts; allowed: tokens/s/GPU, s/iteration, samples/s, TFLOPS/GPU, MFU %"
        )
    match values.pop("per", "device"):
        case "job":
            values["devices"] = devices
        case "node":
            values["measure"] = PER_DEVICE.get(values["measure"], values["measure"])
            values["devices"] = load_machine(machine).devices_per_node
    return Rate(**values)


def _stated_bytes(said: Told) -> float | None:
    known = said.table("stated")
    if "memory_mb" in known:
        return float(known["memory_mb"]) * 1e6
    return float(known["memory_gb"]) * 1e9 if "memory_gb" in known else None


def _document(run: Run, said: Told, assumed: list[Unknown]) -> tuple[dict[str, Any], float]:
    """The scenario, and how many of its steps one of the run is."""
    grid, model, machine = said.table("grid"), said.table("model"), said.table("machine")
    if "name" not in machine:
        raise InputError(
            f"machine {run['machine']}: no rule knows it; {nearest(run['machine'], catalog())}; "
            f"devices that have a file: {KNOWN_DEVICES}"
        )
    devices = devices_of(run, machine["name"])
    for key in ("num_layers", "hidden", "vocabulary"):
        if key not in model:
            raise InputError(
                f"model_shape {run['model_shape']!r}: no rule finds model.{key}; allowed: L=24 h=2048 a=16 v=50257, "
                f"or the name of a published model"
            )
    if "sequence_k" in grid:
        model["sequence"] = 1024 * grid["sequence_k"]
    tensor, pipeline = grid.get("tensor", 1), grid.get("pipeline", 1)
    told_heads = model.get("heads")
    if told_heads is None or model["hidden"] % told_heads:
        model["heads"] = _usual_heads(model["hidden"], tensor)
        instead = (
            "" if told_heads is None else f" instead of {told_heads}, which do not divide hidden = {model['hidden']}"
        )
        assumed.append(Unknown(text=f"heads: {model['heads']}{instead}"))
    model["name"] = run["model_shape"].split(" L=")[0]
    if tensor > 1:
        model["vocabulary"] = _up(model["vocabulary"], PADDED * tensor)
    if model["num_layers"] % pipeline:
        model["num_layers"] = _up(model["num_layers"], pipeline)
        assumed.append(Unknown(text=f"stages of {model['num_layers'] // pipeline} layers, some of one less"))
    network = network_of(said)
    training, ranks, steps = training_of(said, grid, devices, model["sequence"], assumed)
    return {
        "name": "run",
        "title": run.title,
        "machine": machine | ({"overrides": network} if network else {}),
        "library": said.table("library"),
        "stack": said.table("stack")["name"],
        "model": model,
        "training": training,
        "engine": said.table("engine"),
        "run": {"devices": [devices]},
        "plans": {PLAN: plan_of(grid, said, model, training, ranks, assumed)},
    }, steps


def _up(number: int, factor: int) -> int:
    """The next multiple."""
    return -(-number // factor) * factor


def _usual_heads(hidden: int, tensor: int) -> int:
    """The number of heads, of those that divide hidden and by tensor, whose heads are nearest to the usual size."""
    farthest = USUAL_HEAD**2  # of sizes above the usual one: a head of size 1 is as near
    sizes = [size for size in range(farthest, 0, -1) if hidden % (size * tensor) == 0]
    return hidden // min(sizes, key=lambda size: abs(math.log(size / USUAL_HEAD))) if sizes else 1
