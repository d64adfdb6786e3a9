"""Rules of the work of ops: iteration space, matrix product, FLOPs and operands of an op are consistent with one
another and with the shapes of its tensors, and ops of the same name do the same work."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from simfrontier.core.dtypes import INTEGERS
from simfrontier.core.program.cost import newton_schulz_flops
from simfrontier.core.program.finding import Fault
from simfrontier.core.program.ir import GRADIENT_ROLES, Compute, Ref, Tensor
from simfrontier.core.program.kinds import kind_of
from simfrontier.core.program.op_kind import ModelKind, OrthogonalKind, WaitKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """Properties of attention stated in a schedule's metadata: number of heads, number of key-value heads (None: the
    same), features of a head in latent attention (not rotated and rotated ones of keys, and those of values), and
    `causal`: fused attention omits later positions, and in some layers those before a `window`."""

    heads: object = None
    kv_heads: object = None
    causal: object = None
    window: object = None
    nope_features: object = None
    rope_features: object = None
    value_features: object = None

    @classmethod
    def of(cls, meta: Mapping[str, object]) -> Stated:
        return cls(**{each.name: meta.get(each.name) for each in fields(cls)})

    @property
    def joined(self) -> tuple[tuple[int, int], ...]:
        """Allowed ratios between a feature size of an operand and the one in the iteration space, as fractions: 1;
        queries, keys and values joined over one of them; queries over keys or the reverse; and in latent attention
        those of queries, of values, and of what keys and values have for each head."""
        nope, rope, value = self.nope_features, self.rope_features, self.value_features
        if isinstance(nope, int) and isinstance(rope, int) and isinstance(value, int):
            widths = (nope + rope, nope + value, value)
            return ((1, 1), *((one, other) for one in widths for other in widths))
        heads, keys = self.heads, self.kv_heads
        if not (isinstance(heads, int) and isinstance(keys, int) and 0 < keys <= heads):
            return ((1, 1), (3, 1))
        return ((1, 1), (heads + 2 * keys, heads), (heads + 2 * keys, keys), (heads, keys), (keys, heads))


NOTHING_STATED: Final = Stated()


def faults_of_work(op: Compute, tensors: Mapping[str, Tensor], stated: Stated = NOTHING_STATED) -> Iterator[Fault]:
    """Yield the faults in the sizes and operands of an op, considered in isolation and compared with the schedule's
    metadata."""
    kind = kind_of(op)
    if isinstance(kind, OrthogonalKind):
        yield from _orthogonal(op, tensors)
    elif not isinstance(kind, ModelKind) and (op.flops or op.matmul):
        yield f"a {op.kind} of 0 flops, without a product", str(op.flops)
    if isinstance(kind, WaitKind):
        return
    made_refs = [ref for ref in (*op.writes, *op.accumulates) if tensors[ref.name].role != "token"]
    read_refs = [ref for ref in op.reads if tensors[ref.name].role != "token"]
    for refs, did in ((made_refs, "writes"), (read_refs if isinstance(kind, ModelKind) else [], "reads")):
        for ref, times in Counter(refs).items():
            if times > 1:
                yield f"{ref.name} once among what it {did}", f"{times} times"
    if not read_refs or not made_refs:
        yield f"a {op.kind} that reads and writes tensors", f"{len(read_refs)} read, {len(made_refs)} written"
        return
    if not isinstance(kind, ModelKind):
        return
    read, made = [tensors[ref.name] for ref in read_refs], [tensors[ref.name] for ref in made_refs]
    if kind.reads_indices and read[0].dtype not in INTEGERS:
        yield f"whole numbers first, of type {' or '.join(sorted(INTEGERS))}", f"{read[0].name} as {read[0].dtype}"
    unlike = next((tensor for tensor in (*read, *made) if tensor.dims != read[0].dims), None)
    if kind.adds_values and unlike is not None:
        yield (
            f"an {op.kind} of values with the labels {', '.join(read[0].dims)}",
            f"{unlike.name}: {', '.join(unlike.dims)}",
        )
    yield from _roles(op, tensors)
    yield from _space(op)
    yield from _order(op, kind, read, made)
    yield from _sizes(op, kind, read, made, stated)
    yield from _product(op, kind, read, made, stated)
    yield from _rows(op, kind, read)


def _orthogonal(op: Compute, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Check that Newton-Schulz iterations multiply the matrices of the one update that they read."""
    read, made = (sorted({(tensors[ref.name].weight, ref.layer) for ref in refs}) for refs in (op.reads, op.writes))
    roles = [tensors[ref.name].role for ref in (*op.reads, *op.writes)]
    if read != made or roles != ["update", "update"]:
        yield f"a {op.kind} that reads an update and writes that of the same weight", f"{read} and {made}, {roles}"
        return
    update, space = tensors[op.reads[0].name], dict(op.iteration)
    labels = [label for group in op.matmul or () for label in group]
    *outer, smaller, larger = (*update.shape[:-2], *sorted(update.shape[-2:]))
    wanted = [*outer, smaller, larger, smaller]
    if [space.get(label) for label in labels] != wanted or len(space) != len(wanted):
        yield f"products of {' × '.join(map(str, wanted))}", " × ".join(str(size) for size in space.values())
    elif op.flops != math.prod(outer) * newton_schulz_flops(smaller, larger):
        yield f"{math.prod(outer) * newton_schulz_flops(smaller, larger)} flops, of its matrices", str(op.flops)


