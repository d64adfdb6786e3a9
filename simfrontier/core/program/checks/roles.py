"""Rules of reads and writes: operands by role, states written once a step, no read before a write, nothing computed in
vain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from simfrontier.core.program.finding import Fault
from simfrontier.core.program.ir import GRADIENT_ROLES, Compute, Ref, Tensor
from simfrontier.core.program.kinds import KINDS
from simfrontier.core.program.op_kind import CallKind, CopyKind

_GIVES: Final = frozenset({"weight", "copy", "gathered", "gradient", "accumulator", "encoded"})
_SUMS: Final = frozenset({"gradient", "accumulator", "encoded"})  # of a weight's tensors
_WORK: Final = {
    "reads": frozenset({"activation", "weight", "copy", "gathered", "state", "constant", "token"}),
    "writes": frozenset({"activation", "gradient", "state", "token"}),
    "accumulates": GRADIENT_ROLES,
}


def roles_of_work(op: Compute, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Work of the model reads values, weights and states, and makes values, gradients and states."""
    for access, allowed in _WORK.items():
        refs: tuple[Ref, ...] = getattr(op, access)
        for ref in refs:
            tensor = tensors[ref.name]
            if tensor.role not in allowed:
                yield f"{ref.name}, which it {access}, with one of the roles {', '.join(sorted(allowed))}", tensor.role
            elif tensor.codec is not None:
                yield f"{ref.name}, which it {access}, not coded", f"coded as {tensor.codec}"
            elif not (tensor.per_micro or tensor.persistent):
                yield f"{ref.name} of a micro-batch, as all that passes through the model", "one for all micro-batches"


def roles_of_pair(kind: str, src: Tensor, dst: Tensor, weight: str | None) -> Iterator[Fault]:
    """The roles that a collective, an exchange or a local move may read and write."""
    known = KINDS[kind]
    sums = known.sums if isinstance(known, CallKind) else isinstance(known, CopyKind) and known.adds
    allowed = (_SUMS if sums else _GIVES) if weight is not None else {src.role, "encoded"}
    if src.role == "norms" and sums:  # of a weight and its update, over all ranks that have parts of them
        allowed = frozenset({"norms"})
    if weight is None and src.role == "encoded":
        allowed = {"encoded", "activation"}
    for end in (src, dst):
        if end.role not in allowed and "token" not in (src.role, dst.role):
            yield f"{end.name} with one of the roles {', '.join(sorted(allowed))} in {_a(kind)}", end.role
    if src.per_layer != dst.per_layer:
        yield f"{dst.name} {_of_layers(src)}, as {src.name} is", _of_layers(dst)
    if src.per_micro != dst.per_micro and not (src.persistent or dst.persistent):
        of = {True: "of a micro-batch", False: "of no micro-batch"}
        yield f"{dst.name} {of[src.per_micro]}, as {src.name} is", of[dst.per_micro]


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _of_layers(tensor: Tensor) -> str:
    return "of every layer" if tensor.per_layer else "of no layer"
