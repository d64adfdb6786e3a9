"""What a kind of op is: every fact that the checker, the cost model, explanations and real runs need of it.

A kind is one value of one of these classes, in `core.program.kinds` (or an extra's `op_kinds`). No other place lists
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
    """A kind of op. `words` are what explanations call its ops; `traffic` gives the bytes of device memory that one
    reads and writes. `in_files`: a schedule's file may have it."""

    name: str
    words: str
    traffic: cost.Traffic = cost.every_operand
    in_files: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelKind(OpKind):
    """Work of the model: the axes that cut an op's iteration space give the placements of its operands.

    `parts`: what its ops in the backward make, and of which factor of a product (by its place) it is the gradient;
    None: of all that the forward reads. `sums`: an op of it forms the sums that the op of its module needs.
    `products`: of a matrix product, by the number of values written how many products it is (other numbers: one).
    `reduction`: how results combine over an axis that cuts a label which they lack. `has_whole_rows`: each result
    depends on a whole row, the last label of its first operand (of a product, on all of n and k), and is no sum of what
    ranks with a part of it have: where an axis cuts that label, the op needs what was summed over it before.

    Labels: `has_own_labels`: its results have labels that the op does not go through; `resizes_labels`: it may pick,
    join or gather what it reads, so that operands have a label in other sizes; `is_gated`: its operand has two features
    side by side for each of the result. `reads_indices`: its first operand are whole numbers. `writes_mask`: its last
    result is a mask. `adds_values`: its operands, which have the same labels, are added up, also while they are partial
    sums. `has_passes`: its op names a kernel of `core.program.cost`, for rows that do not stay on the chip.

    Backward: `needs` is what an op of this kind that makes gradients reads beside them; `gradient`: the kind that makes
    its gradients, where that is another; `sums_gradients`: its gradient is that of each of its operands;
    `adds_gradients`: its backward adds gradients that come by other paths; `gradients_last`: those that it reads stand
    last; `is_fused`: its gradient is made together with that of the product with its result; `ends`: it reads a value
    and writes the gradient by it. Of a loss: `is_of_loss`, and `is_shared`: the loss reads all that it reads.
    `is_alike`: it reads the same values in all streams of a model. `in_pieces`: it may be done piece by piece of its
    rows (program.pieces).
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
    """A local op on pairs of one logical tensor each: reads[i] becomes writes[i], or, where it `adds`, is added to
    accumulates[i]. `narrows`: a rank may keep a part of what it reads. `combines`: it reads contributions of several
    ranks side by side (`Tensor.stacked`)."""

    coding: Coding
    adds: bool = False
    narrows: bool = False
    combines: bool = False


@dataclass(frozen=True, slots=True)
class OfWeight:
    """What an op of the optimizer reads, or writes, of each weight: one tensor with a role of `one_of` (`title`), and
    one with each role of `states`."""

    one_of: frozenset[TensorRole]
    title: str
    states: tuple[TensorRole, ...]


@dataclass(frozen=True, kw_only=True)
class StepKind(OpKind):
    """An op of the optimizer: what it `reads` and `writes` of each weight, and which `renewed` states it does both to.
    `does`: it makes an update of gradients, applies one, or both."""

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
    """Sums of squares of reduced gradients."""


@dataclass(frozen=True, kw_only=True)
class AverageKind(OpKind):
    """A state that becomes a moving average of a weight."""


@dataclass(frozen=True, kw_only=True)
class WaitKind(OpKind):
    """A wait: of the host for what a module needs, or of a stream."""


@dataclass(frozen=True, kw_only=True)
class MeasuredKind(OpKind):
    """What was read from a job's traces: of it the time is known alone. `is_pause`: nothing runs meanwhile."""

    is_pause: bool = False


@dataclass(frozen=True, kw_only=True)
class CallKind(OpKind):
    """Communication: a collective, or an exchange. `sums`: it adds up what several ranks have."""

    sums: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What schedules of an extra's model state in their meta, by its module `model_facts`: `stated` gives (key, what
    stands there, with the reason) for each that is not as the ops have it; nothing for schedules of other models."""

    stated: Callable[[Schedule], Iterator[tuple[str, str]]]
