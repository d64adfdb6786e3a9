"""What the placement rules compare: the operands of an op in canonical form on the mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from simfrontier.base.errors import nearest
from simfrontier.core.codecs import Codec
from simfrontier.core.program.checks.roles import roles_of_pair
from simfrontier.core.program.finding import Findings, Rule
from simfrontier.core.program.ir import Collective, Compute, Exchange, Op, Ref, Schedule, Tensor
from simfrontier.core.program.kinds import is_copy
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import Placement

Report = Callable[[Rule, str, str], None]
# Unknown names for which the nearest declared one is looked for: a broken schedule may have thousands
MAX_LOOKED_FOR = 20


@dataclass(frozen=True, slots=True)
class CanonicalLayout:
    """What the rules compare of a tensor, in canonical form on the mesh."""

    tensor: Tensor
    placement: Placement
    nesting: tuple[str, ...]
    stacked: tuple[str, ...]
    weight: str | None


class Operands:
    """The operands of all ops, and the rules that hold for any of them."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.num_unknown = 0
        self.mesh = mesh = schedule.mesh
        self.of = {
            name: CanonicalLayout(
                t, by_dimension(t.placement.on(mesh)), mesh.live(t.nesting), mesh.live(t.stacked), t.weight
            )
            for name, t in schedule.tensors.items()
        }

    def knows(self, op: Op, report: Report) -> bool:
        """Whether all tensors and axes that an op names exist; also that it asks for no layer or micro-batch of a
        tensor that has none."""
        known = True
        for ref in (*op.reads, *op.writes, *op.accumulates):
            if ref.name not in self.of:
                report("references", f"a declared tensor{self._meant(ref.name)}", f"{ref.name!r}")
                known = False
                continue
            tensor = self.of[ref.name].tensor
            for aspect, offset, is_per in (
                ("layer", ref.layer, tensor.per_layer),
                ("micro-batch", ref.micro, tensor.per_micro),
            ):
                if offset and not is_per:
                    report(
                        "references",
                        f"{ref.name}, which is of no {aspect}",
                        f"that of the {aspect} {offset:+d} from here",
                    )
        for axis in _axes_of(op):
            if axis not in self.mesh.names:
                report("references", f"an axis of the mesh; {nearest(axis, self.mesh.names)}", f"{axis!r}")
                known = False
        return known

    def _meant(self, name: str) -> str:
        """The declared name nearest to an unknown one; only for the first few, since the search takes long."""
        self.num_unknown += 1
        return f"; {nearest(name, self.of)}" if self.num_unknown <= MAX_LOOKED_FOR else ""

    # ── pairs: what goes in comes out ──

    def pairs(self, op: Op, src: tuple[Ref, ...], dst: tuple[Ref, ...], report: Report) -> list[tuple[Ref, Ref]]:
        """The operands in pairs of one logical tensor each; what does not pair up is reported."""
        src, dst = self.without_tokens(src), self.without_tokens(dst)
        if len(src) != len(dst) or not src:
            report(
                "references", "as many sources as targets, at least one", f"{len(src)} sources and {len(dst)} targets"
            )
        for a, b in zip(src, dst, strict=False):
            self._same_tensor(op, a, b, report)
        return list(zip(src, dst, strict=False))

    def without_tokens(self, refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
        """An op may wait for tokens and write some, whatever else it does."""
        return tuple(ref for ref in refs if self.of[ref.name].tensor.role != "token")

    def _same_tensor(self, op: Op, a: Ref, b: Ref, report: Report) -> None:
        x, y = self.of[a.name], self.of[b.name]
        for aspect, left, right in (
            ("shape", x.tensor.shape, y.tensor.shape),
            ("nesting", x.nesting, y.nesting),
            ("weight", x.weight, y.weight),
        ):
            if left != right:
                report("placements", f"{b.name} with the {aspect} of {a.name}, {text_of(left)}", text_of(right))
        is_added = isinstance(op, Compute) and b in op.accumulates
        if x.tensor.dtype != y.tensor.dtype and not is_added:
            report("placements", f"{b.name} as {x.tensor.dtype}, like {a.name}", y.tensor.dtype)
        for expected, got in roles_of_pair(op.kind, x.tensor, y.tensor, x.weight):
            report("facts", expected, got)
        if x.tensor.per_layer and y.tensor.per_layer and a.layer != b.layer:
            report("references", f"{b.name} of the layer of {a.name} ({a.layer:+d} from the call)", f"{b.layer:+d}")
        if x.tensor.per_micro and y.tensor.per_micro and a.micro != b.micro:
            report(
                "references", f"{b.name} of the micro-batch of {a.name} ({a.micro:+d} from the call)", f"{b.micro:+d}"
            )

    def placed(self, name: str, wanted: Placement, report: Report, why: str = "") -> None:
        got = self.of[name].placement
        if got != by_dimension(wanted):
            report("placements", f"{name} as [{wanted}]{why}", f"[{got}]")

    def coded(self, name: str, wanted: Codec | None, report: Report) -> None:
        got = self.of[name].tensor.codec
        if got != wanted:
            report("placements", f"{name} {coded_text(wanted)}", coded_text(got))

    def stacked(self, name: str, wanted: tuple[str, ...], report: Report) -> None:
        got = self.of[name].stacked
        if set(got) != set(wanted):
            report("placements", f"{name} {stacked_text(wanted)}", stacked_text(got))

    def plain(self, name: str, report: Report) -> None:
        self.coded(name, None, report)
        self.stacked(name, (), report)


def _axes_of(op: Op) -> Iterable[str]:
    if isinstance(op, Collective):
        return op.axes
    return (op.axis,) if isinstance(op, Exchange) else [axis for axis, _ in op.split]


def by_dimension(placement: Placement) -> Placement:
    """The same placement with its shards in the order of dimensions: only within one does their order matter."""
    if len(placement.shards) < 2:
        return placement
    return replace(placement, shards=tuple(sorted(placement.shards, key=lambda shard: shard[1])))


def text_of(value: object) -> str:
    return "×".join(map(str, value)) or "()" if isinstance(value, tuple) else str(value)


def coded_text(codec: Codec | None) -> str:
    return "not coded" if codec is None else f"coded as {codec}"


def stacked_text(axes: tuple[str, ...]) -> str:
    return f"stacked over {'+'.join(axes)}" if axes else "not stacked"


Order = tuple[str, ...]  # axes that are digits of a flat index, the first slowest


def check_layouts(schedule: Schedule, findings: Findings) -> None:
    """A gather fills its target, and a scatter takes its source, with the digits of its axes first: local ops put them
    in the order of the nesting, all others take that order as given."""
    ops = schedule.distinct_ops()
    turned: dict[str, Order] = {}
    mesh = schedule.mesh
    for op in ops:
        if not isinstance(op, Collective) or op.kind not in ("all_gather", "reduce_scatter"):
            continue
        for a, b in zip(op.src, op.dst, strict=False):
            whole, part = (b, a) if op.kind == "all_gather" else (a, b)
            if not set(mesh.live(op.axes)) <= schedule.tensors[part.name].placement.flat:
                continue
            tensor = schedule.tensors[whole.name]
            order = _order(tensor, mesh, mesh.live(op.axes))
            if order != _order(tensor, mesh):
                turned[whole.name] = order
    if not turned:
        return
    for op in ops:
        if not isinstance(op, Compute) or is_copy(op):
            continue
        for ref in (*op.reads, *op.writes, *op.accumulates):
            if ref.name in turned:
                expected = (
                    f"{ref.name} in the order of its nesting, {_order_text(_order(schedule.tensors[ref.name], mesh))}"
                )
                got = f"in that of a collective, {_order_text(turned[ref.name])}; a permute puts it in order"
                findings.add("facts", f"{op.kind} {op.name}", "all ranks", expected, got)


def _order(tensor: Tensor, mesh: Mesh, first: Order = ()) -> Order:
    """The digits that a rank holds of a tensor, those of a collective before the others."""
    free = [axis for axis in mesh.live(tensor.nesting) if axis not in tensor.placement.flat]
    return (*first, *(axis for axis in free if axis not in first))


def _order_text(order: Order) -> str:
    return "+".join(order) or "none"
