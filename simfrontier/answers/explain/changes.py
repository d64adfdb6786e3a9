"""Changes that might help a plan: settings and options to simulate, each as a modified scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from simfrontier.answers.step import traffic
from simfrontier.base.io import toml_value
from simfrontier.base.units import written
from simfrontier.core.codecs import Quantised
from simfrontier.core.collectives import all_algorithms
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.machine import Provenance
from simfrontier.core.plan import (
    PLAIN,
    AxonnOptions,
    BucketOptions,
    HopOptions,
    LatticeOptions,
    MegatronOptions,
    Options,
    TensorOptions,
    TopoOptions,
    ZeroppOptions,
)
from simfrontier.core.program import Compute
from simfrontier.inputs.scenario import Scenario

Kind = Literal["link", "start-up", "device", "host", "overlap", "codec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to try: dotted keys of the scenario and their values."""

    label: str
    kind: Kind
    settings: Mapping[str, Any]
    note: str = ""

    @property
    def is_of_schedule(self) -> bool:
        """True if the change acts only through the schedule: if the schedule stays the same, it has no effect."""
        return self.kind in ("overlap", "codec")


_WORD = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")


def setting_text(key: str, value: Any) -> str:
    """Return `key=value`, which `scenario.parse_setting` parses back to the same key and value."""
    return f"{key}={value if isinstance(value, str) and _is_a_word(value) else toml_value(value)}"


