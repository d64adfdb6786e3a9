"""The registry of op kinds, by name. It is the only list of op kinds besides those that extras add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from simfrontier.base.extras import added
from simfrontier.core.program import cost
from simfrontier.core.program.ir import GRADIENT_ROLES, Call, Compute, Exchange, Op, Schedule, Tensor, TensorRole
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.op_kind import (
    BACKWARD,
    AverageKind,
    CallKind,
    CopyKind,
    MeasuredKind,
    ModelKind,
    NormKind,
    OfWeight,
    OpKind,
    OrthogonalKind,
    StepKind,
    WaitKind,
    product,
)

# ── matrix products, and attention, whose fused kernel is two of them ──

MATMUL: Final = product("matmul", "matrix products", {"dgrad": 0, "wgrad": 1})  # of values and a weight
PRODUCTS: Final = (
    MATMUL,
    product("grouped_matmul", "matrix products of experts", {"dgrad": 0, "wgrad": 1}),
    product("scores", "scores of attention", {"dquery": 0, "dkey": 1}),
    product("context", "sums of values by attention", {"dprobabilities": 0, "dvalue": 1}),
    ModelKind(
        name="attention",
        words="attention",
        has_whole_rows=True,
        parts=BACKWARD,
        traffic=cost.product,
        products={1: (1, 1), 3: (3, 2)},  # the forward, and the backward, which recomputes the scores
        needs=("operands", "results"),
        merges_pieces=True,  # by a running softmax
    ),
)

ATTENTION: Final = ("attention", "scores", "softmax", "context")  # kinds that relate positions to one another

# ── norms over features, and the sums over features that ranks share, which are formed first ──

NORMS: Final = tuple(
    ModelKind(
        name=name,
        words=words,
        parts=BACKWARD,
        sums=sums,
        has_whole_rows=not sums,
        has_own_labels=sums,
        needs=("operands", "weight"),
        adds_gradients=True,
        is_alike=not sums,
    )
    for name, words, sums in (
        ("norm", "norms", False),
        ("norm_sums", "sums of norms", True),
        ("rmsnorm", "norms (RMS)", False),
        ("rmsnorm_sums", "sums of norms (RMS)", True),
    )
)

HEAD_NORM: Final = ModelKind(  # RMSNorm; its rows, the features of one head, are never split
    name="head_norm", words="norms of heads", parts=BACKWARD, needs=("operands", "weight")
)

# ── work element by element, or row by row ──

POINTWISE: Final = (
    ModelKind(name="gelu", words="GELU", parts=BACKWARD, needs=("operands",)),
    ModelKind(name="swiglu", words="SwiGLU", parts=BACKWARD, is_gated=True, needs=("operands",)),
    ModelKind(name="clamped_swiglu", words="SwiGLU (clamped)", parts=BACKWARD, is_gated=True, needs=("operands",)),
    ModelKind(
        name="softmax", words="softmax", parts=BACKWARD, has_whole_rows=True, has_passes=True, needs=("results",)
    ),
    ModelKind(name="rotary", words="rotary embeddings", parts=BACKWARD, needs=()),
    ModelKind(name="concat", words="joining of features", parts=BACKWARD, has_own_labels=True, needs=()),
    ModelKind(name="add", words="additions", parts=BACKWARD, adds_values=True, sums_gradients=True),
    ModelKind(name="cast", words="casts"),
    ModelKind(name="dropout", words="dropout", parts=BACKWARD, writes_mask=True),
)

# ── experts: the choice of experts for every position, and the copies of rows to experts and back ──

EXPERTS: Final = (
    ModelKind(
        name="route",
        words="routing",
        parts=BACKWARD,
        has_whole_rows=True,
        resizes_labels=True,
        has_own_labels=True,
        writes_indices=True,
        needs=("operands",),
    ),
    ModelKind(
        name="dispatch", words="dispatch of rows to experts", parts=BACKWARD, resizes_labels=True, has_own_labels=True
    ),
    ModelKind(name="combine", words="combination of experts' rows", parts=BACKWARD, resizes_labels=True),
)

# ── look-ups in the tables of tokens and positions ──

EMBEDDING: Final = (
    ModelKind(
        name="lookup", words="embedding look-ups", traffic=cost.as_written, reads_indices=True, gradient="scatter"
    ),
    ModelKind(
        name="scatter",
        words="gradients of the embedding",
        parts={"wgrad": None},
        traffic=cost.added_rows,
        reads_indices=True,
        needs=("operands",),
        gradients_last=True,
    ),
    ModelKind(name="add_positions", words="positions", parts={"wgrad": None}, needs=(), sums_gradients=True),
)

# ── the cross-entropy loss, and what ranks that have some of the classes say of their part of it ──

LOSS: Final = ModelKind(name="loss", words="the loss", has_whole_rows=True, has_passes=True, ends=True, is_of_loss=True)
LOSS_PARTS: Final = (
    ModelKind(name="loss_max", words="maxima of the loss", reduction="max", is_of_loss=True),
    ModelKind(
        name="loss_sums", words="sums of the loss", sums=True, has_own_labels=True, is_of_loss=True, is_shared=True
    ),
    ModelKind(name="loss_own", words="logits of labels", is_of_loss=True),
    ModelKind(name="loss_exp", words="exponentials of the loss", is_of_loss=True),
    ModelKind(name="loss_sum", words="sums of exponentials", is_of_loss=True, is_shared=True),
    ModelKind(
        name="loss_online",
        words="running sums of the loss",
        reduction="merge",
        has_own_labels=True,
        is_of_loss=True,
        is_shared=True,
    ),
    ModelKind(
        name="loss_pairs",
        words="sums of the loss as m 2^n",
        reduction="merge",
        has_own_labels=True,
        is_of_loss=True,
        is_shared=True,
    ),
)

# ── local ops that only move, encode, decode or add existing data ──

COPIES: Final = (
    CopyKind(name="slice", words="slicing", traffic=cost.as_written, coding="keeps", narrows=True),
    CopyKind(name="offload", words="copies to the host", traffic=cost.as_read, coding="keeps", over_host=True),
    CopyKind(name="reload", words="copies from the host", traffic=cost.written, coding="keeps", over_host=True),
    CopyKind(name="permute", words="reordering", coding="keeps"),
    CopyKind(name="merge", words="merging of the loss", coding="keeps", combines=True),
    CopyKind(name="encode", words="encoding", traffic=cost.encoded, coding="encodes", narrows=True),
    CopyKind(name="decode", words="decoding", coding="decodes"),
    CopyKind(name="decode_sum", words="decoding and adding", coding="decodes", adds=True, combines=True),
    CopyKind(name="accumulate", words="accumulation of gradients", coding="plain", adds=True),
)

# ── the end of a step: norms of gradients, the optimizer, and what follows the weights ──

_GRADIENT: Final = frozenset(GRADIENT_ROLES)
_NEW: Final[frozenset[TensorRole]] = frozenset({"weight", "gradient"})  # the new weight, or a buffer that becomes it
_UPDATE: Final[frozenset[TensorRole]] = frozenset({"update"})

NORM: Final = NormKind(name="norm2", words="norms of gradients")
AVERAGE: Final = AverageKind(name="ema", words="moving averages of weights")
STEPS: Final = (
    StepKind(
        name="adam",
        words="the optimizer (Adam)",
        traffic=cost.adam,
        does="both",
        reads=OfWeight(_GRADIENT, "a gradient", ("master", "optimizer")),
        writes=OfWeight(_NEW, "a weight", ("master", "optimizer")),
        renewed=("optimizer", "master"),
    ),
    StepKind(
        name="lamb_update",
        words="the optimizer (LAMB before its scale)",
        traffic=cost.lamb_update,
        does="update",
        reads=OfWeight(_GRADIENT, "a gradient", ("master", "optimizer")),
        writes=OfWeight(_UPDATE, "an update", ("norms", "optimizer")),
        renewed=("optimizer",),
    ),
    StepKind(
        name="lamb",
        words="the optimizer (LAMB)",
        traffic=cost.lamb,
        does="apply",
        reads=OfWeight(_UPDATE, "an update", ("master", "norms")),
        writes=OfWeight(_NEW, "a weight", ("master",)),
        renewed=("master",),
    ),
    StepKind(
        name="muon_update",
        words="the optimizer (momentum of Muon)",
        traffic=cost.muon_update,
        does="update",
        moments=1,
        reads=OfWeight(_GRADIENT, "a gradient", ("optimizer",)),
        writes=OfWeight(_UPDATE, "an update", ("optimizer",)),
        renewed=("optimizer",),
    ),
    StepKind(
        name="muon",
        words="the optimizer (Muon)",
        traffic=cost.lamb,
        does="apply",
        beside="adam",
        reads=OfWeight(_UPDATE, "an update", ("master",)),
        writes=OfWeight(_NEW, "a weight", ("master",)),
        renewed=("master",),
    ),
)
NEWTON_SCHULZ: Final = OrthogonalKind(
    name="newton_schulz", words="orthogonalisation (Muon)", traffic=cost.newton_schulz
)

# ── the host's code, waits, and communication ──

WAITS: Final = (
    WaitKind(name="hook", words="hooks of the host", traffic=cost.nothing, host="hook_s"),
    WaitKind(name="launch", words="launches of experts", traffic=cost.nothing, host="experts_s"),
    WaitKind(
        name="launch_backward",
        words="launches of experts' backward",
        traffic=cost.nothing,
        host="experts_backward_s",
    ),
    WaitKind(name="await_rows", words="the host's waits for numbers of rows", traffic=cost.nothing),
)
COLLECTIVES: Final = (
    CallKind(name="all_gather", words="all-gathers"),
    CallKind(name="reduce_scatter", words="reduce-scatters", sums=True),
    CallKind(name="all_reduce", words="all-reduces", sums=True),
    CallKind(name="all_to_all", words="all-to-alls"),
)
EXCHANGE: Final = CallKind(name="exchange", words="exchanges of stages")

# ── kinds that no schedule file contains: kernels read from the traces of a job, the pauses between them, and one op
# that represents a whole call ──

MEASURED: Final = MeasuredKind(name="measured", words="measured", in_files=False)
PAUSE: Final = MeasuredKind(name="pause", words="pause", in_files=False, is_pause=True)
CALL: Final = OpKind(name="call", words="call", in_files=False)

# ── the registry ──

KINDS: Final[Mapping[str, OpKind]] = {
    kind.name: kind
    for kind in (
        *(*PRODUCTS, *NORMS, HEAD_NORM, *POINTWISE, *EXPERTS, *EMBEDDING, LOSS, *LOSS_PARTS),
        *(*COPIES, NORM, *STEPS, NEWTON_SCHULZ, AVERAGE, *WAITS, *COLLECTIVES, EXCHANGE, MEASURED, PAUSE, CALL),
        *added("op_kinds", ModelKind),
    )
}


def kind_of(op: Op) -> OpKind:
    """Return the properties of an op's kind."""
    return KINDS[op.kind]


