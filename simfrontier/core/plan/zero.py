"""The plans of the ZeRO family: each a point of the partition lattice over the data axes, as a few lines of
placements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from simfrontier.core.codecs import Codec, Plain, Quantised
from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.options import CodecText, GatherOptions, HopOptions, Options, Reduction, ReductionOptions
from simfrontier.core.plan.plan import CopyRule, Plan, Purpose, SecondCopyRule
from simfrontier.core.program import Mesh

Axes = tuple[str, ...]
INT8, INT4 = Quantised("int8", 6144), Quantised("int4", 6144)
NODE_AXES = ("package", "gcd")  # within a node; the data axis before them goes across nodes


class PlainOptions(GatherOptions):
    """zero3: partitioned over all ranks."""


class BucketOptions(GatherOptions):
    """zero1, zero2: optimizer states (and gradients) partitioned over all ranks, weights whole.

    `reduction`: how a gradient comes to the ranks that keep it. `all_reduce`: every bucket is all-reduced, and each
    rank keeps its part. So does DeepSpeed (0.16.5, runtime/zero/stage_1_and_2.py: `average_tensor` calls
    `allreduce_and_scatter`, which calls `dist.all_reduce`), with its keys `reduce_scatter` and
    `use_multi_rank_bucket_allreduce` both true, their defaults; with `reduce_scatter` false it all-reduces too.
    `reduce_scatter`: half as many bytes, as papers count ZeRO, and as Megatron-LM's distributed optimizer sends them;
    DeepSpeed has nothing like it but, with `use_multi_rank_bucket_allreduce` false, a `dist.reduce` to every rank.

    Codes that cannot be added up in between can only be scattered.

    `gather`: when ranks fetch the weights that others have stepped: all at the end of the step (DeepSpeed), or, module
    by module, beside the first forward of the next one (`overlap_param_gather` of Megatron-Core's distributed
    optimizer).
    """

    reduction: Reduction = "all_reduce"
    gather: Literal["step_end", "next_forward"] = "step_end"


class DdpOptions(GatherOptions):
    """ddp: not partitioned. `overlap_statistics`: what a model gathers of all samples for later steps (queues,
    running means) runs beside the rest."""

    overlap_statistics: bool = False


class HsdpOptions(GatherOptions):
    """hsdp: weights, gradients and optimizer sharded over `shard`, replicated over the other axes (MiCS is the
    same)."""

    shard: tuple[str, ...] = NODE_AXES


class ZeroppOptions(GatherOptions):
    """zeropp: the three parts of ZeRO++ (arXiv 2306.10209), each switchable, and the version of hpZ's rule."""

    qwz: bool = True
    hpz: bool = True
    qgz: bool = True
    hpz_version: Literal["0.10.0", "0.10.2", "0.13.2"] = "0.13.2"
    weight_codec: CodecText = INT8
    quantised_gradient_codec: CodecText = INT4
    secondary: tuple[str, ...] = NODE_AXES


class TopoOptions(Options):
    """zero-topo: weights over a package, gradients over a node, optimizer over all (arXiv 2501.04266,
    reconstructed)."""

    weight_codec: CodecText = INT8
    node_gradient_codec: CodecText = INT4
    cross_gradient_codec: CodecText = INT4
    cross_gradients: Literal["step", "micro_batch"] = "step"
    second_copy: Literal["none", "plain", "fp16", "int8"] = "none"
    publish_codec: CodecText = None
    publish: Literal["node_then_package", "flat"] = "node_then_package"
    pipelined: bool = False


class LatticeOptions(GatherOptions):
    """lattice: any point: the axes over which each state is flat, the nesting, and the hops of each move."""

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


