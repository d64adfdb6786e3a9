"""Plans: placements of the states of weights, the hops of the moves between them, and the weight copies that gathers
read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le

from simfrontier.base.limits import COUNT
from simfrontier.core.codecs import Codec
from simfrontier.core.plan.moves import Hop
from simfrontier.core.program import LIBRARY, Placement, Stage
from simfrontier.core.workload import USUAL_CROSS_ENTROPY, CrossEntropy, Weight

Purpose = Literal[
    "weight_gather",
    "copy_gather",
    "gradient",
    "step_reduction",
    "publish",
    "scalar",
    "update",
    "activation",
    "input_gradient",
    "input_gather",
    "statistic",
]
"""Why something moves. The last four are of values of the model: those that the next op needs; in the
backward, the gradient of a module's input, which the product that makes the weight's gradient can hide, and the
module's input, gathered again for that product, which the product that makes the input's gradient can hide; and what an
op that sees all samples needs of those of all ranks."""

PipelineOrder = Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipev"]
V_ORDERS: Final[tuple[PipelineOrder, ...]] = ("zb-v", "dualpipev")
CHUNKED_ORDERS: Final[tuple[PipelineOrder, ...]] = ("interleaved", *V_ORDERS)

SecondCopyRule = Literal["first_gather_of_step", "every_forward", "stale_forward"]
CopyRule = Literal[SecondCopyRule, "in_place"]
"""Which gathers read the second copy of the weights (DeepSpeed's hpZ, by version):
first_gather_of_step: all but the first after an optimizer step (0.13.2 and later); every_forward: the backward only
(0.10.0); stale_forward: the backward, and a checkpointed first forward, which then reads the previous step's copy
(0.10.2 to 0.13.1); in_place: none, weights are gathered into the copy, in the first forward of a step, and used there
until it ends."""

Groups = Literal["world", "lane", "axes"]
"""Which calls share a communicator, in which they run one after the other. world: all that span all ranks, and of the
others those of equal axes and lane (DeepSpeed); lane: those of equal axes and lane; axes: those of equal axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightStates:
    """Placements of the states of one weight. `copy` is the placement of a second copy of the weight, plain or coded;
    None if there is no second copy."""

    weight: Placement
    copy: Placement | None
    accumulator: Placement
    optimizer: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Pipeline parallelism of a plan: the mesh axis of the stages, and the order in which a stage runs its
    micro-batches.

    Every stage has `chunks` contiguous groups of layers, assigned round-robin (several with interleaved 1F1B), or, in
    an order of V shape, from the first to the last stage and back. `layers` has the number of layers of each group, in
    the order of the layers; if it is empty, all groups have equally many, or some have one less: first the last group,
    which has the head, then the first, which has the embedding, then those before the last. Exchanges between stages
    block both stages, or, with `overlap`, run on lanes of their own. With `alternates`, the ops of a forward and the
    backward after it alternate, so that dispatches of experts' rows in each overlap with the computation of the other.
    """

    axis: str
    order: PipelineOrder = "1f1b"
    chunks: int = 1
    overlap: bool = False
    layers: tuple[int, ...] = ()
    alternates: bool = False

    @property
    def is_v(self) -> bool:
        """True if the two chunks of a stage lie on the way from the first stage to the last, and on the way back."""
        return self.order in V_ORDERS

    @property
    def splits_backward(self) -> bool:
        """True if gradients of weights are computed in passes of their own (at least some of them)."""
        return self.order in (*V_ORDERS, "zb-h1")

    def number_of(self, stage: int, chunk: int, num_stages: int) -> int:
        """Return the number of a chunk of a stage, in the order of the layers."""
        return chunk * num_stages + (num_stages - 1 - stage if self.is_v and chunk else stage)

    def home_of(self, number: int, num_stages: int) -> tuple[int, int]:
        """Return the (stage, chunk) of a group of layers, by its number in the order of the layers."""
        chunk, place = divmod(number, num_stages)
        return (num_stages - 1 - place if self.is_v and chunk else place), chunk

    def groups(self, num_layers: int, num_stages: int) -> tuple[range, ...]:
        """Return the layers of each group, in the order of the layers."""
        last = num_stages * self.chunks - 1
        most = -(-num_layers // (last + 1))
        smaller = (last, 0, *range(last - 1, 0, -1))[: most * (last + 1) - num_layers]
        sizes = self.layers or [most - (number in smaller) for number in range(last + 1)]
        return tuple(range(stop - size, stop) for size, stop in zip(sizes, accumulate(sizes), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One point of the partition lattice over the data axes; it partitions the shards that `cuts` defines.

    `axes` are the mesh axes over which the batch is divided. `cuts` maps labels (h, a, f, v) to the axes that cut the
    label in every op that has it: tensor parallelism. `cuts_of_kind` maps (kind of op, label) to the axes that cut the
    label only in ops of that kind; a batch axis among these axes does not divide the samples in such an op. Ops with
    none of the labels that a `sequence` axis cuts are cut by this axis along the sequence, s. Tensors of one dimension
    and those of `whole_modules` are never flat over `whole_over`; with `reduces_whole_at_once`, the gradients of those
    that are no biases take a single hop over all batch axes. With `sums_branches`, partial values that one addition
    reads are added up before they are reduced. `pipeline` divides the layers among stages.

    `overlapped` names the purposes of the moves that have lanes of their own (None: all purposes, if the engine
    overlaps). With `gathers_again`, a backward gathers the weights again that the recomputed forward already gathered.
    Without `buckets`, every gradient is reduced separately as soon as it is computed; with `reduces_each_use` in
    addition, so is the gradient of each use of a weight. With `weights_first`, the gradient of a weight is computed
    before that of the input if the input's gradient needs no reduction. Without `hooks`, the host's time per module is
    not counted. `groups` defines which collective calls share a communicator.

    `value_hop` gives the codec and algorithm for moves of activations, `exchange_hop` those for exchanges between
    stages (the axes of both hops are ignored); `compression` names the policy from which both follow. `dispatch_via`
    gives the algorithm for moves of experts' rows. `cross_entropy` is the method of the loss if the classes (last
    dimension of the logits) are cut. With `overlaps_statistics`, statistics over all samples for later steps, and the
    ops that read them, have a lane of their own. Activations are gathered and scattered in `product_pieces` pieces,
    which overlap with the matrix products that read or write them; with `batch_first`, other activations are copied to
    keep their element order. With `gathers_inputs_again`, a backward gathers the inputs of matrix products again;
    otherwise it keeps the inputs that the forward or its recomputation gathered. Keys and values that attention needs
    from all ranks of the axis `ring` go around a ring instead, overlapping with attention to those that have arrived.
    Activations of the first `offloaded_layers` layers of each group wait for the backward in the host's memory.

    `weight`, `copy`, `accumulator` and `optimizer` name the axes over which the respective state is Flat; a gradient
    accumulator is Partial over the data axes over which it is not Flat. `hops` gives the route for each purpose of
    moves. Gradients of one-dimensional tensors, or of tensors whose size is not divisible by twice the number of ranks
    (`fallback_multiple`), take the route `fallback` instead. With `pipelined`, the later hops of a move have lanes of
    their own, so that they overlap with the first hop of the next move.
    """

    name: str
    family: str
    axes: tuple[str, ...]
    nesting: tuple[str, ...]
    weight: frozenset[str] = frozenset()
    copy: frozenset[str] | None = None
    copy_codec: Codec | None = None
    copy_rule: CopyRule = "first_gather_of_step"
    accumulator: frozenset[str] = frozenset()
    optimizer: frozenset[str] = frozenset()
    hops: Mapping[Purpose, tuple[Hop, ...]]
    fallback: tuple[Hop, ...] | None = None
    fallback_multiple: int = 1
    one_at_a_time: bool = False
    pipelined: bool = False
    cuts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cuts_of_kind: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    sequence: str | None = None
    whole_over: frozenset[str] = frozenset()
    whole_modules: frozenset[str] = frozenset()
    reduces_whole_at_once: bool = False
    sums_branches: bool = False
    pipeline: Pipeline | None = None
    overlapped: frozenset[Purpose] | None = None
    gathers_again: bool = True
    buckets: bool = True
    reduces_each_use: bool = False
    weights_first: bool = False
    groups: Groups = "world"
    hooks: bool = True
    value_hop: Hop | None = None
    dispatch_via: str = LIBRARY
    exchange_hop: Hop | None = None
    compression: str = ""
    cross_entropy: CrossEntropy = USUAL_CROSS_ENTROPY
    overlaps_statistics: bool = False
    product_pieces: int = 1
    ring: str | None = None
    batch_first: bool = False
    gathers_inputs_again: bool = True
    offloaded_layers: int = 0

    @property
    def quantises_gradients(self) -> bool:
        """True if the ordinary route of a gradient has a hop whose coded messages cannot be added up."""
        return any(hop.codec is not None and hop.codec.is_opaque for hop in self.hops["gradient"])

    def states(self, weight: Weight, raw: Placement, persistent: bool) -> WeightStates:
        """Return the placements of the states of one weight. `raw` is the placement of the weight's gradient before
        reduction (shards, and partial over the ranks that contribute); `persistent` weights are not partitioned further
        among the ranks that have the same shard."""
        whole = self._whole_over(weight)
        spread = frozenset(self.axes) - whole - {axis for axis, _ in raw.shards}
        accumulator = self.accumulator & spread & raw.partial_axes
        pending = tuple(part for part in raw.partial if part[0] not in accumulator)
        return WeightStates(
            weight=Placement(raw.shards, frozenset() if persistent else self.weight & spread),
            copy=None if self.copy is None or persistent else Placement(raw.shards, self.copy & spread),
            accumulator=Placement(raw.shards, accumulator, pending),
            optimizer=Placement(raw.shards, self.optimizer & spread),
        )

    def _whole_over(self, weight: Weight) -> frozenset[str]:
        """Return the axes over which a weight is never flat."""
        is_whole = len(weight.shape) == 1 or weight.module in self.whole_modules
        return self.whole_over if is_whole else frozenset()

    def nesting_of(self, weight: Weight) -> tuple[str, ...]:
        """Return the nesting of a weight's flat index: the axes over which the weight may be partitioned."""
        whole = self._whole_over(weight)
        return tuple(axis for axis in self.nesting if axis not in whole)

    def falls_back(self, weight: Weight) -> bool:
        """Return whether the gradient of this tensor cannot take the quantised route, and takes the route `fallback`
        instead."""
        if self.fallback is None:
            return False
        return len(weight.shape) == 1 or weight.num_elements % self.fallback_multiple != 0

    def gradient_hops(self, weight: Weight) -> tuple[Hop, ...]:
        """Return the route of a weight's gradient before reduction to its accumulator."""
        return self.fallback if self.fallback is not None and self.falls_back(weight) else self.hops["gradient"]

    def step_hops(self, weight: Weight) -> tuple[Hop, ...]:
        """Return the route of an accumulated gradient to the optimizer; a gradient that took the route `fallback` keeps
        the codec of this route."""
        hops = self.hops["step_reduction"]
        if self.reduces_whole_at_once and self._whole_over(weight) and weight.parameter != "bias":
            return (Hop(self.axes, hops[-1].codec),)
        if self.fallback is None or not self.falls_back(weight):
            return hops
        return tuple(replace(hop, codec=self.fallback[0].codec) for hop in hops)

    @property
    def gathers_once(self) -> bool:
        """True if weights are gathered into their copies in the first forward of a step and read there until its
        end."""
        return self.copy is not None and self.copy_rule == "in_place"

    def reads_copy(self, stage: Stage, first_micro_batch: bool, checkpointing: bool) -> bool:
        """Return whether the weight gather of this pass reads the second copy."""
        if self.copy is None:
            return False
        match self.copy_rule:
            case "first_gather_of_step":
                return stage != "forward" or not first_micro_batch
            case "every_forward":
                return stage == "backward"
            case "stale_forward":
                return stage == "backward" or (stage == "forward" and checkpointing)
            case "in_place":
                return False

    def writes_copy(self, stage: Stage, first_micro_batch: bool, checkpointing: bool) -> bool:
        """Return whether the weights gathered for this pass are written to the second copy when they are released."""
        if self.copy is None or self.gathers_once or self.reads_copy(stage, first_micro_batch, checkpointing):
            return False
        return first_micro_batch if self.copy_rule == "first_gather_of_step" else stage != "backward"

    def is_stale(self, stage: Stage, checkpointing: bool) -> bool:
        """Return whether this pass may read weights of the previous step."""
        return self.copy is not None and self.copy_rule == "stale_forward" and stage == "forward" and checkpointing


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Rules by which a training engine issues communication; the defaults are those of DeepSpeed 0.16.5's ZeRO-3 (docs,
    stage3.py).

    Sizes are in elements, those of buckets in elements of a rank's shards of tensor parallelism; a bucket holds at
    least `bucket_elements_per_rank` elements for each data-parallel rank (Megatron-Core). `blocking` says how far qgZ's
    synchronous collective calls block: `stream`, only the stream that issues them (like synchronous calls of
    torch.distributed over NCCL; DeepSpeed issues these calls on its reduction stream), or `host`, as with
    TORCH_NCCL_BLOCKING_WAIT=1: the host issues nothing until each call has ended. With `synchronise` = `layer` the host
    waits for all streams of the device before and after each layer, forward and backward (`synchronize` of DeepSpeed's
    activation checkpointing, `synchronize_each_layer` of GPT-NeoX): nothing is prefetched, and no gradient is reduced,
    across layers. With `experts` it waits in the forward of each layer of experts for the numbers of their rows, and so
    is never further ahead of the device than it takes to launch such a layer (`machine.Host`). `copies`: where weights
    are copied out of the buffers of their gathers, and gradients into those of their reductions: on the lane of the
    collective (DeepSpeed's streams), or of the computation (FSDP2: torch/
    distributed/fsdp/_fully_shard/_fsdp_collectives.py).
    """

    persistence_elements: Annotated[int, Ge(0), Le(COUNT.most)] = 100_000
    prefetch_elements: Annotated[int, Ge(0), Le(COUNT.most)] = 50_000_000
    live_elements: Annotated[int, Ge(1), Le(COUNT.most)] = 1_000_000_000
    reuse_elements: Annotated[int, Ge(0), Le(COUNT.most)] = 1_000_000_000
    reduce_bucket_elements: Annotated[int, Ge(1), Le(COUNT.most)] = 500_000_000
    gather_bucket_elements: Annotated[int, Ge(1), Le(COUNT.most)] = 500_000_000
    bucket_elements_per_rank: Annotated[int, Ge(0), Le(COUNT.most)] = 0
    outstanding_fetches: Annotated[int, Ge(1), Le(COUNT.most)] = 2
    granularity: Literal["module", "layer"] = "module"
    overlap: bool = True
    blocking: Literal["host", "stream"] = "stream"
    step_reduction: Literal["overlap", "end"] = "overlap"
    synchronise: Literal["never", "experts", "layer"] = "never"
    copies: Literal["collective", "compute"] = "collective"

    def on_ranks(self, data_ranks: int, tensor_ranks: int) -> Engine:
        """Return the settings with the sizes of buckets on a grid, in elements of whole tensors: a rank's bucket times
        the ranks among which tensor parallelism divides them."""
        least = self.bucket_elements_per_rank * data_ranks
        return replace(
            self,
            reduce_bucket_elements=max(self.reduce_bucket_elements, least) * tensor_ranks,
            gather_bucket_elements=max(self.gather_bucket_elements, least) * tensor_ranks,
        )
