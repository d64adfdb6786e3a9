"""Canonical layouts of tensors on the mesh, and the rules for operands that apply to ops of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from simfrontier.base.errors import nearest
from simfrontier.core.codecs import Codec
from simfrontier.core.program.finding import Findings, Rule
from simfrontier.core.program.ir import Collective, Compute, Exchange, Op, Ref, Schedule, Tensor, TensorRole
from simfrontier.core.program.kinds import KINDS, is_copy
from simfrontier.core.program.op_kind import CallKind, CopyKind
from simfrontier.core.program.placement import Placement, by_dimension

RuleFault = tuple[Rule, str, str]  # (rule, expected, found)
_GIVES: Final[frozenset[TensorRole]] = frozenset(
    {"weight", "copy", "gathered", "gradient", "accumulator", "encoded"}
)  # of a weight's tensors
_SUMS: Final[frozenset[TensorRole]] = frozenset({"gradient", "accumulator", "encoded"})


@dataclass(frozen=True, slots=True)
class CanonicalLayout:
    """The layout of a tensor in canonical form (axes of size 1 removed), so that the rules can compare layouts of
    tensors."""

    tensor: Tensor
    placement: Placement
    nesting: tuple[str, ...]
    stacked: tuple[str, ...]
    weight: str | None


class Layouts:
    """The canonical layouts of all tensors. Each checking method yields the faults of some operands."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.mesh = mesh = schedule.mesh
        self.of = {
            name: CanonicalLayout(
                t, by_dimension(t.placement.on(mesh)), mesh.live(t.nesting), mesh.live(t.stacked), t.weight
            )
            for name, t in schedule.tensors.items()
        }
        self._has_unknown = False

    def tensor(self, ref: Ref) -> Tensor:
        return self.of[ref.name].tensor

    def without_tokens(self, refs: Iterable[Ref]) -> tuple[Ref, ...]:
        """Return the references except those to tokens; any op may wait for tokens and write tokens."""
        return tuple(ref for ref in refs if self.tensor(ref).role != "token")

    def unknown(self, op: Op) -> Iterator[RuleFault]:
        """Yield a fault for each tensor or mesh axis that an op names but the schedule does not declare. The most
        similar tensor name is searched only for the first such tensor."""
        for ref in (*op.reads, *op.writes, *op.accumulates):
            if ref.name not in self.of:
                hint = "" if self._has_unknown else f"; {nearest(ref.name, self.of)}"
                self._has_unknown = True
                yield "references", f"a declared tensor{hint}", f"{ref.name!r}"
        for axis in _axes_of(op):
            if axis not in self.mesh.names:
                yield "references", f"an axis of the mesh; {nearest(axis, self.mesh.names)}", f"{axis!r}"

    def offsets(self, op: Op) -> Iterator[RuleFault]:
        """Check that no op has a layer or micro-batch offset in the reference to a tensor that does not exist per layer
        or micro-batch."""
        for ref in (*op.reads, *op.writes, *op.accumulates):
            tensor = self.tensor(ref)
            for aspect, offset, is_per in (
                ("layer", ref.layer, tensor.per_layer),
                ("micro-batch", ref.micro, tensor.per_micro),
            ):
                if offset and not is_per:
                    here = f"that of the {aspect} {offset:+d} from here"
                    yield "references", f"{ref.name}, which is of no {aspect}", here

    # ── one operand ──

    def placed(self, name: str, wanted: Placement, why: str = "") -> Iterator[RuleFault]:
        got = self.of[name].placement
        if got != by_dimension(wanted):
            yield "placements", f"{name} as [{wanted}]{why}", f"[{got}]"

    def coded(self, name: str, wanted: Codec | None) -> Iterator[RuleFault]:
        got = self.of[name].tensor.codec
        if got != wanted:
            yield "placements", f"{name} {_coded_text(wanted)}", _coded_text(got)

    def stacked(self, name: str, wanted: tuple[str, ...]) -> Iterator[RuleFault]:
        got = self.of[name].stacked
        if set(got) != set(wanted):
            yield "placements", f"{name} {stacked_text(wanted)}", stacked_text(got)

    def plain(self, name: str) -> Iterator[RuleFault]:
        yield from self.coded(name, None)
        yield from self.stacked(name, ())

    def like(self, name: str, other: str) -> Iterator[RuleFault]:
        """Check that a tensor that is neither encoded nor stacked has the placement and shape of another tensor."""
        yield from self.placed(name, self.of[other].placement, f" like {other}")
        yield from self.plain(name)
        if self.of[name].tensor.shape != self.of[other].tensor.shape:
            yield "placements", f"{name} with the shape of {other}", text_of(self.of[name].tensor.shape)

    # ── pairs: what goes in comes out ──

    def pairs(self, op: Op, src: tuple[Ref, ...], dst: tuple[Ref, ...]) -> Iterator[RuleFault]:
        """Check that the source and the target of each pair of operands represent the same logical tensor."""
        src, dst = self.without_tokens(src), self.without_tokens(dst)
        if len(src) != len(dst) or not src:
            got = f"{len(src)} sources and {len(dst)} targets"
            yield "references", "as many sources as targets, at least one", got
        for a, b in zip(src, dst, strict=False):
            yield from self._same_tensor(op, a, b)

    def _same_tensor(self, op: Op, a: Ref, b: Ref) -> Iterator[RuleFault]:
        x, y = self.of[a.name], self.of[b.name]
        is_added = isinstance(op, Compute) and b in op.accumulates
        for aspect, left, right in (
            ("shape", x.tensor.shape, y.tensor.shape),
            ("nesting", x.nesting, y.nesting),
            ("weight", x.weight, y.weight),
            ("type", x.tensor.dtype, x.tensor.dtype if is_added else y.tensor.dtype),
        ):
            if left != right:
                yield "placements", f"{b.name} with the {aspect} of {a.name}, {text_of(left)}", text_of(right)
        yield from _roles_of_pair(op.kind, x.tensor, y.tensor)
        for aspect, here, there, is_per in (
            ("layer", a.layer, b.layer, x.tensor.per_layer and y.tensor.per_layer),
            ("micro-batch", a.micro, b.micro, x.tensor.per_micro and y.tensor.per_micro),
        ):
            if is_per and here != there:
                yield "references", f"{b.name} of the {aspect} of {a.name} ({here:+d} from the call)", f"{there:+d}"


