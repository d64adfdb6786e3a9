"""A workload: a model as a graph of ops on logical tensors, and the types of its numbers; it knows no machine and no
mesh."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.program import OpName, in_streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Types of a model's numbers. `model`: weights, activations, and gradients before accumulation. `gradients`: the
    accumulators over the micro-batches of a step, which the optimizer reads. `master`: the weights that the optimizer
    steps. `moments`: each of its two moments. `wide`: the loss's logits, sums over all ranks."""

    name: str
    model: str
    gradients: str
    master: str
    moments: str
    wide: str

    @property
    def is_mixed(self) -> bool:
        """True if the model's type is narrower than that of sums."""
        return self.model != self.wide

    def keeping(self, gradients: str | None = None, master: str | None = None, moments: str | None = None) -> Precision:
        """Return the same types with other accumulators of gradients, masters and moments (None: unchanged).

        Raises InputError where one is neither the model's nor the wide one, or moments are in fp16, in which squares of
        gradients vanish. bf16 masters and moments are DeepSpeed's `bf16_master_weights_and_grads` and
        `bf16_optimizer_states` (github.com/deepspeedai/DeepSpeedExamples, training/bf16_master_weight).
        """
        given = {"gradients": gradients, "master": master, "moments": moments}
        chosen = {key: dtype for key, dtype in given.items() if dtype is not None}
        for key, dtype in chosen.items():
            allowed = dict.fromkeys((self.model, self.wide))
            if key == "moments" and self.model == "fp16":
                del allowed["fp16"]
            if dtype not in allowed:
                words = " or ".join(f'"{each}"' for each in allowed)
                raise InputError(f'model.{key} = "{dtype}" of a model in {self.model}; allowed: {words}')
        return replace(self, **chosen)


PRECISIONS: dict[str, Precision] = {
    name: Precision(name=name, model=name, gradients=name, master=wide, moments=wide, wide=wide)
    for name, wide in (("fp16", "fp32"), ("bf16", "fp32"), ("fp32", "fp32"), ("fp64", "fp64"))
}


def find_precision(name: str) -> Precision:
    """Return the named precision. Raises InputError with the nearest name."""
    if name not in PRECISIONS:
        raise InputError(f"precision {name!r}: {nearest(name, PRECISIONS)}")
    return PRECISIONS[name]


Use = tuple[str, int]  # a value and the layer it belongs to, counted from the op's own layer

CrossEntropy = Literal["three-all-reduces", "fused-two", "one-gather", "mn-merge"]
"""Method of the loss where ranks have some of the classes each (see `GraphBuilder._loss`)."""
USUAL_CROSS_ENTROPY: Final = "fused-two"
LossMethod = CrossEntropy | Literal["whole"]
"""Method of the loss; `whole` where every rank has all classes."""

Checkpointing = Literal["full", "selective", "none"]
"""What a layer's backward computes again: all of its forward, only the core of attention with its squares of scores
(arXiv 2205.05198), or nothing."""

Attention = Literal["plain", "fused"]
"""Attention with scores in memory, or as one op that keeps them to itself (FlashAttention, arXiv 2205.14135)."""

Optimizer = Literal["adam", "lamb"]
"""What steps weights: Adam (arXiv 1412.6980), or LAMB (arXiv 1904.00962), which scales the step of every tensor to the
tensor's own norm."""

