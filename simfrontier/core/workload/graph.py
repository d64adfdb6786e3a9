"""A workload: a model as a graph of ops on logical (undistributed) tensors, and the number types of the model. It is
independent of machine and device mesh."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.program import OpName, in_streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Number types of a model. `model`: weights, activations, and gradients before accumulation. `gradients`: the
    accumulators of gradients over the micro-batches of a step, which the optimizer reads. `master`: the master weights
    that the optimizer updates. `moments`: each of the optimizer's two moments. `wide`: the logits in the loss, and sums
    over all ranks."""

    name: str
    model: str
    gradients: str
    master: str
    moments: str
    wide: str

    @property
    def is_mixed(self) -> bool:
        """True if the model's number type is narrower than that of sums."""
        return self.model != self.wide

    def keeping(self, gradients: str | None = None, master: str | None = None, moments: str | None = None) -> Precision:
        """Return these number types with other types of gradient accumulators, master weights and moments (None:
        unchanged).

        Raises InputError for a type that is neither the model's nor the wide type, or for moments in fp16, in which
        squares of gradients underflow. bf16 masters and moments are DeepSpeed's `bf16_master_weights_and_grads` and
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
    """Return the number types of a precision, by its name. Raises InputError with the nearest name."""
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

Optimizer = Literal["adam", "lamb", "muon"]
"""What steps weights: Adam (arXiv 1412.6980), LAMB (arXiv 1904.00962), which scales the step of every tensor to the
tensor's own norm, or Muon (arXiv 2502.16982), which makes the step of every matrix of a layer orthogonal."""
EXPERTS: Final = "E"  # the label of experts

