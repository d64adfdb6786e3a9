"""Classes of op kinds. They define every property of a kind that the checker, the cost model, explanations and real
runs need.

A kind is one instance of one of these classes, registered in `core.program.kinds` (or in an extra's `op_kinds`). No
other module lists kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from simfrontier.core.program import cost
from simfrontier.core.program.names import Part
from simfrontier.core.program.placement import PartialOp

if TYPE_CHECKING:
    from simfrontier.core.program.ir import Schedule, TensorRole

Needed = Literal["operands", "results", "weight", "factors", "any"]
"""What the backward of a kind reads beside gradients: all operands of the forward, all its results, its first weight,
all factors of its product but one, or at least one operand or result."""

BACKWARD: Final[Mapping[Part, int | None]] = {"backward": None}
"""The parts of a kind whose backward is one op, which makes the gradients of all that the forward reads."""

Coding = Literal["keeps", "encodes", "decodes", "plain"]
"""What a copy does to codes: keeps what its source has, encodes, decodes, or is of plain numbers."""


@dataclass(frozen=True, kw_only=True)
class OpKind:
    """A kind of op. `words` describes its ops in explanations; `traffic` computes the bytes of device memory that an op
    reads and writes. `in_files`: True if a schedule file may contain ops of this kind."""

    name: str
    words: str
    traffic: cost.Traffic = cost.every_operand
    in_files: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelKind(OpKind):
    """A computation of the model. The axes that shard the iteration space of an op determine the placements of its
    operands.

    `parts`: the ops of the backward, each with the index of the factor whose gradient it computes (for a matrix
    product), or None if it computes the gradients of all operands of the forward.
    `sums`: ops of this kind compute the statistics that another op of the same module needs.
    `products`: None for kinds without matrix products, empty for a matrix product; for fused attention, the numbers of
    GEMMs over the features of queries and keys, and over those of values, by the number of values written.
    `reduction`: how results are combined over an axis that shards a label the results lack.
    `has_whole_rows`: each result depends on a whole row (the last label of the first operand; for a matrix product, all
    labels of n and k) and cannot be computed as a sum over the ranks that share the row. If an axis shards that label,
    the op needs statistics that were summed over the axis before.

    `has_own_labels`: results have labels outside the op's iteration space.
    `resizes_labels`: the op may select, join or gather its operands, in which a label then has another size.
    `is_gated`: the operand has two features side by side for each feature of the result.
    `reads_indices`: the first operand consists of integers.
    `writes_indices`: the first result of the forward consists of integers.
    `writes_mask`: the last result is a mask.
    `adds_values`: the operands have the same labels and are added, even while they are partial sums.
    `has_passes`: the op may name a softmax kernel of `core.program.cost`, for rows that do not fit into on-chip memory.

    `needs`: the operands, besides gradients, of a gradient op of this kind.
    `gradient`: the kind that computes the gradients of this kind, if it is another kind.
    `sums_gradients`: the gradient of the result is the gradient of each operand.
    `adds_gradients`: the backward adds gradients that arrive along other paths.
    `gradients_last`: gradients are the last operands of a gradient op, not the first.
    `is_fused`: the gradient is computed together with that of the matrix product that reads the result.
    `ends`: the op reads a value and writes the gradient with respect to this value (the end of a loss).
    `is_of_loss`: the op belongs to a loss.
    `is_shared`: the end of the loss reads all operands of this op, too.
    `is_alike`: the op reads the same values in all streams of a model.
    `in_pieces`: rows of the op may be computed piece by piece (see program.pieces).
    `merges_pieces`: so may columns, whose results are merged into those of the pieces before.
    """

    parts: Mapping[Part, int | None] = field(default_factory=dict)
    sums: bool = False
    products: Mapping[int, tuple[int, int]] | None = None
    reduction: PartialOp = "sum"
    has_whole_rows: bool = False
    has_own_labels: bool = False
    resizes_labels: bool = False
    is_gated: bool = False
    reads_indices: bool = False
    writes_indices: bool = False
    writes_mask: bool = False
    adds_values: bool = False
    has_passes: bool = False
    needs: tuple[Needed, ...] = ("any",)
    gradient: str = ""
    sums_gradients: bool = False
    adds_gradients: bool = False
    gradients_last: bool = False
    is_fused: bool = False
    ends: bool = False
    is_of_loss: bool = False
    is_shared: bool = False
    is_alike: bool = False
    in_pieces: bool = False
    merges_pieces: bool = False


def product(name: str, words: str, parts: Mapping[Part, int | None]) -> ModelKind:
    """Return the kind of a matrix product of two factors. The gradient of each factor is a matrix product with the
    other factor."""
    return ModelKind(
        name=name,
        words=words,
        parts=parts,
        traffic=cost.product,
        products={},
        needs=("factors",),
        is_alike=True,
        in_pieces=True,
    )


@dataclass(frozen=True, kw_only=True)
class CopyKind(OpKind):
    """A local op that copies or converts tensors pair by pair: `reads[i]` is written to `writes[i]`, which represents
    the same logical tensor, or, if the kind `adds`, it is added to `accumulates[i]`. `narrows`: a rank may keep only a
    part of the source. `combines`: the source holds the contributions of several ranks side by side
    (`Tensor.stacked`). `over_host`: the host's memory is at one end."""

    coding: Coding
    over_host: bool = False
    adds: bool = False
    narrows: bool = False
    combines: bool = False


