"""The scenario that a published run means: what its rules have told, with what follows of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simfrontier.errors import InputError, wrong
from simfrontier.records import dataclass
from simfrontier.runs.rates import Rate
from simfrontier.runs.rules import Rule, Told, Unknown, load_rules, told
from simfrontier.runs.table import VALUE, Run
from simfrontier.scenario import Scenario, scenario_of

PLAN: Final = "run"
USUAL_HEAD: Final = 128  # features of a head, where a source tells no number of heads
MOST_CHUNKS: Final = 4
PADDED: Final = 128  # vocabularies are padded to multiples of this on each rank (Megatron-LM, arguments.py)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A published run as a scenario of one plan at one size, what its value counts, and what its source does
    not tell of it. `document` is the scenario's file; `checkpointed_share`: of the layers, how many are checkpointed
    where the scenario says that all are; `stated_bytes`: memory of a device that the source states."""

    run: Run
    scenario: Scenario
    document: Mapping[str, Any]
    rate: Rate
    unknown: tuple[Unknown, ...]
    checkpointed_share: float = 1.0
    stated_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A published run that no scenario expresses, and why."""

    run: Run
    why: str


def job_of(run: Run, rules: Sequence[Rule] | None = None) -> Job | Unread:
    """The scenario of a run by rules (default: the shipped ones)."""
    if math.isnan(run.value):
        return Unread(run=run, why=f"value: {wrong(run['value'], VALUE)}")
    said = told(run, load_rules() if rules is None else rules)
    if said.refused:
        return Unread(run=run, why=said.refused)
    assumed = list(said.assumed)
    try:
        document = _document(run, said, assumed)
        scenario = scenario_of(document, run.where, laid_out=False)
        share = float(said.values.get("grid.checkpointed_share", 1.0))
        return Job(
            run=run,
            scenario=scenario,
            document=document,
            rate=_rate(said),
            unknown=tuple(assumed),
            checkpointed_share=share,
            stated_bytes=_stated_bytes(said),
        )
    except InputError as error:
        return Unread(run=run, why=str(error))


def _rate(said: Told) -> Rate:
    values = _table(said, "rate")
    if "measure" not in values:
        raise InputError(
            "unit: no rule knows what it counts; allowed: tokens/s/GPU, s/iteration, samples/s, TFLOPS/GPU"
        )
    return Rate(**values)


def _stated_bytes(said: Told) -> float | None:
    known = _table(said, "stated")
    if "memory_mb" in known:
        return float(known["memory_mb"]) * 1e6
    return float(known["memory_gb"]) * 1e9 if "memory_gb" in known else None


def _table(said: Told, name: str) -> dict[str, Any]:
    """The values of one table's keys."""
    return {key.split(".", 1)[1]: value for key, value in said.values.items() if key.startswith(f"{name}.")}


def _document(run: Run, said: Told, assumed: list[Unknown]) -> dict[str, Any]:
    devices = _devices(run)
    grid, model = _table(said, "grid"), _table(said, "model")
    if "name" not in _table(said, "machine"):
        raise InputError(f"machine {run['machine']}: no rule knows it")
    for key in ("num_layers", "hidden", "vocabulary"):
        if key not in model:
            raise InputError(f"model_shape {run['model_shape']!r}: no rule finds model.{key}")
    if "heads" not in model:
        model["heads"] = _usual_heads(model["hidden"], grid.get("tensor", 1))
        assumed.append(Unknown(text=f"heads: {model['heads']}"))
    model["name"] = run["model_shape"].split(" L=")[0]
    tensor, pipeline = grid.get("tensor", 1), grid.get("pipeline", 1)
    if tensor > 1:
        model["vocabulary"] = _up(model["vocabulary"], PADDED * tensor)
    if model["num_layers"] % pipeline:
        model["num_layers"] = _up(model["num_layers"], pipeline)
        assumed.append(Unknown(text=f"stages of {model['num_layers'] // pipeline} layers, some of one less"))
    return {
        "name": "run",
        "title": run.title,
        "machine": _table(said, "machine") | ({"overrides": _network(said)} if _network(said) else {}),
        "library": _table(said, "library"),
        "stack": said.values["stack"],
        "model": model,
        "training": _training(said, grid, devices, model["sequence"], assumed),
        "engine": _table(said, "engine"),
        "run": {"devices": [devices]},
        "plans": {PLAN: _plan(grid, _table(said, "plan"), model["num_layers"])},
    }