MatmulLabels = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A logical tensor, which is an activation or the gradient of one: its labelled dimensions, their sizes, and its
    number type.

    `local` is the value's name within its `streams` (the outermost first); values of several streams may share a local
    name. `persistent` values are the input data of a micro-batch, which no op writes. A value with `where_cut` exists
    only if the plan splits the dimension of that label over ranks; a value with `loss_methods` only if the plan uses
    one of these methods of the loss. `form_of` names another value, if this one is that value in another number type or
    location, or a partial sum of it.
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
    """A parameter tensor of a module; `parameter` says which one ("weight", "bias" …), `streams` in which streams the
    module is. A frozen one is not trained: it has no gradient and no states of the optimizer."""

    module: str
    parameter: str
    streams: tuple[str, ...] = ()
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    per_layer: bool
    is_frozen: bool = False

    @property
    def local(self) -> str:
        """Name of the weight within its streams."""
        return f"{self.module}.{self.parameter}"

    @property
    def name(self) -> str:
        return in_streams(self.streams, self.local)

    @property
    def owner(self) -> str:
        """Unit whose hooks fetch the weight: the name of its module, with its streams."""
        return in_streams(self.streams, self.module)

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by label, without that of experts, each of which has a tensor of its own."""
        return {label: size for label, size in zip(self.dims, self.shape, strict=True) if label != EXPERTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State of a model that persists between steps and that no optimizer updates: a queue, a running mean, a teacher's
    weight.

    `parameter` names the state within its module (empty: the module has only one). A state that `follows` a weight is
    the moving average of that weight, updated at the end of every step; a `fixed` state never changes.
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
        """Name of the state within its streams."""
        return f"{self.module}.{self.parameter}" if self.parameter else self.module

    @property
    def name(self) -> str:
        return in_streams(self.streams, self.local)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOp:
    """One op on logical tensors.

    `iteration` gives the size of each label of the op's iteration space; an operand that lacks a label is shared along
    it, an output that lacks a label is summed over it. `matmul` names the labels of (batch, m, n, k) for a matrix
    product. The op reads `weights` and `states`, overwrites `written_states`, and adds to the gradients of the weights
    in `gradients`. An op without the batch label in its iteration space needs all samples: if they are divided over
    ranks, its operands are gathered. `flops` counts the whole logical op. An op with `where_cut` exists only if the
    plan splits the dimension of that label (otherwise another op includes its work); an op with `loss_methods` only if
    the plan uses one of these methods of the loss. `kernel` is the kernel of a softmax (program.cost); empty if the
    rows of the softmax stay on the chip. `attended` names the operands and results whose positions are those attended
    to: their label s is the op's label t. `named` holds the parts of the op's name.
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
    attended: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.named.text

    def labels_of(self, value: Value) -> tuple[str, ...]:
        """Return the labels of an operand or result in this op's iteration space."""
        if value.name not in self.attended:
            return value.dims
        return tuple("t" if label == "s" else label for label in value.dims)

    @property
    def makes_weight_gradients(self) -> bool:
        """True for a matrix product whose only results are gradients of weights: no other op of the backward waits for
        it."""
        return self.matmul is not None and bool(self.gradients) and not self.writes


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The forward ops and the backward ops of one part of the model (embedding, one layer, head), in order."""

    forward: tuple[WorkOp, ...]
    backward: tuple[WorkOp, ...]

    def __hash__(self) -> int:
        return hash(
            (len(self.forward), len(self.backward))
        )  # not of all their fields, which takes a thousand times as long

    @property
    def weights(self) -> frozenset[str]:
        """Names of the weights that the ops read or of which they compute the gradients."""
        return frozenset(name for op in (*self.forward, *self.backward) for name in (*op.weights, *op.gradients))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A whole model: embedding, layers, head.

    `layers` has the phase of each layer; layers of one kind share one phase, and a layer has the weights of its ops.
    `checkpointing` selects the ops of each layer that the layer's backward recomputes: with `selective`, the forward
    ops named in `core`; with `full`, all forward ops, but only in layers whose numbers are divisible by
    `checkpoint_every`. A sample has `sequence` positions (1 in a model without sequences). `optimizer` updates the
    weights. `traits` are further differences between models of equal sizes. Raises InputError.
    """

    name: str
    batch: int
    sequence: int
    checkpointing: Checkpointing
    precision: Precision
    embedding: Phase
    layers: tuple[Phase, ...]
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
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def kinds(self) -> tuple[Phase, ...]:
        """The different layers, in the order in which they first occur."""
        return tuple(dict.fromkeys(self.layers))

    def recomputed(self, layer: Phase) -> tuple[WorkOp, ...]:
        """Return the forward ops of a layer that its backward recomputes."""
        if self.checkpointing == "selective":
            return tuple(op for op in layer.forward if op.name in self.core)
        return layer.forward if self.checkpointing == "full" else ()

    def is_checkpointed(self, layer: int) -> bool:
        """Return whether the backward of a given layer recomputes anything."""
        return self.checkpointing != "none" and layer % self.checkpoint_every == 0

    def is_orthogonalised(self, weight: Weight) -> bool:
        """Return whether Muon updates a weight: a matrix of a layer. All else is Adam's (Megatron-Core,
        core/optimizer/emerging_optimizers.py: embeddings, the head, and tensors of other than two dimensions)."""
        return self.optimizer == "muon" and weight.per_layer and len(weight.sizes) == 2

    @property
    def clips_each(self) -> bool:
        """True if gradients are clipped one by one (a trait of the model), so that the host reads the norm of every
        gradient."""
        return self.traits.get("clip") == "each"

    def of_layers(self, layers: tuple[Phase, ...]) -> Workload:
        """Return the model with these of its layers, and without values and weights that only others have."""
        phases = (self.embedding, *dict.fromkeys(layers), self.head)
        weights = {name for phase in phases for name in phase.weights}
        ops = [op for phase in phases for op in (*phase.forward, *phase.backward)]
        values = {name for op in ops for name, _ in (*op.reads, *op.writes)}
        return replace(
            self,
            layers=layers,
            values={name: value for name, value in self.values.items() if name in values},
            weights={name: weight for name, weight in self.weights.items() if name in weights},
            states={
                name: state for name, state in self.states.items() if not state.follows or state.follows in weights
            },
        )

    def instances(self, layers: Iterable[Phase]) -> Counter[str]:
        """Return how many of these layers have each weight."""
        out: Counter[str] = Counter()
        for kind, count in Counter(layers).items():
            out.update(dict.fromkeys(kind.weights, count))
        return out

    @property
    def num_parameters(self) -> int:
        of_layers = self.instances(self.layers)
        return sum(w.num_elements * (of_layers[w.name] if w.per_layer else 1) for w in self.weights.values())

    @property
    def matmul_flops(self) -> int:
        """Flops of all matrix products of one micro-batch, including recomputation."""
        once = Counter((self.embedding, *self.layers, self.head))
        again = Counter(layer for number, layer in enumerate(self.layers) if self.is_checkpointed(number))
        flops = sum(count * _matmul_flops((*phase.forward, *phase.backward)) for phase, count in once.items())
        return flops + sum(count * _matmul_flops(self.recomputed(layer)) for layer, count in again.items())


def _matmul_flops(ops: tuple[WorkOp, ...]) -> int:
    return sum(op.flops for op in ops if op.matmul is not None)
