"""What the columns of a sweep's rows are: words and units for people, and which direction is better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from simfrontier.records import dataclass
from simfrontier.sweep import RESULTS
from simfrontier.units import unit_of

if TYPE_CHECKING:
    from simfrontier.scenario import ScenarioKey

Unit = Literal["s", "bytes", "bytes/s", "flop", "flop/s", "1/s", "share", "count", "number", "text", "truth"]
Better = Literal["less", "more", ""]

OF_POINT: Final = ("point", "digest", "scenario")
ERROR: Final = "error"  # why a row was refused
EXPOSED_SHARE: Final = "exposed_share"  # worked out here, of the step's time
_GENERAL: Final = ("machine.overrides.", "library.overrides.", "training.", "engine.", "run.", "model.", "plans.*.")
_UNITS: Final = (".bytes.per.s", ".flops.per.s", ".per.s", ".bytes", ".flops", ".s")  # ends of keys, _ as .


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What numbers of a column are: in words, their unit, and whether less or more of it is better."""

    words: str
    unit: Unit
    better: Better = ""


def _seconds(words: str, better: Better = "less") -> Quantity:
    return Quantity(words=words, unit="s", better=better)


def _bytes(words: str) -> Quantity:
    return Quantity(words=words, unit="bytes", better="less")


def _text(words: str) -> Quantity:
    return Quantity(words=words, unit="text")


QUANTITIES: Final[Mapping[str, Quantity]] = {
    "scenario": _text("scenario"),
    "plan": _text("plan"),
    "devices": Quantity(words="devices", unit="count", better="less"),
    "nodes": Quantity(words="nodes", unit="count", better="less"),
    "micro_batch": Quantity(words="micro-batch", unit="count"),
    "grad_accum": Quantity(words="micro-batches of a step", unit="count"),
    "step_time_s": _seconds("time of a step"),
    "compute_time_s": _seconds("compute in a step"),
    "exposed_comm_s": _seconds("exposed communication and waiting"),
    EXPOSED_SHARE: Quantity(words="exposed, share of the step", unit="share", better="less"),
    "tflops_per_device": Quantity(words="TFLOPS per device", unit="number", better="more"),
    "mfu": Quantity(words="useful share of the peak (MFU)", unit="share", better="more"),
    "tokens_per_s": Quantity(words="tokens per second", unit="number", better="more"),
    "bytes_package": _bytes("bytes inside packages"),
    "bytes_intra_node": _bytes("bytes inside nodes, between packages"),
    "bytes_inter_node": _bytes("bytes between nodes"),
    "peak_memory_bytes": _bytes("memory on the fullest device"),
    "fits": Quantity(words="fits in memory", unit="truth"),
    "scaling_efficiency": Quantity(words="efficiency against the plan's smallest size", unit="share", better="more"),
    "speedup": Quantity(words="speed against the first plan", unit="number", better="more"),
    "exposed_inter_node_s": _seconds("exposed, between nodes"),
    "exposed_intra_node_s": _seconds("exposed, inside a node"),
    "exposed_package_s": _seconds("exposed, inside a package"),
    "exposed_codec_s": _seconds("codec and reordering"),
    "exposed_idle_s": _seconds("idle"),
    "bytes_scales": _bytes("bytes of scales"),
    "bytes_padding": _bytes("bytes of padding"),
    "bytes_fallback": _bytes("bytes of fallbacks"),
    "bytes_persisted": _bytes("bytes of persisted tensors"),
    "need_inter_node": _bytes("bytes between nodes that any algorithm needs"),
    "bound_s": _seconds("lower bound of the step"),
    "rank_classes": Quantity(words="classes of ranks", unit="count"),
    "fidelity": _text("fidelity"),
    "schedule_digest": _text("digest of the schedule"),
    "mesh": _text("mesh"),
    "note": _text("note"),
    ERROR: _text("why it was refused"),
    "step_time_p05_s": _seconds("step, low end of the 90 % interval"),
    "step_time_p50_s": _seconds("step, median of samples"),
    "step_time_p95_s": _seconds("step, high end of the 90 % interval"),
    "step_time_nominal_s": _seconds("time of a nominal step"),
    "tflops_per_device_nominal": Quantity(words="TFLOPS per device, nominal", unit="number", better="more"),
    "mfu_nominal": Quantity(words="MFU, nominal", unit="share", better="more"),
    "tokens_per_s_nominal": Quantity(words="tokens per second, nominal", unit="number", better="more"),
    "tokens_per_s_per_device": Quantity(words="tokens per second and device", unit="number", better="more"),
    "hfu": Quantity(words="HFU (with recomputation)", unit="share", better="more"),
    "neox_tflops_per_device": Quantity(words="TFLOPS per device as GPT-NeoX counts", unit="number", better="more"),
    "exposed_variation_s": _seconds("exposed, over the nominal step"),
    "stack": _text("software stack"),
}
KNOWN: Final = (*OF_POINT, *RESULTS, ERROR)  # of every sweep, beside its axes


def axis_quantities(keys: Iterable[str], kinds: Mapping[str, Unit]) -> dict[str, Quantity]:
    """Axes in words, by key: the end of the key, or all of it where two axes end alike. `kinds`: of axes that are no
    numbers, text or truth."""
    keys = list(keys)
    short = {key: _words(_end(key)) for key in keys}
    told = {key: short[key] if list(short.values()).count(short[key]) == 1 else _words(key) for key in keys}
    return {key: Quantity(words=told[key], unit=kinds.get(key) or _unit(key)) for key in keys}


def sentence_of(key: str) -> str:
    """What a key of a scenario means; of numbers of machines and libraries, where they are told."""
    form = _form_of(key)
    if form is not None:
        return form.sentence
    owner = next((name for name in ("machine", "library") if key.startswith(f"{name}.overrides.")), "")
    return f"a number of the {owner}'s file" if owner else ""


def _form_of(key: str) -> ScenarioKey | None:
    parts = key.split(".")
    if parts[0] == "at" and len(parts) > 2:
        parts = parts[2:]
    if parts[0] == "plans" and len(parts) > 2:
        parts = ["plans", "NAME", *parts[2:]]
    return _forms().get(".".join(parts))


@cache
def _forms() -> Mapping[str, ScenarioKey]:
    from simfrontier.scenario import scenario_keys

    return {each.name: each for each in scenario_keys()}


def _end(key: str) -> str:
    return next((key.removeprefix(head) for head in _GENERAL if key.startswith(head)), key)


def _words(key: str) -> str:
    """`host.hook_s` is "host hook": the unit is said apart."""
    dotted = key.replace("_", ".")
    end = next((end for end in _UNITS if dotted.endswith(end) and dotted != end[1:]), "")
    return key[: len(key) - len(end)].replace("plans.", "").replace(".", " ").replace("_", " ")


def _unit(key: str) -> Unit:
    return unit_of(key) or "number"  # type: ignore[return-value]
