"""A scenario from a job's configuration files: what they say together, and what is assumed where they say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from simfrontier.base.errors import InputError, dotted, shown
from simfrontier.base.io import comment, toml_document
from simfrontier.core.machine import Machine, catalog, load_machine
from simfrontier.core.workload import GptShape, sizes_of
from simfrontier.inputs.job_files.fields import Found, JobFile
from simfrontier.inputs.job_files.reading import read
from simfrontier.inputs.scenario import (
    USUAL_BATCH,
    Scenario,
    devices_of_nodes,
    full_path,
    in_case,
    plan_in_words,
    scenario_of,
    split_plans,
)
from simfrontier.inputs.scenario.form import ModelTable
from simfrontier.inputs.scenario.plans import IDLE_AT_ONE
from simfrontier.inputs.scenario.settings import path_of, put
from simfrontier.inputs.scenario.words import PLAN_KEYS, completed

SIZES: Final = sizes_of(GptShape)  # without which a model is none
ASSUMED: Final[Mapping[str, tuple[Any, str]]] = {
    "model.precision": ("bf16", "assumed: the usual type of training"),
    "model.attention": ("fused", "assumed: FlashAttention"),
    "model.checkpointing": ("full", "assumed: every layer is recomputed; or selective, none"),
    "training.micro_batch": (1, "assumed: sequences of a device"),
}
GRID: Final = {PLAN_KEYS[short]: short for short in ("tp", "pp", "vp", "cp", "ep")}
NEEDS: Final = {  # axes without which a key means nothing
    **IDLE_AT_ONE,
    **{"sequence_parallel": "tensor", "product_pieces": "tensor", "overlap_experts": "expert"},
}
USUAL_PLANS: Final = "zero3; hsdp; megatron"  # of a model without a plan
MODEL_KEYS: Final = tuple(f"model.{key}" for key in ModelTable.model_fields)
SET: Final = "--set"
WIDTH: Final = 110  # characters of a line of comments


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedJob:
    """A job's configuration files as a scenario: the text of its file, the scenario, what is assumed, and sentences on
    what of the files is not in it."""

    text: str
    scenario: Scenario
    files: tuple[JobFile, ...]
    assumed: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user states beside the files: machine, ranks or nodes, plans in words, and settings by dotted key."""

    machine: str = "frontier"
    devices: int | None = None
    nodes: int | None = None
    plans: str | None = None
    settings: Mapping[str, Any]
    name: str = "imported"


def import_job(paths: Sequence[Path], wanted: Wanted) -> ImportedJob:
    """Read the files of one job as a scenario. Raises InputError for files that contradict each other, or that lack
    what a scenario needs; a value that no scenario may have is named by its field."""
    files, wanted = tuple(map(read, paths)), replace(wanted, machine=in_case(wanted.machine, catalog()))
    found = _together(files, wanted.settings)
    _require_model(found, files)
    machine = load_machine(wanted.machine)
    lacking = _without_narrow_products(found, machine)
    sizes = _devices(found, wanted)
    document, sources = _document(found, wanted, machine, sizes)
    scenario = _checked(document, sources, str(paths[0]))
    _refuse_accumulation(found, scenario)
    remarks = {key: each.words for key, each in sources.items() if each.words}
    assumed = tuple(
        f"{key} = {shown(each.value)} ({each.words.removeprefix('assumed: ')})"
        for key, each in sources.items()
        if each.yields
    )
    notes = (*lacking, *chain.from_iterable(file.notes for file in files))
    read_from = ", ".join(f"{file.path.name} ({file.title})" for file in files)
    lines = [wrap(each, WIDTH, subsequent_indent="  ") for each in (f"Imported from {read_from}.", *notes)]
    head = comment("\n".join(chain.from_iterable(lines)))
    text = f"{head}\n\n{toml_document(document, remarks)}"
    return ImportedJob(text=text, scenario=scenario, files=files, assumed=assumed, notes=notes)


def _together(files: Sequence[JobFile], settings: Mapping[str, Any]) -> dict[str, Found]:
    """Return what all files say. Raises InputError for two files that give a key two values."""
    found: dict[str, Found] = {}
    for file in files:
        for key, each in file.found.items():
            known = found.get(key)
            if known is None or (known.yields and not each.yields):
                found[key] = each
            elif not each.yields and known.value != each.value:
                text = f"got {shown(each.value)}, and {known.file} says {shown(known.value)} ({known.field})"
                raise InputError(text, where=each.file, key=(each.field,))
    for key, value in settings.items():
        found[dotted(full_path(path_of(key)))] = Found(value=value, file=SET, field=key, words=SET)
    return found


