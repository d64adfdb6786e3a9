"""Ops of several schedules that take equally long, and tensors that are equally large: those that differ only in the
layer and the micro-batch to which they belong, so that each of their kinds is priced once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from simfrontier.core.program import Collective, Compute, Op, Schedule, Tensor

NAMES = ("name", "form_of", "recomputes", "stage")  # what tells a tensor from others of its kind
OPERANDS = ("reads", "writes", "accumulates", "src", "dst", "token")
TENSOR_FACTS = tuple([each.name for each in fields(Tensor) if each.name not in NAMES])
OP_FACTS = {
    kind: tuple([each.name for each in fields(kind) if each.name not in ("number", *OPERANDS)])
    for kind in (Compute, Collective)
}
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class EqualOps:
    """Numbers of the `ops` and `tensors` of each schedule, in its order; equal for equal ones."""

    ops: list[list[int]]
    tensors: list[list[int]]

    @classmethod
    def of(cls, schedules: Iterable[Schedule]) -> EqualOps:
        """Return the numbers in schedules without exchanges."""
        sizes: dict[Hashable, int] = {}
        kernels: dict[Hashable, int] = {}
        ops, tensors = [], []
        for schedule in schedules:
            numbers = [sizes.setdefault(_tensor(each), len(sizes)) for each in schedule.tensors.values()]
            number_of = dict(zip(schedule.tensors, numbers, strict=True))
            tensors.append(numbers)
            ops.append([kernels.setdefault(_op(op, number_of), len(kernels)) for op in schedule.ops])
        return cls(ops, tensors)


def of_equals(numbers: Sequence[int], each: Iterable[T], fact: Callable[[T], S], known: dict[int, S]) -> list[S]:
    """Return a fact of each, asked once for all of equal number; `known` has those asked before."""
    for number, one in zip(numbers, each, strict=True):
        if number not in known:
            known[number] = fact(one)
    return [known[number] for number in numbers]


def _tensor(tensor: Tensor) -> Hashable:
    return tuple([getattr(tensor, name) for name in TENSOR_FACTS])


def _op(op: Op, number_of: Mapping[str, int]) -> Hashable:
    assert isinstance(op, Compute | Collective), f"{op.name}: only stages exchange"
    operands = (tuple([number_of[ref.name] for ref in refs]) for refs in (op.reads, op.writes, op.accumulates))
    return type(op), *[getattr(op, name) for name in OP_FACTS[type(op)]], *operands