MatmulLabels = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An activation or a gradient of one: labelled dimensions, their sizes, and the type of its elements.

    `local` is its name in its `streams` (the outermost first); values of several streams may share it. `persistent`
    values are the data of a micro-batch: no op writes them. One with `where_cut` exists only where a plan cuts that
    label, one with `loss_methods` only under one of these methods of the loss. One that is `form_of` another is the
    same value in another type or place, or a part of that sum.
    """

    local: str
    streams: tuple[str, ...] = ()
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    per_layer: bool
    persistent: bool = False
    where_cut: str = ""
    loss_methods: tuple[LossMethod, ...] = ()
    form_of: str = ""

    @property
    def name(self) -> str:
        return in_streams(self.streams, self.local)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A parameter tensor of a module: which of its parameters it is ("weight", "bias" …), and in which streams."""

    module: str
    parameter: str
    streams: tuple[str, ...] = ()
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    per_layer: bool

    @property
    def local(self) -> str:
        """The name in its streams."""
        return f"{self.module}.{self.parameter}"

    @property
    def name(self) -> str:
        return in_streams(self.streams, self.local)

    @property
    def owner(self) -> str:
        """Unit whose hooks fetch the weight: the module in its streams."""
        return in_streams(self.streams, self.module)

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State of a model that persists between steps and that no optimizer updates: a queue, a running mean, a teacher's
    weight.

    `parameter` names the state within its module (empty: the only one). A state that `follows` a weight becomes its
    moving average at the end of every step; a `fixed` one never changes.
    """

    module: str
    parameter: str = ""
    streams: tuple[str, ...] = ()
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    per_layer: bool = False
    follows: str = ""
    fixed: bool = False

    @property
    def local(self) -> str:
        """The name in its streams."""
        return f"{self.module}.{self.parameter}" if self.parameter else self.module

    @property
    def name(self) -> str:
        return in_streams(self.streams, self.local)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOp:
    """One op on logical tensors.

    `iteration` is the size of each label of its iteration space; an operand that lacks a label is shared along it, an
    output that lacks one is summed over it. `matmul` names the labels of (batch, m, n, k) for a matrix product.
    `weights` are read, `gradients` are the weights whose gradient it adds to; `states` are read, `written_states` are
    overwritten. An op without a batch in its iteration space sees all samples: where they are divided, its operands are
    gathered. `flops` counts the whole logical op. An op with `where_cut` is needed only where a plan cuts that label:
    elsewhere another op includes its work; one with `loss_methods` only under one of these. `kernel` is that of a
    softmax (program.cost); empty where its rows stay on the chip. `named` has the parts of its name.
    """

    named: OpName
    kind: str
    iteration: tuple[tuple[str, int], ...]
    reads: tuple[Use, ...] = ()
    writes: tuple[Use, ...] = ()
    weights: tuple[str, ...] = ()
    gradients: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    written_states: tuple[str, ...] = ()
    matmul: MatmulLabels | None = None
    flops: int = 0
    where_cut: str = ""
    loss_methods: tuple[LossMethod, ...] = ()
    kernel: str = ""

    @property
    def name(self) -> str:
        return self.named.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The forward and the backward ops of one part of the model (embedding, one layer, head), in order."""

    forward: tuple[WorkOp, ...]
    backward: tuple[WorkOp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A whole model: embedding, `num_layers` equal layers, head.

    `checkpointing` selects the ops of each layer that its backward runs again; `core` names those of the forward for
    `selective`; with `full`, only the layers whose numbers divide by `checkpoint_every`. A sample has `sequence`
    positions (1 in a model without sequences). `optimizer` steps the weights. `traits` are further differences between
    models of equal sizes. Raises InputError.
    """

    name: str
    batch: int
    sequence: int
    num_layers: int
    checkpointing: Checkpointing
    precision: Precision
    embedding: Phase
    layer: Phase
    head: Phase
    values: Mapping[str, Value]
    weights: Mapping[str, Weight]
    traits: Mapping[str, str | int] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)
    core: tuple[str, ...] = ()
    checkpoint_every: int = 1
    optimizer: Optimizer = "adam"

    def __post_init__(self) -> None:
        if self.checkpointing not in get_args(Checkpointing):
            allowed = ", ".join(get_args(Checkpointing))
            raise InputError(f"model {self.name}: checkpointing = {self.checkpointing!r}; allowed: {allowed}")

    @property
    def recomputed(self) -> tuple[WorkOp, ...]:
        """Ops of a layer's forward that its backward runs again."""
        if self.checkpointing == "selective":
            return tuple(op for op in self.layer.forward if op.name in self.core)
        return self.layer.forward if self.checkpointing == "full" else ()

    def is_checkpointed(self, layer: int) -> bool:
        """Return whether a layer's backward recomputes anything."""
        return self.checkpointing != "none" and layer % self.checkpoint_every == 0

    @property
    def clips_each(self) -> bool:
        """True if gradients are clipped one by one (a trait), so that the host reads the norm of each."""
        return self.traits.get("clip") == "each"

    @property
    def num_parameters(self) -> int:
        return sum(w.num_elements * (self.num_layers if w.per_layer else 1) for w in self.weights.values())

    @property
    def matmul_flops(self) -> int:
        """Floating-point operations of all matrix products of one micro-batch, recomputation included."""
        layer = sum(map(_matmul_flops, (self.layer.forward, self.layer.backward)))
        again = sum(map(self.is_checkpointed, range(self.num_layers))) * _matmul_flops(self.recomputed)
        ends = sum(_matmul_flops(ops) for p in (self.embedding, self.head) for ops in (p.forward, p.backward))
        return self.num_layers * layer + again + ends


def _matmul_flops(ops: tuple[WorkOp, ...]) -> int:
    return sum(op.flops for op in ops if op.matmul is not None)