@dataclass(frozen=True, slots=True)
class OfWeight:
    """The tensors that an optimizer op reads, or writes, for each weight: one tensor whose role is in `one_of` (called
    `title` in messages), and one tensor of each role in `states`."""

    one_of: frozenset[TensorRole]
    title: str
    states: tuple[TensorRole, ...]


@dataclass(frozen=True, kw_only=True)
class StepKind(OpKind):
    """An optimizer op: the tensors that it `reads` and `writes` for each weight, and the roles of the states that it
    both reads and writes (`renewed`). `does`: computes an update from gradients, applies an update to weights, or
    both. `moments`: how many it keeps of each element. `beside`: the optimizer of the weights that it cannot update."""

    does: Literal["update", "apply", "both"]
    moments: int = 2
    beside: str = ""
    reads: OfWeight
    writes: OfWeight
    renewed: tuple[TensorRole, ...]

    @property
    def reads_gradients(self) -> bool:
        return self.does != "apply"

    @property
    def renews_weights(self) -> bool:
        return self.does != "update"


@dataclass(frozen=True, kw_only=True)
class OrthogonalKind(OpKind):
    """Newton-Schulz iterations on the update of one weight, whose matrices the rank must have whole; each iteration has
    three products. Its iteration space has the labels of the smaller side of a matrix, of the larger side, and of the
    smaller side again."""


@dataclass(frozen=True, kw_only=True)
class NormKind(OpKind):
    """Computation of the sum of squares of reduced gradients."""


@dataclass(frozen=True, kw_only=True)
class AverageKind(OpKind):
    """Update of the moving average of a weight."""


@dataclass(frozen=True, kw_only=True)
class WaitKind(OpKind):
    """Host code or a wait: a hook of the host that waits for the inputs of a module, launches of kernels, or a wait on
    a stream. `host`: the time of `machine.Host` that it takes on the host's lane (None: it only waits)."""

    host: Literal["hook_s", "experts_s", "experts_backward_s"] | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredKind(OpKind):
    """Measured work from the traces of a job, of which only the duration is known. `is_pause`: a pause in which nothing
    runs."""

    is_pause: bool = False


@dataclass(frozen=True, kw_only=True)
class CallKind(OpKind):
    """Communication: a collective or an exchange. `sums`: the contributions of several ranks are added."""

    sums: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Rules for the metadata of schedules of an extra's model, provided by its module `model_facts`. `stated` yields
    (key, expected value and reason) for each metadata entry that contradicts the ops; it yields nothing for schedules
    of other models."""

    stated: Callable[[Schedule], Iterator[tuple[str, str]]]