def _space(op: Compute) -> Iterator[Fault]:
    """Check the labels of an op's iteration space: all are distinct, and each mesh axis in `split` shards exactly one
    of them."""
    labels = [label for label, _ in op.iteration]
    for aspect, names in (("label", labels), ("axis", [axis for axis, _ in op.split])):
        twice = next((name for name, times in Counter(names).items() if times > 1), None)
        if twice is not None:
            yield f"{aspect} {twice} once", "twice"
    for axis, label in op.split:
        if label not in labels:
            yield f"a label of the op's iteration space for {axis} to cut", repr(label)


def _order(op: Compute, kind: ModelKind, read: list[Tensor], written: list[Tensor]) -> Iterator[Fault]:
    """Check that an op other than a matrix product iterates over labels in the order of its result, and that the first
    operand of a loss op has all labels of the iteration space."""
    labels = [label for label, _ in op.iteration]
    if kind.is_of_loss and not {*labels} <= {*read[0].dims}:
        yield f"an operand with the labels {', '.join(labels)} first", f"{read[0].name}: {', '.join(read[0].dims)}"
    for tensor in written if op.matmul is None else ():
        wanted = [label for label in tensor.dims if label in labels]
        ordered = [label for label in labels if label in wanted]
        if tensor.role == "activation" and wanted != ordered:
            yield f"the labels {', '.join(wanted)} in the order of {tensor.name}", ", ".join(ordered)


def _sizes(op: Compute, kind: ModelKind, read: list[Tensor], written: list[Tensor], stated: Stated) -> Iterator[Fault]:
    """Check that every label of the iteration space has the size that the operands give it. If a matrix product splits
    features into heads, the label of heads must have the number of heads as its size."""
    sizes, joined, heads = _sizes_by_label(read, written), stated.joined, stated.heads
    space = dict(op.iteration)
    inside = [label for label in space if label not in sizes]  # features of a head: no operand has this label
    for label, size in space.items():
        apart = sizes[label] - {size}  # of features that are split into heads and features of a head
        is_split = any(_is_times(one, size * space[other], joined) for other in inside for one in apart)
        if is_split and op.matmul is not None and size != heads:
            yield f"meta heads to be {size}, as {label} of this op", "nothing said" if heads is None else str(heads)
        if size in sizes[label] or is_split:
            continue
        text = " or ".join(map(str, sorted(sizes[label])))
        if label in inside:
            by = {n for other in space for n in sizes[other] if _is_times(n, size * space[other], joined)}
            rows = op.matmul[1] if op.matmul is not None else ()
            columns = op.matmul is not None and label in op.matmul[2]
            if not by and not (columns and size == math.prod(space.get(row, 1) for row in rows)):
                yield f"{label} of a size that its operands have, or that divides one of theirs", str(size)
        else:
            yield f"{label} of size {text}, as its operands have it", str(size)
    yield from _other_sizes(op, kind, space, inside, (*read, *written), joined)
    if kind.has_own_labels or op.matmul is not None:
        return
    for tensor in written:
        lacking = [label for label in tensor.dims if label not in space]
        if lacking and tensor.role == "activation":
            yield f"{lacking[0]}, a label of {tensor.name}, in its iteration space", ", ".join(space) or "no labels"