def model_kind(name: str) -> ModelKind:
    """Return the properties of the kind of model op with this name."""
    kind = KINDS[name]
    assert isinstance(kind, ModelKind), name
    return kind


def traffic_bytes(op: Compute, tensors: Mapping[str, Tensor], mesh: Mesh) -> int:
    """Return the bytes of device memory that an op reads and writes on one rank, as defined by its kind."""
    return kind_of(op).traffic(cost.Operands(op, tensors, mesh))


def is_work(op: Op) -> bool:
    """Return whether an op is a computation of the model (forward, backward or loss)."""
    return isinstance(KINDS[op.kind], ModelKind)


def is_product(name: str) -> bool:
    """Return whether the kind with this name is a product of two matrices; False for an unknown name."""
    kind = KINDS.get(name)
    return isinstance(kind, ModelKind) and kind.products == {}


def has_products(name: str) -> bool:
    """Return whether kernels of the kind with this name multiply matrices, as fused attention also does; False for an
    unknown name."""
    kind = KINDS.get(name)
    return isinstance(kind, ModelKind) and kind.products is not None


def is_wait(op: Op) -> bool:
    """Return whether an op is host code or a wait, which no device computes."""
    return isinstance(KINDS[op.kind], WaitKind)


def is_copy(op: Op) -> bool:
    """Return whether an op is a local op that only moves, encodes, decodes or adds existing data."""
    return isinstance(op, Compute) and isinstance(KINDS[op.kind], CopyKind)