def _is_a_word(value: str) -> bool:
    """Return whether an unquoted text is parsed as a string, not as a number, date, table or boolean."""
    return value not in ("true", "false", "inf", "nan") and _WORD.fullmatch(value) is not None


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
_CONTEXT = {
    "ring": "keys and values go around a ring beside attention",
    "gather": "keys and values are gathered before attention",
    "heads": "heads are exchanged for the cut of the sequence (all-to-alls)",
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
    """Yield the possible changes of a plan's options, including those of its data axes; none for a plan whose name
    contains a full stop, which a dotted key cannot express."""
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
    """Yield changes of a table of options, with keys relative to the table."""
    for key, label in _OVERLAPS.items():
        does_already = key == "overlap_exchange" and isinstance(options, TensorOptions) and options.chunks > 1
        if getattr(options, key, None) is False and not does_already:
            yield _overlap(label, **{key: True})
    if isinstance(options, AxonnOptions) and options.gather_again:
        yield _overlap("the backward keeps the weights that it gathered", gather_again=False)
    if isinstance(options, MegatronOptions) and options.context > 1 and options.context_heads == 1:
        for by, label in _CONTEXT.items():
            if by != options.context_by:
                yield _overlap(label, context_by=by)
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
    """Yield, for each codec option of a plan, the opposite choice: encoded if it is unencoded, unencoded if it is
    encoded.
    """
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
    """Return whether gradients are all-reduced although each rank keeps only a shard; encoded gradients can only be
    reduce-scattered.
    """
    return isinstance(options, BucketOptions) and options.reduction == "all_reduce"


def _hops(options: LatticeOptions, table: Mapping[str, Any]) -> Iterator[Change]:
    """Yield changed codecs for the hops of a user-defined plan; the hops of one data movement change together."""
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
    """Return whether the plan quantises gradients by other keys, so that the common key applies only to gradients that
    those keys cannot quantise.
    """
    return isinstance(options, TopoOptions) or (isinstance(options, ZeroppOptions) and options.qgz)


def _block(options: Options) -> int:
    """Return the number of elements per scale of a quantised codec that the plan already uses, or the default."""
    blocks = [value.block for _, value in options if isinstance(value, Quantised)]
    return blocks[0] if blocks else BLOCK


_START_UPS = {
    ("base_s",): "start-up of collectives halved",
    ("hop_between_nodes_s",): "latency of hops between nodes halved",
    ("hop_in_node_s", "hop_s"): "latency of hops inside a node halved",
}
_ENGINE: tuple[tuple[str, object, object, str], ...] = (
    ("overlap", False, True, "communication overlaps with computation (engine)"),
    ("blocking", "host", "stream", "blocking calls block their stream, not the host (engine)"),
    ("synchronise", "experts", "never", "no launches of experts one by one, no waits for their rows (engine)"),
    ("step_reduction", "end", "overlap", "last reduction of gradients overlaps with the backward (engine)"),
)


def what_ifs(scenario: Scenario, plan: str, step: SimulatedStep) -> Iterator[Change]:
    """Yield all changes that may concern a plan of a scenario whose search is decided; `step` is its simulated step.
    Some of the changes may be impossible for the plan or have no effect.
    """
    yield from _links(scenario, step)
    yield from _start_ups(scenario)
    yield from _device(scenario)
    yield from _host(scenario, step)
    for key, off, on, label in _ENGINE:
        if getattr(scenario.file.engine, key) == off:
            yield Change(label=label, kind="overlap", settings={f"engine.{key}": on})
    yield from option_changes(scenario, plan)


def _links(scenario: Scenario, step: SimulatedStep) -> Iterator[Change]:
    """Yield a doubling of the bandwidth of every link class that the plan's messages use, and of the bandwidth that the
    library reaches inside a node.
    """
    numbers, fabric = _numbers(scenario.machine.provenance()), step.pricing.fabric
    used = traffic(step).on_link > 0.0
    for number, name in enumerate(fabric.class_names):
        key = f"link_classes.{name}.bytes_per_s"
        if key in numbers and used[fabric.link_class == number].any():
            rate = numbers[key]
            yield Change(
                label=f"{name} links twice as fast",
                kind="link",
                settings={f"machine.overrides.{key}": 2.0 * rate},
                note=f"{written(2.0 * rate, 'bytes/s')} instead of {written(rate, 'bytes/s')}",
            )
    caps = {
        key: value for key, value in _numbers(scenario.library.provenance()).items() if key.startswith("ring_caps.")
    }
    if caps:
        yield Change(
            label="rings inside a node twice as fast",
            kind="link",
            settings={f"library.overrides.{key}": 2.0 * value for key, value in caps.items()},
            note="measured bandwidth of the library, whatever the links",
        )


def _start_ups(scenario: Scenario) -> Iterator[Change]:
    numbers = _numbers(scenario.library.provenance())
    laws = {law for each in all_algorithms() for law in each.laws}  # what calls take, not what the library believes
    for names, label in _START_UPS.items():
        mine = {
            f"library.overrides.{key}": 0.5 * value
            for key, value in numbers.items()
            if key.partition(".")[0] in laws
            and ".tuning." not in key
            and key.rpartition(".")[2] in names
            and value > 0.0
        }
        if mine:
            yield Change(label=label, kind="start-up", settings=mine)


def _device(scenario: Scenario) -> Iterator[Change]:
    numbers = _numbers(scenario.machine.provenance())
    precision = scenario.file.model.precision
    table = f"device.{precision}" if f"device.{precision}.matmul_flops_per_s" in numbers else "device"
    rates = [f"{table}.{name}" for name in ("peak_flops_per_s", "matmul_flops_per_s")]
    yield Change(
        label="matrix products twice as fast",
        kind="device",
        settings={f"machine.overrides.{key}": 2.0 * numbers[key] for key in rates if key in numbers},
    )
    key = "device.hbm_bytes_per_s"
    yield Change(
        label="device memory twice as fast",
        kind="device",
        settings={f"machine.overrides.{key}": 2.0 * numbers[key]},
        note=f"{written(2.0 * numbers[key], 'bytes/s')} instead of {written(numbers[key], 'bytes/s')}",
    )


def _host(scenario: Scenario, step: SimulatedStep) -> Iterator[Change]:
    """Yield the removal of the host time per hook, if the plan has hooks that run on the host."""
    hook_s = scenario.machine.host.hook_s
    ops = step.schedule.ops
    if hook_s > 0.0 and any(isinstance(op, Compute) and op.kind == "hook" and op.lane == "host" for op in ops):
        yield Change(
            label="no host time for hooks",
            kind="host",
            settings={"machine.overrides.host.hook_s": 0.0},
            note=f"instead of {written(hook_s, 's')} each",
        )


def _numbers(sources: tuple[Provenance, ...]) -> dict[str, float]:
    """Return the numbers of a file by key, without those in sub-tables."""
    return {each.key: float(each.value) for each in sources if each.unit != "entries"}