def _other_sizes(
    op: Compute,
    kind: ModelKind,
    space: dict[str, int],
    inside: list[str],
    operands: tuple[Tensor, ...],
    joined: tuple[tuple[int, int], ...],
) -> Iterator[Fault]:
    """Check the operands in which a label has another size than in the iteration space. This is allowed only for
    features that are split into heads or joined (such as QKV), for joined gate and up projections, and for kinds of
    extras that select or join operands."""
    is_plain = kind.products == {}
    if kind.resizes_labels or (is_plain and not all(set(each.dims) <= set(space) for each in operands)):
        return
    for tensor in operands:
        for label, size in zip(tensor.dims, tensor.shape, strict=False):
            one = space.get(label, size)
            apart = any(_is_times(size, one * space[other], joined) for other in inside)
            gated = kind.is_gated and size == 2 * one
            if size != one and not apart and not gated and not _is_times(one, size, joined):
                yield f"{tensor.name} with {label} of size {one}, as the op has it", str(size)


def _is_times(one: int, other: int, factors: tuple[tuple[int, int], ...]) -> bool:
    """Return whether the ratio `one / other` equals one of some fractions, given as (numerator, denominator)."""
    return any(one * of == other * times for times, of in factors)


def _sizes_by_label(read: list[Tensor], written: list[Tensor]) -> defaultdict[str, set[int]]:
    sizes: defaultdict[str, set[int]] = defaultdict(set)
    for tensor in (*read, *written):
        for label, size in zip(tensor.dims, tensor.shape, strict=False):
            sizes[label].add(size)
    return sizes


def _product(
    op: Compute, kind: ModelKind, read: list[Tensor], written: list[Tensor], stated: Stated
) -> Iterator[Fault]:
    """Check that a matrix product names every label of its iteration space once in (batch, m, n, k), that its operands
    have suitable labels, and that its FLOPs are two per multiply-add. Other ops must state 0 FLOPs."""
    products = kind.products
    if op.matmul is None or products is None:
        if products is not None:
            yield f"a {op.kind} with the labels of its product (batch, m, n, k)", "none"
        elif op.matmul is not None:
            yield f"a {op.kind} without the labels of a product", "labels of (batch, m, n, k)"
        if op.flops and products is None:
            yield f"a {op.kind} of 0 flops", str(op.flops)
        return
    space = dict(op.iteration)
    labels = [label for group in op.matmul for label in group]
    if sorted(labels) != sorted(space):
        yield f"(batch, m, n, k) that name {', '.join(space)} once", ", ".join(labels) or "nothing"
        return
    flops = 2 * math.prod(space.values())
    if products:
        features = math.prod(space.get(label, 1) for label in op.matmul[3])
        value = stated.value_features if isinstance(stated.value_features, int) else features
        of_keys, of_values = products.get(_values(written), (1, 0))
        flops = flops // features * (of_keys * features + of_values * value)
    rows, seen_by = (math.prod(space.get(label, 1) for label in group) for group in op.matmul[1:3])
    if products and stated.causal == 1 and rows == seen_by:
        pairs = rows * (rows + 1) // 2
        left = max(0, rows - stated.window) if isinstance(stated.window, int) else 0
        in_window = flops // rows**2 * (pairs - left * (left + 1) // 2)
        flops = in_window if op.flops == in_window else flops // rows**2 * pairs  # of s² pairs; some layers see all
    if op.flops != flops:
        yield f"{flops} flops, of its iteration space", str(op.flops)
    _, m, n, k = op.matmul
    seen = {label for tensor in (*read, *written) for label in tensor.dims}
    inside = [label for label in space if label not in seen]
    values = [tensor for tensor in read if tensor.role == "activation"]
    mixed = next((tensor for tensor in values if set(tensor.dims) & set(m) and set(tensor.dims) & set(n)), None)
    if mixed is not None and not inside and all(set(tensor.dims) <= set(space) for tensor in values):
        yield f"no operand with labels of both m and n, {', '.join((*m, *n))}", f"{mixed.name}: {', '.join(mixed.dims)}"
    misplaced = [label for label in m if label in seen and label not in read[0].dims]
    if misplaced:
        yield f"rows (m) that are labels of {read[0].name}, its first operand", ", ".join(misplaced)
    if inside:
        return
    product = written[0]
    summed = [label for label in k if label in product.dims]
    if summed:
        yield f"{summed[0]}, which the product sums over, to be no label of {product.name}", ", ".join(product.dims)