def _routes(axes: tuple[str, ...], weights: Codec | None, gradients: Codec | None, **other: tuple[Hop, ...]) -> Hops:
    """Every move in one hop over all axes, except those given."""
    routes: Hops = {
        "weight_gather": (Hop(axes, weights),),
        "copy_gather": (Hop(axes, weights),),
        "gradient": (Hop(axes, gradients),),
        "step_reduction": (Hop(axes, gradients),),
        "publish": (Hop(axes),),
        "scalar": (Hop(axes),),
    }
    routes.update(other)  # type: ignore[arg-type]
    return routes


def _nesting(axes: Axes, is_cut: bool, routes: Hops) -> Axes:
    """The axes of the data; none where nothing is cut over them, so that nothing is padded for them either, unless
    coded sums are scattered on their way."""
    scatters = any(hop.scatters for hop in (*routes["gradient"], *routes["step_reduction"]))
    return axes if is_cut or scatters else ()


def _bucketed(accumulator: bool) -> Callable[[str, BucketOptions, Mesh, Axes], Plan]:
    def make(name: str, options: BucketOptions, mesh: Mesh, data: Axes) -> Plan:
        plan = _plain(False, accumulator, True)(name, options, mesh, data)
        own = (Hop(plan.axes, options.gradient_codec, whole=options.reduction == "all_reduce"),)
        plan = replace(plan, hops={**plan.hops, "gradient": own, "step_reduction": own})
        if options.gather == "step_end":
            return plan
        return replace(plan, weight=frozenset(plan.axes), copy=frozenset(), copy_rule="in_place")

    return make


def _ddp(name: str, options: DdpOptions, mesh: Mesh, data: Axes) -> Plan:
    plan = _plain(False, False, False)(name, options, mesh, data)
    return replace(plan, overlaps_statistics=options.overlap_statistics)


def _plain(weight: bool, accumulator: bool, optimizer: bool) -> Callable[[str, GatherOptions, Mesh, Axes], Plan]:
    def make(name: str, options: GatherOptions, mesh: Mesh, data: Axes) -> Plan:
        axes = mesh.live(data)
        every, routes = frozenset(axes), _routes(axes, options.gather_codec, options.gradient_codec)
        return Plan(
            name=name,
            family=options.family,
            axes=axes,
            nesting=_nesting(axes, weight or accumulator or optimizer, routes),
            weight=every if weight else frozenset(),
            accumulator=every if accumulator else frozenset(),
            optimizer=every if optimizer else frozenset(),
            hops=routes,
        )

    return make


def _hsdp(name: str, options: HsdpOptions, mesh: Mesh, data: Axes) -> Plan:
    axes, shard = mesh.live(data), mesh.live(mesh.ordered(options.shard))
    return Plan(
        name=name,
        family=options.family,
        axes=axes,
        nesting=shard,
        weight=frozenset(shard),
        accumulator=frozenset(shard),
        optimizer=frozenset(shard),
        hops=_routes(axes, options.gather_codec, options.gradient_codec),
    )


_COPY_RULES: dict[str, CopyRule] = {
    "0.10.0": "every_forward",
    "0.10.2": "stale_forward",
    "0.13.2": "first_gather_of_step",
}


def _zeropp(name: str, options: ZeroppOptions, mesh: Mesh, data: Axes) -> Plan:
    axes, secondary = mesh.live(data), mesh.live(mesh.ordered(options.secondary))
    across = tuple(axis for axis in axes if axis not in secondary)
    gather = options.weight_codec if options.qwz else options.gather_codec
    quantised = options.qgz and bool(across)  # on one node DeepSpeed's qgZ falls back to the plain reduce-scatter
    plain = (Hop(axes, options.gradient_codec),)
    two_hops = tuple(Hop(hop, options.quantised_gradient_codec) for hop in (secondary, across) if hop)
    return Plan(
        name=name,
        family=options.family,
        axes=axes,
        nesting=axes,
        weight=frozenset(axes),
        copy=frozenset(secondary) if options.hpz and across else None,
        copy_rule=_COPY_RULES[options.hpz_version],
        accumulator=frozenset(axes),
        optimizer=frozenset(axes),
        hops=_routes(axes, gather, options.gradient_codec, gradient=two_hops if quantised else plain),
        fallback=plain if quantised else None,
        fallback_multiple=2 * mesh.size(data),
        one_at_a_time=quantised,
    )