def _require_model(found: Mapping[str, Found], files: Sequence[JobFile]) -> None:
    name = found.get("model.name")
    lacking = [key for key in SIZES if f"model.{key}" not in found]
    is_named = name is not None and "model.num_layers" not in found and len(lacking) >= len(SIZES) - 1
    if is_named or not lacking:
        return
    where = ", ".join(str(file.path) for file in files)
    if len(lacking) == len(SIZES):
        raise InputError("says no model; allowed: with a config.json beside it", where=where)
    keys = ", ".join(f"--set model.{key}=N" for key in lacking)
    raise InputError(f"does not say the model's {', '.join(lacking)}; allowed: {keys}", where=where)


def _without_narrow_products(found: dict[str, Found], machine: Machine) -> tuple[str, ...]:
    """Drop a type of products that the machine has not, such as FP8 on MI250X, unless the user asks for it; return a
    sentence that says so."""
    narrow = found.get("model.linear_precision")
    if narrow is None or narrow.file == SET:
        return ()
    try:
        machine.matmul(narrow.value)
    except InputError:
        del found["model.linear_precision"]
        return (f"Left out: {narrow.words}, as {machine.name} has no such products: they are in model.precision.",)
    return ()


def _devices(found: dict[str, Found], wanted: Wanted) -> Found:
    """Return the number of devices: the user's, or that of the files. Raises InputError without any."""
    ranks = found.pop("job.devices", None)
    if wanted.devices is not None and wanted.nodes is not None:
        raise InputError("got it beside --devices; allowed: one of the two", where="--nodes")
    if wanted.devices is not None:
        return Found(value=wanted.devices, file="--devices", words="--devices")
    if wanted.nodes is not None:
        (devices,) = devices_of_nodes((wanted.nodes,), wanted.machine, "--machine", wanted.settings)
        words = f"--nodes {wanted.nodes}, of {devices // wanted.nodes} devices"
        return Found(value=devices, file="--nodes", words=words)
    if ranks is None:
        raise InputError("missing, as no file says how many ranks there are; allowed: N, or --nodes", where="--devices")
    return ranks


# ── the document ──


def _document(
    found: dict[str, Found], wanted: Wanted, machine: Machine, devices: Found
) -> tuple[dict[str, Any], dict[str, Found]]:
    """Return the document of the scenario, and where each of its values comes from."""
    for key, (value, words) in ASSUMED.items():
        found.setdefault(key, Found(value=value, words=words, yields=True))
    if not {"training.batch", "training.grad_accum"} & found.keys():
        found["training.batch"] = Found(value=USUAL_BATCH, words="assumed: of models of this size", yields=True)
    if "training.batch" in found:
        found = {key: each for key, each in found.items() if key != "training.grad_accum"}
    plan = {key: each for key, each in found.items() if key.startswith(("plan.", "data."))}
    rest = {key: each for key, each in found.items() if key not in plan}
    rest.setdefault("model.name", Found(value=wanted.name))
    title = f"{rest['model.name'].value} on {Path(wanted.machine).stem.capitalize()}"
    said = {"name": wanted.name, "title": title, "machine.name": wanted.machine}
    sources = {
        **{key: Found(value=value) for key, value in said.items()},
        **({"stack": _stack(rest["stack"], machine)} if "stack" in rest else {}),
        **{key: rest[key] for key in MODEL_KEYS if key in rest},
        **{key: each for key, each in rest.items() if key.startswith("training.")},
        "run.devices": replace(devices, value=[devices.value]),
        **{key: each for key, each in rest.items() if key.startswith("engine.")},
        **(_plans(wanted) if wanted.plans or not plan else _plan(plan, machine, devices.value)),
    }
    sources |= {key: each for key, each in rest.items() if each.file == SET}
    document: dict[str, Any] = {}
    for key, each in sources.items():
        put(document, path_of(key), each.value)
    return document, sources


def _stack(stack: Found, machine: Machine) -> Found:
    """Return the stack; of GPT-NeoX where it is measured, on AMD's devices, and its nearest one elsewhere."""
    if stack.value == "gpt-neox-rocm6" and not machine.library.startswith("rccl"):
        return replace(stack, value="megatron-deepspeed")
    return stack