def _rows(op: Compute, kind: ModelKind, read: list[Tensor]) -> Iterator[Fault]:
    """Check that an op that needs whole rows of its operand has them on one rank, or reads statistics already summed
    over the ranks that share a row."""
    if not kind.has_whole_rows:
        return
    row = {*op.matmul[2], *op.matmul[3]} if op.matmul is not None else {*read[0].dims[-1:]}
    has_sums = op.matmul is None and any(each.role == "activation" and not row & {*each.dims} for each in read)
    cut = next(((axis, label) for axis, label in op.split if label in row), None)
    if cut is not None and not has_sums:
        yield f"whole rows of a {op.kind} along {cut[1]}, or sums over them", f"{cut[0]} cuts {cut[1]}"


def _values(written: list[Tensor]) -> int:
    return sum(tensor.role == "activation" for tensor in written)


# ── operands by role ──

_ALLOWED: Final = {
    "reads": frozenset({"activation", "weight", "copy", "gathered", "state", "constant", "token"}),
    "writes": frozenset({"activation", "gradient", "state", "token"}),
    "accumulates": GRADIENT_ROLES,
}


def _roles(op: Compute, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Check the tensor roles of an op of the model: it reads values, weights and states, and writes values, gradients
    and states."""
    for access, allowed in _ALLOWED.items():
        refs: tuple[Ref, ...] = getattr(op, access)
        for ref in refs:
            tensor = tensors[ref.name]
            if tensor.role not in allowed:
                yield f"{ref.name}, which it {access}, with one of the roles {', '.join(sorted(allowed))}", tensor.role
            elif tensor.codec is not None:
                yield f"{ref.name}, which it {access}, not coded", f"coded as {tensor.codec}"
            elif not (tensor.per_micro or tensor.persistent):
                yield f"{ref.name} of a micro-batch, as all that passes through the model", "one for all micro-batches"


# ── ops of one name ──


class OpsByName:
    """The work of the first op of each name. Ops of the same name (forward and recomputed) must do the same work, on
    the same logical operands."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors
        self.value_of = {name: tensor.weight or tensor.value for name, tensor in tensors.items()}
        self.seen: dict[str, dict[str, Any]] = {}

    def faults(self, op: Compute) -> Iterator[Fault]:
        """Yield the differences between an op and the first op of the same name."""
        signature = {
            "kind": op.kind,
            "iteration space": op.iteration,
            "product": op.matmul,
            "split": tuple(sorted(op.split)),
            "kernel": op.kernel,
            "operands": self._forms(self._operands(op)),
            "results": self._forms((*op.writes, *op.accumulates)),
        }
        first = self.seen.setdefault(op.name, signature)
        for aspect, value in signature.items():
            if value != first[aspect]:
                yield f"the {aspect} of the other {op.name}, {_value_text(first[aspect])}", _value_text(value)

    def _operands(self, op: Compute) -> tuple[Ref, ...]:
        """Return the operands of an op, but not the weight of which a product makes the gradient: it is one where it is
        gathered for the whole module."""
        made = [self.tensors[ref.name].weight for ref in (*op.writes, *op.accumulates)] if op.matmul else []
        return tuple(ref for ref in op.reads if (weight := self.tensors[ref.name].weight) is None or weight not in made)

    def _forms(self, refs: tuple[Ref, ...]) -> tuple[str, ...]:
        return tuple(self.value_of[ref.name] for ref in refs if self.tensors[ref.name].role != "token")


def _value_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(
            f"{each[0]} {each[1]}" if isinstance(each, tuple) and len(each) == 2 else str(each) for each in value
        )
    return str(value) or "none"
