"""What might help a plan among its own options: overlaps that it has off, and messages coded otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from simfrontier.answers.explain.change import Change
from simfrontier.core.codecs import Quantised
from simfrontier.core.plan import (
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
from simfrontier.inputs.scenario import Scenario

BLOCK = 6144  # elements per scale where the plan has no block of its own: that of the ZeRO++ and ZeRO-topo defaults
LOSES = "loses precision"
_OVERLAPS = {
    "oar": "all-reduces overlap with the weights' gradients (OAR)",
    "ors": "reduce-scatters overlap with the backward (ORS)",
    "oag": "all-gathers overlap with computation (OAG)",
    "overlap_input_gradients": "communication of inputs and their gradients overlaps with products of the backward",
    "overlap_gradients": "reductions of gradients overlap with the last backward",
    "overlap_exchange": "exchanges of stages overlap with computation",
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


def option_changes(scenario: Scenario, plan: str) -> Iterator[Change]:
    """What may be changed of a plan's options, those of its data axes included. Nothing for a plan whose name has a
    full stop, which a dotted key cannot hold."""
    if "." in plan:
        return
    options, table = scenario.plans[plan], scenario.file.plans[plan]
    for change in _changes(options, table):
        yield replace(change, settings={f"plans.{plan}.{key}": value for key, value in change.settings.items()})
    if isinstance(options, TensorOptions):
        given = table.get("data", {})
        data = dict(given) if isinstance(given, Mapping) else {}
        data["family"] = options.data.family
        for change in _changes(options.data, data):
            yield replace(change, settings={f"plans.{plan}.data": data | dict(change.settings)})


def _overlap(label: str, **settings: Any) -> Change:
    return Change(label=label, kind="overlap", settings=settings)


def _plain(label: str, **settings: Any) -> Change:
    return Change(label=label, kind="codec", settings=settings)


def _coded(label: str, **settings: Any) -> Change:
    return Change(label=label, kind="codec", settings=settings, note=LOSES)


def _changes(options: Options, table: Mapping[str, Any]) -> Iterator[Change]:
    """Changes of a table of options, by its own keys."""
    for key, label in _OVERLAPS.items():
        if getattr(options, key, None) is False:
            yield _overlap(label, **{key: True})
    if isinstance(options, AxonnOptions) and options.gather_again:
        yield _overlap("the backward keeps the weights that it gathered", gather_again=False)
    if isinstance(options, ZeroppOptions):
        for key, (on, off) in _SWITCHES.items():
            if getattr(options, key):
                yield _plain(off, **{key: False})
            else:
                yield _coded(on.format(**{name: str(value) for name, value in options}), **{key: True})
    yield from _codecs(options)
    if isinstance(options, LatticeOptions):
        yield from _hops(options, table)


def _codecs(options: Options) -> Iterator[Change]:
    """Every codec that a plan has, the other way: coded where it is plain, plain where it is coded."""
    switched = ("weight_codec", "quantised_gradient_codec") if isinstance(options, ZeroppOptions) else ()
    for key, (label, coarser) in _CODECS.items():
        if key not in type(options).model_fields or key in switched:
            continue
        if key == "gradient_codec" and _falls_back(options):
            label = "gradients that fall back reduced as"
        codec = getattr(options, key)
        if codec is not None and codec.is_opaque:
            yield _plain(f"{label.removesuffix(' as')} plain (instead of {codec})", **{key: PLAIN})
            continue
        scattered = {"reduction": "reduce_scatter"} if _all_reduces(options) and key == "gradient_codec" else {}
        for name in coarser:
            text = f"{name}:{_block(options)}"
            how = ", reduce-scattered" if scattered else ""
            yield _coded(f"{label} {text}{how}", **{key: text, **scattered})


def _all_reduces(options: Options) -> bool:
    """Whether gradients are all-reduced where ranks keep a part each: what is coded can only be scattered."""
    return isinstance(options, BucketOptions) and options.reduction == "all_reduce"


def _hops(options: LatticeOptions, table: Mapping[str, Any]) -> Iterator[Change]:
    """The hops of a plan of one's own, each move as a whole."""
    for key, (label, coarser) in _MOVES.items():
        hops: tuple[HopOptions, ...] = getattr(options, key)
        listed = table.get(key)
        if not hops or not isinstance(listed, list):
            continue
        if any(hop.codec is not None and hop.codec.is_opaque for hop in hops):
            yield _plain(f"{label} plain", **{key: [{**hop, "codec": PLAIN} for hop in listed]})
            continue
        for name in coarser:
            text = f"{name}:{_block(options)}"
            yield _coded(f"{label} as {text}", **{key: [{**hop, "codec": text} for hop in listed]})


def _falls_back(options: Options) -> bool:
    """Whether the plan quantises gradients by other keys, so that the common one is of those that it cannot."""
    return isinstance(options, TopoOptions) or (isinstance(options, ZeroppOptions) and options.qgz)


def _block(options: Options) -> int:
    """Elements per scale of a codec that the plan has already."""
    blocks = [value.block for _, value in options if isinstance(value, Quantised)]
    return blocks[0] if blocks else BLOCK