def _topo(name: str, options: TopoOptions, mesh: Mesh, data: Axes) -> Plan:
    axes, across = mesh.live(data), tuple(axis for axis in data if axis not in NODE_AXES)
    nesting = mesh.live(("gcd", "package", *across))
    pair, node = frozenset(mesh.live(("gcd",))), frozenset(mesh.live(NODE_AXES))
    per_micro_batch = options.cross_gradients == "micro_batch"
    quantised = options.node_gradient_codec is not None and options.node_gradient_codec.is_opaque
    in_node = Hop(mesh.live(("gcd", "package")), options.node_gradient_codec)
    cross = Hop(mesh.live(across), options.cross_gradient_codec)
    gradient = (in_node, cross) if per_micro_batch else (in_node,)
    publish: tuple[Hop, ...] = (Hop(across, options.publish_codec), Hop(NODE_AXES, options.publish_codec))
    if options.publish == "flat":
        publish = (Hop(axes, options.publish_codec),)
    return Plan(
        name=name,
        family=options.family,
        axes=axes,
        nesting=nesting,
        weight=pair,
        copy=None if options.second_copy == "none" or pair == node else node,
        copy_codec={"int8": INT8, "fp16": Plain("fp16")}.get(options.second_copy),
        accumulator=frozenset(axes) if per_micro_batch else node,
        optimizer=frozenset(axes),
        hops=_routes(
            axes,
            options.weight_codec,
            options.gradient_codec,
            copy_gather=(Hop(axes, INT8 if options.second_copy == "int8" else options.weight_codec),),
            gradient=gradient,
            step_reduction=(cross,),
            publish=publish,
        ),
        fallback=(Hop(axes, options.gradient_codec),) if quantised else None,
        fallback_multiple=2 * mesh.size(node),
        one_at_a_time=quantised,
        pipelined=options.pipelined,
    )


def _lattice(name: str, options: LatticeOptions, mesh: Mesh, data: Axes) -> Plan:
    axes = mesh.live(data)
    routes = _routes(axes, options.gather_codec, options.gradient_codec)
    if options.copy_codec is not None:
        routes["copy_gather"] = (Hop(axes, options.copy_codec),)
    for purpose in ("weight_gather", "copy_gather", "gradient", "step_reduction", "publish"):
        hops: tuple[HopOptions, ...] = getattr(options, purpose)
        if hops:
            routes[purpose] = tuple(hop.hop() for hop in hops)

    def live(names: tuple[str, ...]) -> frozenset[str]:
        return frozenset(mesh.live(names))

    is_cut = bool(live((*options.weight, *options.accumulator, *options.optimizer, *(options.copy_axes or ()))))
    return Plan(
        name=name,
        family=options.family,
        axes=axes,
        nesting=_nesting(axes, is_cut, routes) if options.nesting is None else mesh.live(options.nesting),
        weight=live(options.weight),
        copy=None if options.copy_axes is None else live(options.copy_axes),
        copy_codec=options.copy_codec,
        copy_rule=options.copy_rule,
        accumulator=live(options.accumulator),
        optimizer=live(options.optimizer),
        hops=routes,
        one_at_a_time=options.one_at_a_time,
        pipelined=options.pipelined,
    )


ZERO: dict[str, tuple[type[Options], Callable[..., Plan]]] = {
    "ddp": (DdpOptions, _ddp),
    "zero1": (BucketOptions, _bucketed(accumulator=False)),
    "zero2": (BucketOptions, _bucketed(accumulator=True)),
    "zero3": (PlainOptions, _plain(True, True, True)),
    "hsdp": (HsdpOptions, _hsdp),
    "zeropp": (ZeroppOptions, _zeropp),
    "zero-topo": (TopoOptions, _topo),
    "lattice": (LatticeOptions, _lattice),
}
