"""What might help a plan among its own options: overlaps that it has off, and messages coded otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from simfrontier.codecs import Quantised
from simfrontier.plan import (
    PLAIN,
    AxonnOptions,
    BucketOptions,
    HopOptions,
    LatticeOptions,
    Options,
    TensorOptions,
    TopoOptions,
    ZeroppOptions,
)
from simfrontier.records import dataclass
from simfrontier.scenario import Scenario

BLOCK = 6144  # elements per scale where the plan has no block of its own: that of the ZeRO++ and ZeRO-topo defaults
LOSES = "loses precision"
_OVERLAPS = {
    "oar": "all-reduces overlap with the weights' gradients (OAR)",
    "ors": "reduce-scatters overlap with the backward (ORS)",
    "oag": "all-gathers overlap with computing (OAG)",
    "overlap_input_gradients": "inputs and their gradients move beside products of the backward",
    "overlap_gradients": "gradients are reduced beside the last backward",
    "overlap_exchange": "exchanges of stages overlap with computing",
    "pipelined": "second hops have a lane of their own",
}
_SWITCHES = {
    "qwz": ("weights gathered as {weight_codec} (qwZ)", "weights gathered plain (without qwZ)"),
    "qgz": ("gradients reduced as {quantised_gradient_codec} (qgZ)", "gradients reduced plain (without qgZ)"),
}
_CODECS = {
    "gather_codec": ("weights gathered as", ("int8",)),
    "weight_codec": ("weights gathered as", ("int8",)),
    "copy_codec": ("second copy of the weights kept as", ("int8",)),
    "publish_codec": ("new weights sent as", ("int8",)),
    "gradient_codec": ("gradients reduced as", ("int8", "int4")),
    "node_gradient_codec": ("gradients reduced inside the node as", ("int8", "int4")),
    "cross_gradient_codec": ("gradients reduced between nodes as", ("int8", "int4")),
}
_MOVES = {
    "weight_gather": ("weights gathered", ("int8",)),
    "copy_gather": ("second copy gathered", ("int8",)),
    "gradient": ("gradients reduced", ("int8", "int4")),
    "step_reduction": ("gradients reduced for the step", ("int8", "int4")),
    "publish": ("new weights sent", ("int8",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionChange:
    """A change of a plan's options: what it is, and the keys of the scenario that make it."""

    label: str
    kind: Literal["overlap", "codec"]
    settings: Mapping[str, Any]
    note: str = ""


def option_changes(scenario: Scenario, plan: str) -> Iterator[OptionChange]:
    """What may be changed of a plan's options, those of its data axes included. Nothing for a plan whose name has a
    full stop, which a dotted key cannot hold."""
    if "." in plan:
        return
    options, table = scenario.plans[plan], scenario.file.plans[plan]
    for label, kind, changed, note in _changes(options, table):
        settings = {f"plans.{plan}.{key}": value for key, value in changed.items()}
        yield OptionChange(label=label, kind=kind, settings=settings, note=note)
    if isinstance(options, TensorOptions):
        given = table.get("data", {})
        data = dict(given) if isinstance(given, Mapping) else {}
        data["family"] = options.data.family
        for label, kind, changed, note in _changes(options.data, data):
            yield OptionChange(label=label, kind=kind, settings={f"plans.{plan}.data": data | changed}, note=note)


_Change = tuple[str, Literal["overlap", "codec"], dict[str, Any], str]


def _changes(options: Options, table: Mapping[str, Any]) -> Iterator[_Change]:
    for key, label in _OVERLAPS.items():
        if getattr(options, key, None) is False:
            yield label, "overlap", {key: True}, ""
    if isinstance(options, AxonnOptions) and options.gather_again:
        yield "the backward keeps the weights that it gathered", "overlap", {"gather_again": False}, ""
    if isinstance(options, ZeroppOptions):
        for key, (on, off) in _SWITCHES.items():
            is_on = getattr(options, key)
            label = off if is_on else on.format(**{name: str(value) for name, value in options})
            yield label, "codec", {key: not is_on}, "" if is_on else LOSES
    yield from _codecs(options)
    if isinstance(options, LatticeOptions):
        yield from _hops(options, table)


def _codecs(options: Options) -> Iterator[_Change]:
    """Every codec that a plan has, the other way: coded where it is plain, plain where it is coded."""
    switched = ("weight_codec", "quantised_gradient_codec") if isinstance(options, ZeroppOptions) else ()
    for key, (label, coarser) in _CODECS.items():
        if key not in type(options).model_fields or key in switched:
            continue
        if key == "gradient_codec" and _falls_back(options):
            label = "gradients that fall back reduced as"
        codec = getattr(options, key)
        if codec is not None and codec.is_opaque:
            yield f"{_plainly(label)} (instead of {codec})", "codec", {key: PLAIN}, ""
            continue
        scattered = {"reduction": "reduce_scatter"} if _all_reduces(options) and key == "gradient_codec" else {}
        for name in coarser:
            text = f"{name}:{_block(options)}"
            how = ", reduce-scattered" if scattered else ""
            yield f"{label} {text}{how}", "codec", {key: text, **scattered}, LOSES


def _all_reduces(options: Options) -> bool:
    """Whether gradients are all-reduced where ranks keep a part each: what is coded can only be scattered."""
    return isinstance(options, BucketOptions) and options.reduction == "all_reduce"


def _hops(options: LatticeOptions, table: Mapping[str, Any]) -> Iterator[_Change]:
    """The hops of a plan of one's own, each move as a whole."""
    for key, (label, coarser) in _MOVES.items():
        hops: tuple[HopOptions, ...] = getattr(options, key)
        listed = table.get(key)
        if not hops or not isinstance(listed, list):
            continue
        if any(hop.codec is not None and hop.codec.is_opaque for hop in hops):
            yield f"{label} plain", "codec", {key: [{**hop, "codec": PLAIN} for hop in listed]}, ""
            continue
        for name in coarser:
            text = f"{name}:{_block(options)}"
            yield f"{label} as {text}", "codec", {key: [{**hop, "codec": text} for hop in listed]}, LOSES


def _falls_back(options: Options) -> bool:
    """Whether the plan quantises gradients by other keys, so that the common one is of those that it cannot."""
    return isinstance(options, TopoOptions) or (isinstance(options, ZeroppOptions) and options.qgz)


def _plainly(label: str) -> str:
    return f"{label.removesuffix(' as')} plain"


def _block(options: Options) -> int:
    """Elements per scale of a codec that the plan has already."""
    blocks = [value.block for _, value in options if isinstance(value, Quantised)]
    return blocks[0] if blocks else BLOCK
