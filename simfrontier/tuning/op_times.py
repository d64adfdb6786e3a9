"""Times of the ops of small schedules, shared by all plans: what an op takes follows from what a rank has of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from simfrontier.cost import Prices
from simfrontier.schedule import Collective, Compute, Mesh, Op, Schedule, Tensor


@dataclass(frozen=True, slots=True)
class OpForm:
    """What is the same of an op in all plans of a structure: the number of its kind (`OpTimes.form`; None: it shares no
    times), the tensors whose bytes on a rank decide, and whether its time has a floor that is asked for."""

    kind: int | None
    names: tuple[str, ...]
    inside: bool


@dataclass
class OpTimes:
    """Seconds and floors of ops by their kind, the bytes of their tensors and the sizes of their loops on one rank, and
    where their groups stand."""

    prices: Prices
    kinds: dict[Hashable, int] = field(default_factory=dict)
    known: dict[Hashable, tuple[float, float]] = field(default_factory=dict)

    def form(self, op: Op, tensors: Mapping[str, Tensor], inside: bool) -> OpForm:
        """What all plans have in common of an op; `inside`: its floor is asked for."""
        refs = (*op.reads, *op.writes, *op.accumulates) if isinstance(op, Compute) else (*op.reads, *op.writes)
        names = tuple(dict.fromkeys(ref.name for ref in refs))
        held = [tensors[name] for name in names]
        if not isinstance(op, Compute | Collective) or any(tensor.codec is not None for tensor in held):
            return OpForm(None, (), inside)
        place = {ref: number for number, ref in enumerate(dict.fromkeys(refs))}
        operands = tuple(tuple(place[ref] for ref in each) for each in (op.reads, op.writes, op.accumulates))
        whose = tuple(names.index(ref.name) for ref in place)
        what = tuple((tensor.role, tensor.dtype, tensor.dims) for tensor in held)
        kind: Hashable
        if isinstance(op, Compute):
            kind = op.kind, op.lane, op.kernel, op.matmul, tuple(label for label, _ in op.iteration), _cut(op)
        else:
            kind = op.kind, op.codec, op.via, op.per_hop, _cut(op)
        key = kind, inside, operands, whose, what
        return OpForm(self.kinds.setdefault(key, len(self.kinds)), names, inside)

    def of(
        self, ops: Sequence[Op], forms: Sequence[OpForm], schedule: Schedule, local: Mapping[str, int]
    ) -> tuple[list[float], list[float]]:
        """Seconds of ops, and their floors (0 where none is asked for); `local`: bytes of tensors on a rank. Raises
        InputError where one cannot be priced."""
        mesh, took, floor = schedule.mesh, list[float](), list[float]()
        stands: dict[tuple[str, ...], Hashable] = {}
        for op, form in zip(ops, forms, strict=True):
            if form.kind is None:
                times = self._times(op, form, schedule)
            else:
                key = form.kind, tuple([local[name] for name in form.names]), self._more(op, mesh, stands)
                if key not in self.known:
                    self.known[key] = self._times(op, form, schedule)
                times = self.known[key]
            took.append(times[0])
            floor.append(times[1])
        return took, floor

    def _more(self, op: Op, mesh: Mesh, stands: dict[tuple[str, ...], Hashable]) -> Hashable:
        """What else decides: the product's sizes on a rank, or where the groups of a call stand."""
        if isinstance(op, Compute):
            return None if op.matmul is None else (op.local_flops(mesh), *op.local_sizes(mesh).values())
        if isinstance(op, Collective):
            if op.axes not in stands:
                stands[op.axes] = self.prices.over(mesh, op.axes)
            return stands[op.axes]
        raise AssertionError(f"{op.name} shares no times")

    def _times(self, op: Op, form: OpForm, schedule: Schedule) -> tuple[float, float]:
        seconds = self.prices.seconds(op, schedule)
        if not form.inside:
            return seconds, 0.0
        assert isinstance(op, Compute | Collective), f"{op.name} has no floor"
        return seconds, self.prices.floor_s(op, schedule)


def _cut(op: Compute | Collective) -> Hashable:
    """How an op is cut, whichever piece it is."""
    return None if op.piece is None else op.piece[1:]
