"""The scenario that a published run means: what its rules have told, with what follows of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simfrontier.answers.accuracy.published_runs.rates import PER_DEVICE, Rate
from simfrontier.answers.accuracy.published_runs.rules import Rule, Told, Unknown, load_rules, told
from simfrontier.answers.accuracy.published_runs.table import VALUE, Run
from simfrontier.base.errors import InputError, nearest, wrong
from simfrontier.core.machine import catalog, load_machine
from simfrontier.core.plan import MOST_MICRO_BATCHES
from simfrontier.inputs.scenario import Scenario, scenario_of

MOST_CHUNKS: Final = 4
OF_TENSOR: Final = ("sequence_parallel", "product_pieces")  # keys of a plan that need tensor parallelism
GROUPS: Final = ("gradient_codec", "qwz", "hpz", "qgz")  # keys of a plan that say how data axes communicate


def plan_of(
    grid: Mapping[str, Any],
    said: Told,
    model: Mapping[str, Any],
    training: Mapping[str, int],
    ranks: int,
    assumed: list[Unknown],
) -> dict[str, Any]:
    own = said.table("plan")
    data: dict[str, Any] = {"family": grid["data"]}
    if data["family"] == "hsdp" and "shard" in grid:
        machine = load_machine(said.table("machine")["name"])
        if grid["shard"] > machine.devices_per_node:
            data = {"family": "zero3"}
            assumed.append(Unknown(text=f"weights: divided over all ranks, not over {grid['shard']}"))
    quantised = ("qwz", "hpz", "qgz") if data["family"] == "zeropp" else ()
    data |= {key: value for key, value in own.items() if key == "gradient_codec" or key in quantised}
    tensor, pipeline = grid.get("tensor", 1), grid.get("pipeline", 1)
    of_grid = {key for key in own if key not in OF_TENSOR or (tensor > 1 and "x" not in grid)}
    rest = {key: value for key, value in own.items() if key in of_grid and key not in GROUPS}
    if "product_pieces" in rest:
        rest |= _in_pieces(rest["product_pieces"], model["sequence"] // tensor)
    if "x" in grid:
        axes = {axis: grid.get(axis, 1) for axis in "xyz"}
        return {"family": "axonn", **axes, "pipeline": pipeline, "data": data, **rest}
    if tensor == pipeline == 1:
        return data | rest
    plan: dict[str, Any] = {"family": "megatron", "tensor": tensor, "pipeline": pipeline, "data": data, **rest}
    if pipeline > 1 and grid.get("order") == "interleaved":
        micros = training["batch"] // (ranks * training["micro_batch"])
        chunks = _chunks(grid.get("chunks"), model["num_layers"] // pipeline)
        if micros % pipeline:
            assumed.append(Unknown(text="1F1B: the micro-batches do not divide by the stages, as interleaving asks"))
        elif chunks > 1:
            plan |= {"order": "interleaved", "chunks": chunks}
    return plan


def _in_pieces(asked: int, positions: int) -> dict[str, Any]:
    """Products in as many pieces as are asked for and the positions of a rank divide into; such plans cut the
    sequence."""
    pieces = math.gcd(asked, positions)
    return {"sequence_parallel": True, "product_pieces": pieces}


def _chunks(asked: int | None, layers: int) -> int:
    """Runs of layers of a stage: as many as are told or, where none are, up to four, that the layers divide into; the
    fewest above four where none up to four do."""
    most = MOST_CHUNKS if asked is None else asked
    fits = [n for n in range(2, layers + 1) if layers % n == 0]
    few = [n for n in fits if n <= most]
    return few[-1] if few else fits[0] if fits and asked is None else 1


KEPT: Final = 0.1  # share by which a batch may move so that the micro-batch stays as told


def training_of(
    said: Told, grid: Mapping[str, Any], devices: int, sequence: int, assumed: list[Unknown]
) -> tuple[dict[str, int], int, float]:
    """Batch and micro-batch, which are told in sequences or in tokens, of the step or of a device; the ranks among
    which the batch is divided; and how many such steps one of the run is."""
    known = said.table("training")
    inner = grid.get("tensor", 1) * grid.get("pipeline", 1) * grid.get("x", 1) * grid.get("y", 1)
    if devices % inner:
        raise InputError(f"plan: {_factors(grid)} = {inner} does not divide {devices} devices")
    ranks = devices // inner
    tokens = _batch_tokens(grid)
    if "batch" not in known and tokens is not None:
        known["batch"] = max(ranks, round(tokens / sequence / ranks) * ranks)
    if "batch" not in known and "batch_per_device" in grid:
        known["batch"] = grid["batch_per_device"] * devices
    if "tokens_per_device" in grid:
        known["micro_batch"] = max(1, grid["tokens_per_device"] // sequence)
        known["batch"] = known["micro_batch"] * ranks
    parts = ranks * grid.get("grad_accum", 0)
    if "micro_batch" not in known and "batch" in known and parts and known["batch"] % parts == 0:
        known["micro_batch"] = known["batch"] // parts
    if "micro_batch" not in known:
        known["micro_batch"] = 1
        assumed.append(Unknown(text="micro-batch: 1"))
    if "batch" not in known:
        known["batch"] = ranks * known["micro_batch"] * grid.get("grad_accum", 16)
        assumed.append(Unknown(text=f"batch: {known['batch']} sequences"))
    if known["batch"] % (ranks * known["micro_batch"]):
        _divide(known, ranks, assumed)
    pipeline = grid.get("pipeline", 1)
    most = ranks * known["micro_batch"] * max(1, MOST_MICRO_BATCHES // pipeline) * pipeline
    if known["batch"] <= most:
        return known, ranks, 1.0
    steps = known["batch"] / most
    return known | {"batch": most}, ranks, steps


def _factors(grid: Mapping[str, Any]) -> str:
    """The product by which devices are to divide, in words."""
    names = [name for name in ("tensor", "pipeline", "x", "y") if grid.get(name, 1) > 1]
    return " × ".join(names)


def _batch_tokens(grid: Mapping[str, Any]) -> float | None:
    """Tokens of a step, where the batch is told in them."""
    for key, factor in (("batch_mtokens", 1e6), ("batch_ktokens", 1e3), ("batch_tokens", 1.0)):
        if key in grid:
            return float(grid[key]) * factor
    return None


def _divide(known: dict[str, int], ranks: int, assumed: list[Unknown]) -> None:
    """A batch near the told one that divides: with the micro-batch as told where that moves it little."""
    per_rank = known["batch"] / ranks
    if per_rank < 1:
        raise InputError(f"batch = {known['batch']} over {ranks} data-parallel ranks: less than a sequence each")
    near = round(per_rank / known["micro_batch"]) * known["micro_batch"]
    if abs(near / per_rank - 1.0) > KEPT:
        known["micro_batch"] = math.gcd(round(per_rank), known["micro_batch"])
        near = round(per_rank / known["micro_batch"]) * known["micro_batch"]
    known["batch"] = near * ranks
    text = f"batch: {known['batch']} sequences, micro-batch {known['micro_batch']}, so that they divide"
    assumed.append(Unknown(text=text))


_KINDS: Final = r"(GPU|GCD|device|rank|card|accelerator|chip|A100|H100|H200|V100|MI250X?)s?"
_COUNT: Final = re.compile(rf"~?([1-9][\d,]{{0,11}})( ?x)?( ?{_KINDS})*", re.IGNORECASE)
_PRODUCT: Final = re.compile(rf"([1-9]\d{{0,5}})( ?nodes?)? ?[x×*] ?([1-9]\d{{0,3}})( ?{_KINDS})*", re.IGNORECASE)
_IN_BRACKETS: Final = re.compile(rf"\(=? ?([1-9][\d,]{{0,11}}) ?{_KINDS}\)", re.IGNORECASE)
_NODES: Final = re.compile(r"([1-9][\d,]{0,8}) ?nodes?", re.IGNORECASE)


def devices_of(run: Run, machine: str) -> int:
    """Return the number of devices, told as a number, as nodes times devices, or as nodes."""
    text = run["devices"]
    if found := _COUNT.fullmatch(text) or _IN_BRACKETS.search(text):
        count = int(found[1].replace(",", ""))
    elif found := _PRODUCT.fullmatch(text):
        count = int(found[1]) * int(found[3])
    elif found := _NODES.fullmatch(text):
        count = int(found[1].replace(",", "")) * load_machine(machine).devices_per_node
    else:
        raise InputError(f"devices: {wrong(text, 'a whole number of 1 or more, or nodes: 2x8, 16 nodes')}")
    return count


def network_of(said: Told) -> dict[str, float]:
    """Numbers of the machine's file that the network of the run's nodes is."""
    known = said.table("network")
    name = said.table("machine")["name"]
    if not known or name not in catalog():  # a file of one's own says its network itself
        return {}
    machine = load_machine(name)
    nics = max(1, len(machine.node.nic_device))
    if "edr_links" in known:
        total = known["edr_links"] * 100.0
    elif "gbit_per_node" in known:
        total = known["gbit_per_node"]
    elif "tbit_per_node" in known:
        total = known["tbit_per_node"] * 1e3
    else:
        total = known["gbit_per_device"] * machine.devices_per_node
    return {"link_classes.nic.bytes_per_s": total * 1e9 / 8 / nics}


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