def _up(number: int, factor: int) -> int:
    """The next multiple."""
    return -(-number // factor) * factor


def _usual_heads(hidden: int, tensor: int) -> int:
    """The number of heads, of those that divide hidden and by tensor, whose heads are nearest to the usual size."""
    fits = [heads for heads in range(tensor, hidden + 1, tensor) if hidden % heads == 0]
    return min(fits, key=lambda heads: abs(math.log(hidden / heads / USUAL_HEAD)), default=1)


def _devices(run: Run) -> int:
    text = run["devices"].replace(",", "")
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise InputError(f"devices: {wrong(run['devices'], 'a whole number of 1 or more')}")
    return int(text)


def _network(said: Told) -> dict[str, float]:
    """Numbers of the machine's file that the network of the run's nodes is."""
    from simfrontier.machine import load_machine

    known = _table(said, "network")
    if not known:
        return {}
    machine = load_machine(_table(said, "machine")["name"])
    nics = max(1, len(machine.node.nic_device))
    if "edr_links" in known:
        total = known["edr_links"] * 100.0
    else:
        total = known.get("gbit_per_node") or known["gbit_per_device"] * machine.devices_per_node
    return {"link_classes.nic.bytes_per_s": total * 1e9 / 8 / nics}


def _training(
    said: Told, grid: Mapping[str, Any], devices: int, sequence: int, assumed: list[Unknown]
) -> dict[str, int]:
    """Batch and micro-batch, which are told in sequences or in tokens, of the step or of a device."""
    known = _table(said, "training")
    inner = grid.get("tensor", 1) * grid.get("pipeline", 1)
    if devices % inner:
        raise InputError(f"plan: tensor × pipeline = {inner} does not divide {devices} devices")
    ranks = devices // inner
    if "batch" not in known and "batch_tokens" in grid:
        known["batch"] = max(ranks, round(grid["batch_tokens"] / sequence / ranks) * ranks)
    if "tokens_per_device" in grid:
        known["micro_batch"] = max(1, grid["tokens_per_device"] // sequence)
        known["batch"] = known["micro_batch"] * ranks
    if "micro_batch" not in known:
        known["micro_batch"] = 1
        assumed.append(Unknown(text="micro-batch: 1"))
    if "batch" not in known:
        known["batch"] = ranks * known["micro_batch"] * grid.get("grad_accum", 16)
        assumed.append(Unknown(text=f"batch: {known['batch']} sequences"))
    if known["batch"] % (ranks * known["micro_batch"]):
        per_rank = known["batch"] / ranks
        if per_rank < 1:
            raise InputError(f"batch = {known['batch']} over {ranks} data-parallel ranks: less than a sequence each")
        known["micro_batch"] = math.gcd(round(per_rank), known["micro_batch"])
        known["batch"] = round(per_rank / known["micro_batch"]) * known["micro_batch"] * ranks
        assumed.append(
            Unknown(text=f"batch: {known['batch']} sequences, micro-batch {known['micro_batch']}, so that they divide")
        )
    return known


def _plan(grid: Mapping[str, Any], own: Mapping[str, Any], num_layers: int) -> dict[str, Any]:
    data: dict[str, Any] = {"family": grid["data"]}
    data |= {key: value for key, value in own.items() if key == "gradient_codec"}
    rest = {key: value for key, value in own.items() if key not in data}
    tensor, pipeline = grid.get("tensor", 1), grid.get("pipeline", 1)
    if tensor == pipeline == 1:
        return data | rest
    plan: dict[str, Any] = {"family": "megatron", "tensor": tensor, "pipeline": pipeline, "data": data, **rest}
    if pipeline > 1 and grid.get("order") == "interleaved":
        chunks = max((n for n in range(1, MOST_CHUNKS + 1) if num_layers % (pipeline * n) == 0), default=1)
        if chunks > 1:
            plan |= {"order": "interleaved", "chunks": chunks}
    return plan