def renews_weights(op: Op) -> bool:
    """Return whether an op is an optimizer op that writes weights."""
    kind = KINDS[op.kind]
    return isinstance(kind, StepKind) and kind.renews_weights


def writes_indices(op: Op) -> bool:
    """Return whether the first tensor that an op writes consists of integers."""
    kind = KINDS[op.kind]
    return isinstance(op, Compute) and isinstance(kind, ModelKind) and kind.writes_indices and op.named.part is None


def writes_mask(op: Op) -> bool:
    """Return whether the last tensor that an op writes is a dropout mask."""
    kind = KINDS[op.kind]
    return isinstance(kind, ModelKind) and kind.writes_mask and len(op.writes) > 1


# ── phases of a step ──

Phase = Literal["forward", "backward", "exchange", "end"]
"""`exchange`: of values between stages; `end`: what follows the last micro-batch (reductions and the optimizer)."""


def phase_of(call: Call, schedule: Schedule) -> Phase:
    """Return the phase of the step to which a call belongs. The backward phase begins with the loss, and includes
    recomputation."""
    block = schedule.blocks[call.block]
    if any(_exchanges_values(op, schedule) for op in block):
        return "exchange"
    works = [op for op in block if isinstance(op, Compute) and is_work(op)]
    if not works:
        return "end"
    return "backward" if any(op.named.part is not None or model_kind(op.kind).ends for op in works) else "forward"


def _exchanges_values(op: Op, schedule: Schedule) -> bool:
    """Return whether an op exchanges activations or their gradients between stages, rather than gradients of a weight
    that both stages hold."""
    return isinstance(op, Exchange) and all(schedule.tensors[ref.name].weight is None for ref in op.reads)
