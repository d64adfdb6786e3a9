"""Tensor-parallel plans: AxoNN's 4D grid, and Megatron-LM's tensor and pipeline parallelism; both take any plan of the
ZeRO family on their data axes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator

from simfrontier.base.errors import InputError, shown
from simfrontier.base.io import Names
from simfrontier.core.codecs import Codec
from simfrontier.core.plan.compression import LEAST_BYTES, Compression, compression_of
from simfrontier.core.plan.context import ContextBy, context_axes, context_cuts, context_sizes, refuse_context
from simfrontier.core.plan.grid import (
    CONTEXT,
    DATA_AXES,
    EXPERT,
    STAGE,
    Sizes,
    data_sizes,
    grid_mesh,
    listed,
    ranks_left,
    refuse_remainder,
)
from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.options import CodecText, Options
from simfrontier.core.plan.plan import V_ORDERS, Engine, Pipeline, PipelineOrder, Plan, Purpose
from simfrontier.core.plan.zero import ZERO, BucketOptions, DdpOptions
from simfrontier.core.program import DISPATCHERS, LIBRARY, Mesh
from simfrontier.core.workload import (
    USUAL_CROSS_ENTROPY,
    Attention,
    CrossEntropy,
    GptShape,
    MlpShape,
    Shape,
    num_blocks,
)

Ranks = Annotated[int, Field(ge=1, le=2**20)]
Pieces = Annotated[int, Field(ge=1, le=64)]
TABLES = ("embedding", "positions")  # modules that look up rows
COLUMNS = ("a", "f", "v", "c")  # labels of features that a module makes for itself: heads, feed-forward, classes
DISPATCHES = ("dispatch", "combine")  # kinds of ops that copy rows to experts and back


class TensorOptions(Options, ABC):
    """Options of both tensor-parallel families: pipeline stages and their order, the plan on the data axes, and the
    method of the loss where the classes (vocabulary) are divided among ranks."""

    pipeline: Ranks = 1
    order: PipelineOrder = "1f1b"
    chunks: Ranks = 1
    overlap_exchange: bool = False
    layers: Literal["equal", "even"] | tuple[Annotated[int, Field(ge=0, le=2**20)], ...] = "equal"
    cross_entropy: CrossEntropy = USUAL_CROSS_ENTROPY
    data: Options = DdpOptions(family="ddp")

    @field_validator("data", mode="after")
    @classmethod
    def _scattered(cls, data: Options) -> Options:
        """Return options in which ZeRO-1 and ZeRO-2 on the data axes use reduce-scatter by default, as in Megatron-LM's
        distributed optimizer (core/distributed/param_and_grad_buffer.py, `start_grad_sync`)."""
        if isinstance(data, BucketOptions) and "reduction" not in data.model_fields_set:
            return data.model_copy(update={"reduction": "reduce_scatter"})
        return data

    @property
    def on_data(self) -> Options:
        return self.data

    @property
    @abstractmethod
    def inside(self) -> Sizes:
        """Axes of the grid inside a pipeline stage with their sizes, slowest first; the data axes are not included."""

    @abstractmethod
    def mesh(self, num_devices: int, per_node: int, per_package: int) -> Mesh:
        """Return the mesh of a job on `num_devices` devices. Raises InputError if the grid does not divide this
        number."""

    def refuse_shape(self, shape: Shape) -> None:
        """Raise InputError if the grid does not divide the sizes of the model."""
        refuse_stages(self, shape)

    def refuse_attention(self, attention: Attention) -> None:
        """Raise InputError for attention that the plan does not divide."""

    def refuse_micro_batches(self, count: int) -> None:
        """Raise InputError for a number of micro-batches that the pipeline order cannot run."""
        if self.pipeline > 1 and self.order == "dualpipev" and count < 2 * self.pipeline:
            raise InputError(
                f'order = "dualpipev" needs two micro-batches per stage: {2 * self.pipeline} or more, got {count}'
            )
        if count % self.micro_batches_together:
            fits = [
                n for n in (count // self.pipeline * self.pipeline, -(-count // self.pipeline) * self.pipeline) if n
            ]
            raise InputError(
                f'order = "{self.order}" needs micro-batches that divide by pipeline = {self.pipeline}, got {count}; '
                f"nearest: {listed(fits)}"
            )

    @property
    def micro_batches_together(self) -> int:
        return self.pipeline if self.order not in V_ORDERS and self.chunks > 1 else 1

    @property
    def stages(self) -> Pipeline | None:
        """Pipeline of the plan; None if there is only one stage, unless its passes alternate."""
        if self.pipeline == 1:
            return Pipeline(axis=STAGE, alternates=True) if self.alternates else None
        return Pipeline(
            axis=STAGE,
            order=self.order,
            chunks=self.chunks,
            overlap=self.overlap_exchange or self.chunks > 1,
            layers=self.layers if isinstance(self.layers, tuple) else (),
            alternates=self.alternates,
        )

    @property
    def alternates(self) -> bool:
        """Whether the ops of a forward and a backward alternate, so that dispatches overlap with computation."""
        return False


class AxonnOptions(TensorOptions):
    """axonn: the grid X × Y × Z (arXiv 2305.13525), its overlaps, and whether a backward gathers the weights again that
    the recomputed forward already gathered.

    `mode`: in AxoNN's easy mode (`auto_parallelize`, axonn/intra_layer/automatic_parallelism.py) only linear modules
    are divided: every rank has whole embedding tables, whose gradients, and those of norms, are reduced over all ranks
    of the job at once (`sync_gradients`). In the expert mode, that of Megatron-AxoNN, tables are divided as well.
    `gather_codec`: data type of the weights that Z gathers; under autocast these are the FP32 weights, which every rank
    casts after the gather.
    """

    x: Ranks = 1
    y: Ranks = 1
    z: Ranks = 1
    mode: Literal["expert", "easy"] = "expert"
    gather_codec: CodecText = None
    oar: bool = True
    ors: bool = True
    oag: bool = True
    gather_again: bool = False

    @property
    def inside(self) -> Sizes:
        return (("z", self.z), ("y", self.y), ("x", self.x))

    def mesh(self, num_devices: int, per_node: int, per_package: int) -> Mesh:
        model = ((STAGE, self.pipeline), *self.inside)
        data = ranks_left(num_devices, model)
        inner = self.pipeline * self.x * self.y * self.z
        return grid_mesh((), data_sizes(data, inner, per_node, per_package), model)

    def batch_ranks(self, mesh: Mesh) -> int:
        return mesh.size((*DATA_AXES, "z"))

    def refuse_shape(self, shape: Shape) -> None:
        super().refuse_shape(shape)
        self._refuse_easy(shape)
        if isinstance(shape, GptShape) and (shape.num_experts or shape.mtp_layers):
            what = "experts" if shape.num_experts else "mtp_layers"
            raise InputError(f'family = "axonn" of {shape.name}, which has {what}; allowed: "megatron"')
        refuse_remainder("hidden", shape.hidden, "x", self.x)
        refuse_columns(shape, "y", self.y)
        squares = 1 if isinstance(shape, GptShape) else 4  # in a layer's smallest matrix, of which others are multiples
        product = "hidden²" if squares == 1 else f"{squares} hidden²"
        refuse_remainder(f"{product} / (x y)", squares * shape.hidden**2 // (self.x * self.y), "z", self.z)
        for name, features in _other_matrices(shape):
            refuse_remainder(f"hidden {name} / (x y)", shape.hidden * features // (self.x * self.y), "z", self.z)

    def _refuse_easy(self, shape: Shape) -> None:
        """Raise InputError for combinations with the easy mode that are not modelled."""
        if self.mode == "expert":
            return
        if self.x * self.y > 1:
            raise InputError(
                f'mode = "easy" with x = {self.x} and y = {self.y}: gathers of activations around every linear module '
                "are not modelled; allowed: x = 1, y = 1"
            )
        if self.data.family != "ddp":
            raise InputError(f'mode = "easy" all-reduces gradients: got data = "{self.data.family}"; allowed: "ddp"')
        if isinstance(shape, GptShape) and shape.tied:
            raise InputError('mode = "easy" divides the head, not the embedding; allowed: tied = false')


class MegatronOptions(TensorOptions):
    """megatron: tensor parallelism in one dimension, sequence parallelism, pipelines (Megatron-LM).

    `overlap_input_gradients`: the reduction of an input's gradient overlaps with the GEMM of the weight's gradient,
    and, with `sequence_parallel`, the second gather of the input overlaps with the GEMM of the input's gradient
    (Megatron-LM's default). `overlap_gradients`: reductions over the data axes overlap with the last backward.

    `product_pieces`: number of pieces in which activations are gathered and scattered along the sequence, each
    overlapping with the GEMM of another piece (1: in one piece, for which the GEMMs wait; more: Megatron-Core's
    tp_comm_overlap, torchtitan's asynchronous tensor parallelism).

    `batch_first`: activations have the layout [batch, sequence, features], so that tensors gathered or scattered along
    the sequence are copied to keep their element order (`torch.cat` of `torch.chunk` in
    torch/distributed/_functional_collectives.py), except for those that move in pieces; Megatron-LM's layout is
    [sequence, batch, features].

    `gather_inputs_again`: a backward gathers the input of a GEMM again for the gradients of the weights (Megatron-LM);
    false: it keeps the input that the forward, or its recomputation, gathered (PyTorch's DTensor).

    `expert`: number of ranks among which the experts of a layer are divided: all tensor-parallel ranks, unless
    `expert_tensor` = `tensor` (its default: Megatron-Core's expert-tensor-parallel-size) divides every expert among
    them, and as many data-parallel ranks as it takes further. `dispatch`: rows go to the ranks of their experts in an
    all-to-all of the library or by a dispatcher that sends a position once to each node (deepep, hybridep, rbd), or all
    ranks gather all positions (all_gather), and the sums of their experts' outputs are reduce-scattered.
    `overlap_experts`: dispatches of a forward overlap with the backward of another micro-batch, and the other way round
    (Megatron-Core's overlap_moe_expert_parallel_comm).
    `context`: number of ranks among which the sequence is divided (context parallelism); `context_by`: how keys and
    values reach queries: around a ring of sends that overlap with attention (Megatron-LM's p2p), gathered before
    attention, or by all-to-alls that give every rank whole sequences of some heads (Ulysses). `context_heads`: ranks
    of a group inside which heads are exchanged, while keys and values travel between the groups.

    `compression`: a policy, or a codec for each of dp, tp, pp and zero; `compress_from`: smallest size in bytes per
    rank of compressed messages; `compress_per_hop`: every point-to-point message is compressed separately (a ring),
    instead of once per collective; `message_dtype`: data type of uncompressed messages (fp32: MPI has no 16-bit
    floating-point types).
    """

    tensor: Ranks = 1
    expert: Ranks = 1
    expert_tensor: Ranks | None = None
    dispatch: Annotated[str, Names("all_to_all", "all_gather", *DISPATCHERS)] = "all_to_all"
    overlap_experts: bool = False
    sequence_parallel: bool = False
    overlap_input_gradients: bool = True
    overlap_gradients: bool = False
    product_pieces: Pieces = 1
    batch_first: bool = False
    gather_inputs_again: bool = True
    context: Ranks = 1
    context_by: ContextBy = "ring"
    context_heads: Ranks = 1
    compression: str = "none"
    compress_from: Annotated[int, Field(ge=0)] = LEAST_BYTES
    compress_per_hop: bool = False
    message_dtype: Literal["model", "fp32"] = "model"

    @property
    def inside(self) -> Sizes:
        return (*context_sizes(self.context, self.context_by, self.context_heads), ("tensor", self.tensor))

    @property
    def alternates(self) -> bool:
        return self.overlap_experts

    @property
    def experts_inside(self) -> tuple[str, ...]:
        """Axes inside the data axes that divide the experts of a layer: those of context parallelism, and those of
        tensor parallelism unless they divide each expert."""
        whole = self.expert_tensor == 1 and self.tensor > 1
        return tuple(axis for axis, size in self.inside if size > 1 and (whole or axis != "tensor"))

    @property
    def expert_inside(self) -> int:
        """Number of ranks of a group over `experts_inside`."""
        return math.prod(size for axis, size in self.inside if axis in self.experts_inside)

    @property
    def expert_data(self) -> int:
        """Number of data-parallel ranks among which the experts of a layer are divided."""
        return self.expert // self.expert_inside if self.expert > 1 else 1

    def mesh(self, num_devices: int, per_node: int, per_package: int) -> Mesh:
        self._refuse_expert_grid()
        model = ((EXPERT, self.expert_data), *self.inside)
        data = ranks_left(num_devices, ((STAGE, self.pipeline), *model))
        inner = self.context * self.tensor * self.expert_data
        experts = model[:1] if self.expert > 1 else ()
        return grid_mesh(
            ((STAGE, self.pipeline),), (*data_sizes(data, inner, per_node, per_package), *experts), self.inside
        )

    def _refuse_expert_grid(self) -> None:
        """Raise InputError for a grid of experts that tensor or context parallelism does not fit."""
        if self.expert_tensor not in (None, 1, self.tensor):
            raise InputError(f"expert_tensor = {self.expert_tensor}; allowed: 1 or tensor = {self.tensor}")
        if self.overlap_experts and (self.expert == 1 or self.dispatch == "all_gather"):
            raise InputError(
                "overlap_experts = true: needs expert above 1 and a dispatch by all-to-alls; allowed: false"
            )
        if self.overlap_experts and self.pipeline > 1 and self.order != "interleaved":
            raise InputError(
                f'overlap_experts = true with order = "{self.order}"; allowed: order = "interleaved", or pipeline = 1'
            )
        if self.expert > 1 and "tensor" in self.experts_inside and not self.sequence_parallel:
            raise InputError(
                "expert_tensor = 1: ranks of tensor have rows of their own; allowed: sequence_parallel = true"
            )
        if min(self.expert, self.context, self.tensor) > 1 and self.sequence_parallel and self.expert_tensor != 1:
            raise InputError(
                f"expert_tensor = {self.tensor} with context = {self.context}: rows of experts would be cut by context "
                "inside and tensor outside, positions the other way round; allowed: expert_tensor = 1, or "
                "sequence_parallel = false"
            )
        if self.expert > 1 or self.expert_tensor == 1:
            refuse_remainder("expert", self.expert, " × ".join(self.experts_inside), self.expert_inside)
        if self.expert > 1 and self.data.family not in ("ddp", "zero1", "zero2", "zero3"):
            raise InputError(
                f'data.family = "{self.data.family}" with expert = {self.expert}; allowed: ddp, zero1, zero2 or zero3'
            )

    def batch_ranks(self, mesh: Mesh) -> int:
        return mesh.size(batch_axes(mesh))

    @property
    def policy(self) -> str:
        """The compression policy as text; empty if messages are not compressed."""
        if self.compression == "none":
            return ""
        return self.compression + (" per hop" if self.compress_per_hop else "")

    @property
    def compressed(self) -> Compression | None:
        """The compression of messages; None if messages are not compressed."""
        if self.compression == "none" and self.message_dtype == "model":
            return None
        widen = self.message_dtype == "fp32"
        return compression_of(self.compression, self.compress_from, self.compress_per_hop, widen)

    def refuse_shape(self, shape: Shape) -> None:
        super().refuse_shape(shape)
        refuse_columns(shape, "tensor", self.tensor)
        refuse_context(self.context, self.context_by, self.context_heads, self.tensor, shape)
        if self.context > 1 and self.compressed is not None:
            raise InputError(f"context = {self.context}: what moves is not compressed; allowed: 1")
        if self.sequence_parallel:
            length, name = shape.sequence // self.context, "sequence"
            name += f" / context {self.context}" if self.context > 1 else ""
            refuse_remainder(name, length, "tensor", self.tensor)
            per_rank = length // self.tensor
            refuse_remainder(f"{name} / tensor {self.tensor}", per_rank, "product_pieces", self.product_pieces)
        elif self.product_pieces > 1:
            raise InputError(f"product_pieces = {self.product_pieces}: needs sequence_parallel = true; allowed: 1")
        self._refuse_experts(shape)
        if self.product_pieces > 1 and self.compressed is not None:
            raise InputError(f"product_pieces = {self.product_pieces}: what moves is compressed as a whole; allowed: 1")

    def refuse_attention(self, attention: Attention) -> None:
        if self.context > 1 and self.context_by == "ring" and attention == "plain":
            raise InputError(
                f'attention = "plain" with context = {self.context} by ring: it has scores of all positions in memory; '
                'allowed: attention = "fused", or context_by = "gather" or "heads"'
            )

    def _refuse_experts(self, shape: Shape) -> None:
        experts = shape.num_experts if isinstance(shape, GptShape) else 0
        if not isinstance(shape, GptShape) or not experts:
            if self.expert > 1:
                raise InputError(f"expert = {self.expert}: {shape.name} has no experts; allowed: 1")
            return
        refuse_remainder("experts", experts, "expert", self.expert)
        refuse_remainder("blocks of experts with equally many rows", shape.routed_rows[0], "expert", self.expert)
        parts = {"context": self.context, "tensor": self.tensor if self.sequence_parallel else 1}
        key = " × ".join(axis for axis, size in parts.items() if size > 1)
        refuse_remainder("rows of a block of experts", shape.routed_rows[1], key, math.prod(parts.values()))
        if "tensor" not in self.experts_inside:
            refuse_remainder("features of an expert", shape.expert_features, "tensor", self.tensor)


def batch_axes(mesh: Mesh) -> tuple[str, ...]:
    """Return the axes over which the batch is divided."""
    return (*DATA_AXES, *((EXPERT,) if EXPERT in mesh.names else ()))


def refuse_stages(options: TensorOptions, shape: Shape) -> None:
    """Raise InputError for chunks that the order does not have, and unless all stages, and all chunks of a stage, have
    the same number of layers, or numbers that the options allow or list."""
    pipeline, chunks, layers = options.pipeline, options.chunks, num_blocks(shape)
    if options.order == "interleaved" and pipeline > 1 and chunks < 2:
        raise InputError('chunks = 1: order = "interleaved" needs chunks = 2 or more layer runs per stage')
    if options.order in ("gpipe", "1f1b") and chunks > 1:
        several = ", ".join(f'"{order}"' for order in get_args(PipelineOrder)[2:])
        raise InputError(f'chunks = {chunks}: order = "{options.order}" has one; allowed: 1, or order = {several}')
    if options.order in V_ORDERS and pipeline > 1 and chunks != 2:
        raise InputError(f'chunks = {chunks}: order = "{options.order}" has two on each stage; allowed: 2')
    if options.layers != "equal":
        _refuse_uneven(options, shape)
        _refuse_apart(options, shape)
        return
    instead = '; or layers = "even"' if pipeline > 1 else ""
    refuse_remainder("layers", layers, "chunks", chunks, instead)
    quantity, most = "layers" if chunks == 1 else f"layers / chunks {chunks}", layers // chunks
    if pipeline > most:
        of = "" if chunks == 1 else f" of {chunks} chunks"
        raise InputError(
            f"pipeline = {pipeline} stages{of} are more than the {layers} layers of {shape.name}; "
            f"most stages that work: {most}"
        )
    refuse_remainder(quantity, most, "pipeline", pipeline, instead)
    _refuse_apart(options, shape)


def _refuse_apart(options: TensorOptions, shape: Shape) -> None:
    """Raise InputError unless the last group of layers has all those of multi-token prediction, beside the head."""
    pipeline, most = options.stages, num_blocks(shape) - shape.num_layers
    last = len(pipeline.groups(num_blocks(shape), options.pipeline)[-1]) if pipeline is not None else most
    if last < most:
        raise InputError(f"mtp_layers = {most} beside the head, on a stage of {last} layers; allowed: {last} or fewer")


def _refuse_uneven(options: TensorOptions, shape: Shape) -> None:
    """Raise InputError unless numbers of layers in a list are those of all groups, and of all layers together. A stage
    that has neither the embedding nor the head needs a layer, and activations may not return to a stage unchanged."""
    pipeline, groups, given = options.stages, options.pipeline * options.chunks, options.layers
    got = f"layers = {list(given) if isinstance(given, tuple) else shown(given)}"
    if pipeline is None or options.pipeline == 1:
        raise InputError(f"{got}: there is one stage; allowed: with pipeline = 2 or more")
    if isinstance(given, tuple) and len(given) != groups:
        of = f"pipeline = {options.pipeline}" + (f" × chunks = {options.chunks}" if options.chunks > 1 else "")
        raise InputError(f"{got}: {len(given)} numbers for {of} groups of layers; allowed: {groups} numbers")
    blocks = num_blocks(shape)
    if isinstance(given, tuple) and sum(given) != blocks:
        raise InputError(f"{got}: {sum(given)} layers; allowed: the {blocks} of {shape.name}")
    got += "" if isinstance(given, tuple) else f" of {blocks} in {groups} groups"
    sizes = [len(layers) for layers in pipeline.groups(blocks, options.pipeline)]
    homes = [pipeline.home_of(number, options.pipeline)[0] for number in range(groups)]
    empty = {*homes} - {homes[0], homes[-1], *(stage for stage, size in zip(homes, sizes, strict=True) if size)}
    if empty:
        raise InputError(f"{got}: none on stage {min(empty)}; allowed: 1 or more on a stage without embedding and head")
    held: list[int] = []  # stages that have the activations between two layers, in turn
    for stage, size in zip(homes, sizes, strict=True):
        if stage in held[:-1]:
            raise InputError(f"{got}: activations return to stage {stage} unchanged; allowed: 1 or more in between")
        held = [stage] if size else [*held, stage]


def refuse_columns(shape: Shape, key: str, parts: int) -> None:
    """Raise InputError for sizes that are not divisible by the number of tensor-parallel columns `parts`: attention
    heads, key-value heads, feed-forward features and vocabulary of a GPT; features and classes of an MLP."""
    if isinstance(shape, GptShape):
        refuse_remainder("heads", shape.heads, key, parts)
        if shape.kv_heads is not None:
            refuse_remainder("kv_heads", shape.kv_heads, key, parts)
        if shape.ffn_hidden is not None:
            refuse_remainder("ffn_hidden", shape.ffn_hidden, key, parts)
        refuse_remainder("vocabulary", shape.padded_vocabulary, key, parts)
    elif isinstance(shape, MlpShape):
        refuse_remainder("4 hidden", 4 * shape.hidden, key, parts)
        refuse_remainder("classes", shape.classes, key, parts)


def _other_matrices(shape: Shape) -> Iterator[tuple[str, int]]:
    """Yield (name, width) of those matrices of a layer whose width need not be a multiple of the hidden size."""
    if isinstance(shape, GptShape):
        if shape.kv_heads is not None:
            yield "2 keys", 2 * shape.key_features  # in addition to the queries' hidden²
        if shape.head_dim is not None:
            yield "queries", shape.query_features
        if shape.ffn_hidden is not None:
            yield "ffn_hidden", shape.ffn_hidden


def _on_data(name: str, options: TensorOptions, mesh: Mesh) -> Plan:
    """Return the plan of the data axes alone, without the tensor-parallel axes. The ranks that divide a sequence hold
    the same weights: over their axes, too, gradients are summed and states partitioned."""
    return ZERO[options.data.family][1](name, options.data, mesh, (*batch_axes(mesh), *context_axes(mesh)))


def _cuts(columns: tuple[str, ...], rows: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the axes that cut each label: `rows` cut the features of the residual stream, `columns` the features
    inside a module."""
    out = {"h": rows} if rows else {}
    return out | (dict.fromkeys(COLUMNS, columns) if columns else {})


def _expert_cuts(options: MegatronOptions, mesh: Mesh) -> dict[str, tuple[str, ...]]:
    """Return the axes that divide the experts of a layer, and those that divide the features of each expert."""
    if options.expert == 1:
        return {"F": mesh.live(("tensor",))}
    experts = mesh.live((EXPERT, *options.experts_inside))
    return {"E": experts, "F": () if "tensor" in experts else mesh.live(("tensor",))}


def _axonn(name: str, options: AxonnOptions, mesh: Mesh) -> Plan:
    """Return AxoNN's plan: the input features of a weight are cut over X and its output features over Y (swapped in
    transposed layers), its storage over Z; the batch is divided over the data axes and Z."""
    data = _on_data(name, options, mesh)
    if data.gathers_once:
        raise InputError('data.gather = "next_forward": weights are gathered over z besides; allowed: "step_end"')
    z = mesh.live(("z",))
    flags: tuple[tuple[bool, Purpose], ...] = (
        (options.oar, "input_gradient"),
        (options.oar, "input_gather"),
        (options.ors, "gradient"),
        (options.oag, "weight_gather"),
    )
    is_easy = options.mode == "easy"

    def through(hops: tuple[Hop, ...], first: bool, codec: Codec | None = None) -> tuple[Hop, ...]:
        by_z = Hop(z, codec)
        return hops if not z else (by_z, *hops) if first else (*hops, by_z)

    hops = data.hops
    of_heads = tuple(Hop((axis,)) for axis in mesh.live(("y",)))  # norms of heads see a part of the heads each
    return replace(
        data,
        name=name,
        family=options.family,
        axes=(*data.axes, *z),
        nesting=(*z, *data.nesting),
        weight=data.weight | set(z),
        copy=None if data.copy is None else data.copy | set(z),
        accumulator=data.accumulator | set(z),
        optimizer=data.optimizer | set(z),
        hops={
            "weight_gather": through(hops["weight_gather"], first=False, codec=options.gather_codec),
            "copy_gather": through(hops["copy_gather"], first=False, codec=options.gather_codec),
            "gradient": through(hops["gradient"], first=True),
            "step_reduction": (*through(hops["step_reduction"], first=True), *of_heads),
            "publish": through(hops["publish"], first=False),
            "scalar": (Hop(mesh.live(mesh.names)),),
        },
        cuts=_cuts(mesh.live(("y",)), mesh.live(("x",))),
        whole_over=frozenset(z),
        whole_modules=frozenset(TABLES if is_easy else ()),
        reduces_whole_at_once=is_easy,
        pipeline=options.stages,
        overlapped=frozenset(purpose for is_on, purpose in flags if is_on),
        gathers_again=options.gather_again,
        buckets=False,
        reduces_each_use=bool(z),  # its reduction is the backward of its gather (`ForwardGather_BackwardReduceScatter`)
        weights_first=options.ors,
        hooks=False,
        groups="axes" if options.gather_again else "lane",  # the main branch has one group for Z
        cross_entropy=options.cross_entropy,
    )


def _megatron(name: str, options: MegatronOptions, mesh: Mesh) -> Plan:
    """Return Megatron-LM's plan: of each pair of GEMMs, one axis cuts the first weight by columns and the second by
    rows; the residual stream is whole, or cut along the sequence."""
    data = _on_data(name, options, mesh)
    tensor = mesh.live(("tensor",))
    of_positions, cuts_of_kind = context_cuts(context_axes(mesh), tensor)
    hops = dict(data.hops)
    hops["scalar"] = (Hop(mesh.live(mesh.names)),)
    flags: tuple[tuple[bool, Purpose], ...] = (
        (options.overlap_input_gradients, "input_gradient"),
        (options.overlap_input_gradients, "input_gather"),
        (options.overlap_gradients, "step_reduction"),
        (options.overlap_gradients, "gradient"),
        (bool(data.weight), "weight_gather"),
    )
    compressed = options.compressed
    if compressed is not None:
        hops = compressed.hops(hops)
    if tensor:  # norms see a part of the sequence or of the heads each; their gradients are never coded
        plain = None if compressed is None else compressed.plain
        hops["step_reduction"] = (*hops["step_reduction"], Hop(tensor, plain))
    return replace(
        data,
        name=name,
        family=options.family,
        nesting=data.nesting if compressed is None else _with_all(data.nesting, data.axes),
        hops=hops,
        value_hop=None if compressed is None else compressed.hop(Hop(()), "tp"),
        exchange_hop=None if compressed is None else compressed.hop(Hop(()), "pp"),
        compression=options.policy,
        cuts=_cuts(tensor, ()) | of_positions | _expert_cuts(options, mesh),
        cuts_of_kind=cuts_of_kind | {(kind, "E"): () for kind in DISPATCHES if options.dispatch != "all_gather"},
        dispatch_via=options.dispatch if options.dispatch in DISPATCHERS else LIBRARY,
        ring=CONTEXT if options.context_by == "ring" and CONTEXT in mesh.names else None,
        sequence=tensor[0] if tensor and options.sequence_parallel else None,
        sums_branches=bool(tensor),
        pipeline=options.stages,
        overlapped=frozenset(purpose for is_on, purpose in flags if is_on),
        gathers_again=False,
        hooks=False,
        groups="lane",
        cross_entropy=options.cross_entropy,
        product_pieces=options.product_pieces,
        batch_first=options.batch_first,
        gathers_inputs_again=options.gather_inputs_again,
    )


def _with_all(nesting: tuple[str, ...], axes: tuple[str, ...]) -> tuple[str, ...]:
    """Return a nesting extended by all axes over which a sum of coded messages may be scattered."""
    return (*nesting, *(axis for axis in axes if axis not in nesting))


def engine_of(options: TensorOptions, engine: Engine, data_ranks: int) -> Engine:
    """Return the engine settings that run a plan on a grid with this number of data-parallel ranks. AxoNN keeps no
    weight matrix whole and no gathered one for a later pass, and reduces over the data axes at the end of the step; so
    does Megatron-LM with the reductions, unless it overlaps them."""
    if isinstance(options, MegatronOptions):
        sized = engine.on_ranks(data_ranks * options.context, options.tensor)
        return replace(sized, step_reduction="overlap" if options.overlap_gradients else "end")
    return replace(engine, persistence_elements=0, reuse_elements=0, step_reduction="end")


TENSOR: dict[str, tuple[type[Options], Callable[..., Plan]]] = {
    "axonn": (AxonnOptions, _axonn),
    "megatron": (MegatronOptions, _megatron),
}
