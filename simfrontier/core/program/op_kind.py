"""Classes of op kinds: every property of a kind that the checker, the cost model, explanations and real runs need.

A kind is one instance of one of these classes, in `core.program.kinds` (or an extra's `op_kinds`). No other place lists
kinds.
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
    """A kind of op. `words` name its ops in explanations; `traffic` gives the bytes of device memory that an op reads
    and writes. `in_files`: a schedule file may contain it."""

    name: str
    words: str
    traffic: cost.Traffic = cost.every_operand
    in_files: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelKind(OpKind):
    """Work of the model: the axes that cut an op's iteration space determine the placements of its operands.

    `parts`: the ops of its backward, each with the factor of a product (by index) whose gradient it computes; None: the
    gradients of all operands of the forward. `sums`: its ops form the sums that the op of the same module needs.
    `products`: for a matrix product, the number of products by the number of values written (default: one).
    `reduction`: how results combine over an axis that cuts a label missing in them. `has_whole_rows`: each result
    depends on a whole row, the last label of its first operand (for a product, on all of n and k), and is no sum over
    the ranks that hold parts of it: if an axis cuts that label, the op needs sums formed over it before.

    Labels: `has_own_labels`: its results have labels outside the op's iteration space; `resizes_labels`: it may select,
    join or gather its operands, which then have a label in other sizes; `is_gated`: its operand has two features side
    by side for each feature of the result. `reads_indices`: its first operand is of integers. `writes_mask`: its last
    result is a mask. `adds_values`: its operands, which have the same labels, are added, even while they are partial
    sums. `has_passes`: its op names a kernel of `core.program.cost`, for rows that do not stay on the chip.

    Backward: `needs`: operands of a gradient op of this kind besides gradients; `gradient`: the kind that computes its
    gradients, if another; `sums_gradients`: its gradient is that of each of its operands; `adds_gradients`: its
    backward adds gradients from other paths; `gradients_last`: the gradients are its last operands; `is_fused`: its
    gradient is computed together with that of the product that uses its result; `ends`: it reads a value and writes the
    gradient with respect to it. Of a loss: `is_of_loss`, and `is_shared`: the loss reads all operands of this op.
    `is_alike`: it reads the same values in all streams of a model. `in_pieces`: its rows may be computed piece by piece
    (program.pieces).
    """

    parts: Mapping[Part, int | None] = field(default_factory=dict)
    sums: bool = False
    products: Mapping[int, int] | None = None
    reduction: PartialOp = "sum"
    has_whole_rows: bool = False
    has_own_labels: bool = False
    resizes_labels: bool = False
    is_gated: bool = False
    reads_indices: bool = False
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


def product(name: str, words: str, parts: Mapping[Part, int | None]) -> ModelKind:
    """Return the kind of a product of two factors, each of whose gradients is a product with the other one."""
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
    """A local op on pairs of forms of one logical tensor: reads[i] becomes writes[i], or, if it `adds`, is added to
    accumulates[i]. `narrows`: a rank may keep a part of the source. `combines`: it reads contributions of several ranks
    side by side (`Tensor.stacked`)."""

    coding: Coding
    adds: bool = False
    narrows: bool = False
    combines: bool = False


@dataclass(frozen=True, slots=True)
class OfWeight:
    """Tensors that an op of the optimizer reads, or writes, for each weight: one with a role of `one_of` (`title`), and
    one with each role of `states`."""

    one_of: frozenset[TensorRole]
    title: str
    states: tuple[TensorRole, ...]


@dataclass(frozen=True, kw_only=True)
class StepKind(OpKind):
    """An op of the optimizer: the tensors that it `reads` and `writes` for each weight, and the `renewed` states, which
    it reads and writes. `does`: computes an update from gradients, applies one, or both."""

    does: Literal["update", "apply", "both"]
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
class NormKind(OpKind):
    """Sum of squares of reduced gradients."""


@dataclass(frozen=True, kw_only=True)
class AverageKind(OpKind):
    """Update of a moving average of a weight."""


@dataclass(frozen=True, kw_only=True)
class WaitKind(OpKind):
    """A wait: of the host for the inputs of a module, or of a stream."""


@dataclass(frozen=True, kw_only=True)
class MeasuredKind(OpKind):
    """Measured work from the traces of a job: only its time is known. `is_pause`: nothing runs meanwhile."""

    is_pause: bool = False


@dataclass(frozen=True, kw_only=True)
class CallKind(OpKind):
    """Communication: a collective, or an exchange. `sums`: it adds the contributions of several ranks."""

    sums: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Meta entries of schedules of an extra's model, checked by its module `model_facts`: `stated` yields (key,
    expected value and reason) for each entry that contradicts the ops; nothing for schedules of other models."""

    stated: Callable[[Schedule], Iterator[tuple[str, str]]]