def _plans(wanted: Wanted) -> dict[str, Found]:
    """Return plans in the words in which the user names them, or the usual ones; tables, if a setting is of a plan."""
    why = "--plans" if wanted.plans else "assumed: no file says a plan"
    is_set = any(path_of(key)[0] == "plans" for key in wanted.settings)
    plans = {each: plan_in_words(each) for each in split_plans(wanted.plans or USUAL_PLANS)}
    return {f"plans.{name}": Found(value=table if is_set else each, words=why) for each, (name, table) in plans.items()}


def _plan(plan: Mapping[str, Found], machine: Machine, devices: int) -> dict[str, Found]:
    """Return the keys of the job's one plan: of a family of ZeRO, or of a grid with such a plan on its data axes."""
    own = {key.removeprefix("plan."): each for key, each in plan.items() if key.startswith("plan.")}
    data = {key.removeprefix("data."): each for key, each in plan.items() if key.startswith("data.")}
    data = {"family": Found(value="ddp", words="assumed"), **data}
    degrees = {key: own[key].size() for key in GRID if key in own and own[key].value != 1}
    inner = degrees.get("tensor", 1) * degrees.get("context", 1)
    data = _on_axes(data, machine, devices, inner, degrees.get("pipeline", 1))
    if not degrees and "family" not in own:
        return {f"plans.{data['family'].value}.{key}": each for key, each in data.items()}
    idle = {*GRID, "family"} - degrees.keys()
    idle |= {key for key, axis in NEEDS.items() if axis not in degrees}
    own = {key: each for key, each in own.items() if key not in idle}
    table = completed({"family": "megatron", **{key: each.value for key, each in own.items()}})
    implied = {key: Found(value=value) for key, value in table.items()}
    name = "-".join(f"{GRID[key]}{size}" for key, size in degrees.items()) or "megatron"
    out = {f"plans.{name}.{key}": each for key, each in {**implied, **own}.items()}
    return out | {f"plans.{name}.data.{key}": each for key, each in data.items()}


def _on_axes(data: Mapping[str, Found], machine: Machine, devices: int, inner: int, stages: int) -> dict[str, Found]:
    """Return the options of the plan on the data axes, with axes in place of numbers of ranks: shards fill a node or a
    package, of which `inner` ranks are the grid's. Raises InputError for other numbers."""
    out = dict(data)
    if "replicas" in out:
        replicas = out.pop("replicas")
        out["shard"] = replace(replicas, value=devices // (replicas.value * inner * stages))
    axes = {machine.devices_per_package // inner: ["gcd"], machine.devices_per_node // inner: None}
    allowed = [size for size in axes if size > 1]
    for key in ("shard", "secondary"):
        each = out.pop(key, None)
        if each is not None and each.value not in allowed:
            sizes = " or ".join(map(str, allowed)) or "a machine with more devices in a node"
            text = f"makes shards of {each.value} ranks on {machine.name}; allowed: {sizes}"
            raise InputError(text, where=each.file, key=(each.field,))
        if each is not None and axes[each.value] is not None:
            out[key] = replace(each, value=axes[each.value])
    return out


def _checked(document: Mapping[str, Any], sources: Mapping[str, Found], where: str) -> Scenario:
    """Return the scenario of the document; an error names the field of the file whose value is at fault."""
    try:
        return scenario_of(document, where)
    except InputError as error:
        places = (dotted(error.key[:end]) for end in range(len(error.key), 0, -1))
        found = next((sources[place] for place in places if place in sources), None)
        if found is None or not found.field:
            raise
        raise InputError(error.what, where=found.file, key=(found.field,), when=error.when) from None


def _refuse_accumulation(found: Mapping[str, Found], scenario: Scenario) -> None:
    """Raise InputError if the files give a number of micro-batches that does not follow from the batch."""
    accum = found.get("training.grad_accum")
    if accum is None or "training.batch" not in found or len(scenario.plans) > 1:
        return
    name, size = next(iter(scenario.plans)), scenario.file.run.devices[0]
    count = scenario.case(name, size).grad_accum
    if count != accum.value:
        text = f"got {shown(accum.value)}, but {found['training.batch'].field} gives {count} on {size} devices"
        raise InputError(f"{text}; allowed: the same, or other --devices", where=accum.file, key=(accum.field,))