def _roles_of_pair(kind: str, src: Tensor, dst: Tensor) -> Iterator[RuleFault]:
    """Check the tensor roles (gradient, activation, …) of the source and the target of a collective, an exchange or a
    local copy."""
    known, weight = KINDS[kind], src.weight
    sums = known.sums if isinstance(known, CallKind) else isinstance(known, CopyKind) and known.adds
    of_gradients = _SUMS if sums else _GIVES
    allowed = {src.role, "encoded"} if weight is None or (src.role == "update" and not sums) else of_gradients
    if src.role == "norms" and sums:  # norms of a weight and its update, summed over the ranks that hold parts
        allowed = {"norms"}
    if weight is None and src.role == "encoded":
        allowed = {"encoded", "activation"}
    for end in (src, dst):
        if end.role not in allowed:
            a_kind = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
            yield "facts", f"{end.name} with one of the roles {', '.join(sorted(allowed))} in {a_kind}", end.role
    if src.per_layer != dst.per_layer:
        yield "facts", f"{dst.name} {of_layers(src.per_layer)}, as {src.name} is", of_layers(dst.per_layer)
    if src.per_micro != dst.per_micro and not (src.persistent or dst.persistent):
        of = {True: "of a micro-batch", False: "of no micro-batch"}
        yield "facts", f"{dst.name} {of[src.per_micro]}, as {src.name} is", of[dst.per_micro]


def _axes_of(op: Op) -> Iterable[str]:
    if isinstance(op, Collective):
        return op.axes
    return (op.axis,) if isinstance(op, Exchange) else [axis for axis, _ in op.split]


def text_of(value: object) -> str:
    return "×".join(map(str, value)) or "()" if isinstance(value, tuple) else str(value)


def of_layers(per_layer: bool) -> str:
    return "of every layer" if per_layer else "of no layer"


def _coded_text(codec: Codec | None) -> str:
    return "not coded" if codec is None else f"coded as {codec}"


def stacked_text(axes: tuple[str, ...]) -> str:
    return f"stacked over {'+'.join(axes)}" if axes else "not stacked"


# ── the order of digits ──

Order = tuple[str, ...]  # axes that are digits of a flat index, the first slowest


def check_layouts(schedule: Schedule, findings: Findings) -> None:
    """Check the order of elements in tensors that are flat over several axes. An all-gather fills its target, and a
    reduce-scatter reads its source, with the axes of the collective as the slowest digits of the flat index. Local
    copies convert this to the order of the tensor's nesting, which all other ops assume."""
    turned: dict[str, Order] = {}
    mesh, tensors = schedule.mesh, schedule.tensors
    for op in schedule.ops:
        if not isinstance(op, Collective) or op.kind not in ("all_gather", "reduce_scatter"):
            continue
        axes = mesh.live(op.axes)
        for whole, part in (
            zip(op.dst, op.src, strict=False) if op.kind == "all_gather" else zip(op.src, op.dst, strict=False)
        ):
            order = _order(tensors[whole.name], schedule, axes)
            if set(axes) <= tensors[part.name].placement.flat and order != _order(tensors[whole.name], schedule):
                turned[whole.name] = order
    for op in schedule.ops if turned else ():
        if isinstance(op, Compute) and not is_copy(op):
            for ref in (*op.reads, *op.writes, *op.accumulates):
                if ref.name in turned:
                    order = _order(tensors[ref.name], schedule)
                    expected = f"{ref.name} in the order of its nesting, {'+'.join(order)}"
                    got = f"in that of a collective, {'+'.join(turned[ref.name])}; a permute puts it in order"
                    findings.add("facts", f"{op.kind} {op.name}", "all ranks", expected, got)


def _order(tensor: Tensor, schedule: Schedule, first: Order = ()) -> Order:
    """Return the axes that are digits of a tensor's flat index within a rank, slowest first; the axes of a collective
    (`first`) precede the others."""
    free = [axis for axis in schedule.mesh.live(tensor.nesting) if axis not in tensor.placement.flat]
    return (*first, *(axis for axis in free if axis not in first))
