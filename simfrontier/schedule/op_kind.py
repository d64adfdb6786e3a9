"""Kinds of ops, and facts stated of a model, that extras add to schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from simfrontier.records import dataclass

if TYPE_CHECKING:
    from simfrontier.schedule.ir import Schedule

Traffic = Literal["all", "rows", "entries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpKind:
    """A kind of work of an extra's model, by its module `op_kinds`. Its operands may have a label with other sizes than
    the op: it may pick, join or gather what it reads.

    `words`: what its ops are called in explanations. `has_own_labels`: what it writes has labels that the op does not
    go through. `ends`: it reads a value and writes the gradient by it, as a loss does. `is_fused`: its gradient is made
    together with that of the product with its result. `traffic`: what it moves of its operands: all; `rows`, as many of
    what it reads as it writes, and the whole of what it searches; or `entries`, of a state only those that it replaces.
    """

    name: str
    words: str
    has_own_labels: bool = False
    ends: bool = False
    is_fused: bool = False
    traffic: Traffic = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What schedules of an extra's model state in their meta, by its module `model_facts`: `stated` gives (key, what
    stands there, with the reason) for each that is not as the ops have it; nothing for schedules of other models."""

    stated: Callable[[Schedule], Iterator[tuple[str, str]]]
