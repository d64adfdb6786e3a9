"""Plans of the ZeRO family: each is one point of the partition lattice over the data axes, defined by a few
placements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from simfrontier.core.codecs import Plain, Quantised
from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.options import CodecText, GatherOptions, HopOptions, Options, Reduction, ReductionOptions
from simfrontier.core.plan.plan import CopyRule, Plan, Purpose, SecondCopyRule
from simfrontier.core.program import Mesh

Axes = tuple[str, ...]
INT8, INT4 = Quantised("int8", 6144), Quantised("int4", 6144)
NODE_AXES = ("package", "gcd")  # within a node; the data axis before them goes across nodes


class PlainOptions(GatherOptions):
    """zero3: weights, gradients and optimizer states partitioned over all ranks."""


class BucketOptions(GatherOptions):
    """zero1, zero2: optimizer states (zero2: also gradients) partitioned over all ranks, weights whole.

    `reduction`: how a gradient reaches the ranks that store it. `all_reduce`: every bucket is all-reduced, and each
    rank keeps its part. This is what DeepSpeed does (0.16.5, runtime/zero/stage_1_and_2.py: `average_tensor` calls
    `allreduce_and_scatter`, which calls `dist.all_reduce`) if its keys `reduce_scatter` and
    `use_multi_rank_bucket_allreduce` are both true, their defaults; with `reduce_scatter` false it all-reduces, too.
    `reduce_scatter`: half as many bytes, as papers count ZeRO, and as Megatron-LM's distributed optimizer sends them;
    the nearest that DeepSpeed has, with `use_multi_rank_bucket_allreduce` false, is a `dist.reduce` to every rank.

    Gradients in codes that cannot be added up on the way can only be scattered, not all-reduced.

    `gather`: when ranks fetch the weights that other ranks have updated: all weights at the end of the step
    (DeepSpeed), or module by module, overlapping with the first forward of the next step (`overlap_param_gather` of
    Megatron-Core's distributed optimizer).
    """

    reduction: Reduction = "all_reduce"
    gather: Literal["step_end", "next_forward"] = "step_end"


class DdpOptions(GatherOptions):
    """ddp: no state is partitioned. `overlap_statistics`: gathers of statistics over all samples for later steps
    (queues, running means) overlap with all other work."""

    overlap_statistics: bool = False


class HsdpOptions(GatherOptions):
    """hsdp: weights, gradients and optimizer states sharded over the axes `shard`, replicated over the other axes (MiCS
    does the same)."""

    shard: tuple[str, ...] = NODE_AXES


class ZeroppOptions(GatherOptions):
    """zeropp: the three techniques of ZeRO++ (arXiv 2306.10209), each with a switch, and the version of the rule for
    hpZ."""

    qwz: bool = True
    hpz: bool = True
    qgz: bool = True
    hpz_version: Literal["0.10.0", "0.10.2", "0.13.2"] = "0.13.2"
    weight_codec: CodecText = INT8
    quantised_gradient_codec: CodecText = INT4
    secondary: tuple[str, ...] = NODE_AXES


class TopoOptions(Options):
    """zero-topo: weights partitioned over a package, gradients over a node, optimizer states over all ranks (arXiv
    2501.04266, reconstructed)."""

    weight_codec: CodecText = INT8
    node_gradient_codec: CodecText = INT4
    cross_gradient_codec: CodecText = INT4
    cross_gradients: Literal["step", "micro_batch"] = "step"
    second_copy: Literal["none", "plain", "fp16", "int8"] = "none"
    publish_codec: CodecText = None
    publish: Literal["node_then_package", "flat"] = "node_then_package"
    pipelined: bool = False


class LatticeOptions(GatherOptions):
    """lattice: any point of the partition lattice, given by the axes over which each state is flat, the nesting, and
    the hops of each move."""

    weight: tuple[str, ...]
    accumulator: tuple[str, ...]
    optimizer: tuple[str, ...]
    copy_axes: tuple[str, ...] | None = None
    copy_codec: CodecText = None
    copy_rule: SecondCopyRule = "first_gather_of_step"
    nesting: tuple[str, ...] | None = None
    one_at_a_time: bool = False
    pipelined: bool = False
    weight_gather: tuple[HopOptions, ...] = ()
    copy_gather: tuple[HopOptions, ...] = ()
    gradient: tuple[ReductionOptions, ...] = ()
    step_reduction: tuple[ReductionOptions, ...] = ()
    publish: tuple[HopOptions, ...] = ()


Hops = dict[Purpose, tuple[Hop, ...]]


def _point(
    name: str,
    options: Options,
    mesh: Mesh,
    data: Axes,
    *,
    weight: Axes = (),
    accumulator: Axes = (),
    optimizer: Axes = (),
    copy: Axes | None = None,
    nesting: Axes | None = None,
    routes: Hops | None = None,
    **other: Any,
) -> Plan:
    """Return the plan at one point of the lattice. The arguments give the axes over which each state is flat, the hops
    (`routes`) of moves that do not take a single hop over all axes, and other fields of the plan. By default the data
    axes nest in the order of the mesh; if no state is cut over them, they do not nest, to avoid padding, unless coded
    sums are scattered on their way."""
    axes, gather = mesh.live(data), getattr(options, "gather_codec", None)
    hops: Hops = {
        "weight_gather": (Hop(axes, gather),),
        "copy_gather": (Hop(axes, gather),),
        "gradient": (Hop(axes, options.gradient_codec),),
        "step_reduction": (Hop(axes, options.gradient_codec),),
        "publish": (Hop(axes),),
        "scalar": (Hop(axes),),
        **(routes or {}),
    }
    if nesting is None:
        is_cut = bool(mesh.live((*weight, *accumulator, *optimizer, *(copy or ()))))
        scatters = any(hop.scatters for hop in (*hops["gradient"], *hops["step_reduction"]))
        nesting = axes if is_cut or scatters else ()
    return Plan(
        name=name,
        family=options.family,
        axes=axes,
        nesting=mesh.live(nesting),
        weight=frozenset(mesh.live(weight)),
        accumulator=frozenset(mesh.live(accumulator)),
        optimizer=frozenset(mesh.live(optimizer)),
        copy=None if copy is None else frozenset(mesh.live(copy)),
        hops=hops,
        **other,
    )


def _ddp(name: str, options: DdpOptions, mesh: Mesh, data: Axes) -> Plan:
    return _point(name, options, mesh, data, overlaps_statistics=options.overlap_statistics)


def _bucketed(name: str, options: BucketOptions, mesh: Mesh, data: Axes) -> Plan:
    """Return the plan of zero1 or zero2, which differ only in the placement of the gradient accumulator."""
    own = (Hop(mesh.live(data), options.gradient_codec, whole=options.reduction == "all_reduce"),)
    routes: Hops = {"gradient": own, "step_reduction": own}
    accumulator = data if options.family == "zero2" else ()
    if options.gather == "step_end":
        return _point(name, options, mesh, data, accumulator=accumulator, optimizer=data, routes=routes)
    plan = _point(name, options, mesh, data, weight=data, accumulator=accumulator, optimizer=data, routes=routes)
    return replace(plan, copy=frozenset(), copy_rule="in_place")


def _zero3(name: str, options: PlainOptions, mesh: Mesh, data: Axes) -> Plan:
    return _point(name, options, mesh, data, weight=data, accumulator=data, optimizer=data)


def _hsdp(name: str, options: HsdpOptions, mesh: Mesh, data: Axes) -> Plan:
    shard = mesh.ordered(options.shard)
    return _point(name, options, mesh, data, weight=shard, accumulator=shard, optimizer=shard, nesting=shard)


_COPY_RULES: dict[str, CopyRule] = {
    "0.10.0": "every_forward",
    "0.10.2": "stale_forward",
    "0.13.2": "first_gather_of_step",
}


def _zeropp(name: str, options: ZeroppOptions, mesh: Mesh, data: Axes) -> Plan:
    axes, secondary = mesh.live(data), mesh.live(mesh.ordered(options.secondary))
    across = tuple(axis for axis in axes if axis not in secondary)
    gather = (Hop(axes, options.weight_codec if options.qwz else options.gather_codec),)
    quantised = options.qgz and bool(across)  # on one node DeepSpeed's qgZ falls back to the plain reduce-scatter
    plain = (Hop(axes, options.gradient_codec),)
    two_hops = tuple(Hop(hop, options.quantised_gradient_codec) for hop in (secondary, across) if hop)
    return _point(
        name,
        options,
        mesh,
        data,
        weight=data,
        accumulator=data,
        optimizer=data,
        copy=secondary if options.hpz and across else None,
        nesting=data,
        routes={"weight_gather": gather, "copy_gather": gather, "gradient": two_hops if quantised else plain},
        copy_rule=_COPY_RULES[options.hpz_version],
        fallback=plain if quantised else None,
        fallback_multiple=2 * mesh.size(data),
        one_at_a_time=quantised,
    )


def _topo(name: str, options: TopoOptions, mesh: Mesh, data: Axes) -> Plan:
    axes, across = mesh.live(data), tuple(axis for axis in data if axis not in NODE_AXES)
    per_micro_batch = options.cross_gradients == "micro_batch"
    quantised = options.node_gradient_codec is not None and options.node_gradient_codec.is_opaque
    in_node = Hop(mesh.live(("gcd", "package")), options.node_gradient_codec)
    cross = Hop(mesh.live(across), options.cross_gradient_codec)
    publish = (axes,) if options.publish == "flat" else (across, NODE_AXES)
    has_copy = options.second_copy != "none" and mesh.live(NODE_AXES) != mesh.live(("gcd",))
    return _point(
        name,
        options,
        mesh,
        data,
        weight=("gcd",),
        accumulator=data if per_micro_batch else NODE_AXES,
        optimizer=data,
        copy=NODE_AXES if has_copy else None,
        nesting=("gcd", "package", *across),
        routes={
            "weight_gather": (Hop(axes, options.weight_codec),),
            "copy_gather": (Hop(axes, INT8 if options.second_copy == "int8" else options.weight_codec),),
            "gradient": (in_node, cross) if per_micro_batch else (in_node,),
            "step_reduction": (cross,),
            "publish": tuple(Hop(hop, options.publish_codec) for hop in publish),
        },
        copy_codec={"int8": INT8, "fp16": Plain("fp16")}.get(options.second_copy),
        fallback=(Hop(axes, options.gradient_codec),) if quantised else None,
        fallback_multiple=2 * mesh.size(NODE_AXES),
        one_at_a_time=quantised,
        pipelined=options.pipelined,
    )


_ROUTES: tuple[Purpose, ...] = ("weight_gather", "copy_gather", "gradient", "step_reduction", "publish")


def _lattice(name: str, options: LatticeOptions, mesh: Mesh, data: Axes) -> Plan:
    routes: Hops = {}
    if options.copy_codec is not None:
        routes["copy_gather"] = (Hop(mesh.live(data), options.copy_codec),)
    for purpose in _ROUTES:
        if hops := getattr(options, purpose):
            routes[purpose] = tuple(hop.hop() for hop in hops)
    return _point(
        name,
        options,
        mesh,
        data,
        weight=options.weight,
        accumulator=options.accumulator,
        optimizer=options.optimizer,
        copy=options.copy_axes,
        nesting=options.nesting,
        routes=routes,
        copy_codec=options.copy_codec,
        copy_rule=options.copy_rule,
        one_at_a_time=options.one_at_a_time,
        pipelined=options.pipelined,
    )


ZERO: dict[str, tuple[type[Options], Callable[..., Plan]]] = {
    "ddp": (DdpOptions, _ddp),
    "zero1": (BucketOptions, _bucketed),
    "zero2": (BucketOptions, _bucketed),
    "zero3": (PlainOptions, _zero3),
    "hsdp": (HsdpOptions, _hsdp),
    "zeropp": (ZeroppOptions, _zeropp),
    "zero-topo": (TopoOptions, _topo),
    "lattice": (LatticeOptions, _lattice),
}
